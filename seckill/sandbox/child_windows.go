package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var postgresDeathSignal, redisDeathSignal os.Signal = os.Kill, os.Kill

// prepare keeps Ctrl-C at the console from the child, so that this process stops the servers in
// order.
func prepare(cmd *exec.Cmd, _ program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// job is a job object that ends all its processes when its last handle is closed. Only this process
// has a handle, so the children die with it.
var job = sync.OnceValues(func() (windows.Handle, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("make a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return 0, fmt.Errorf("limit a job object: %w", err)
	}
	return handle, nil
})

// addToJob puts a child and its future children into the job.
func addToJob(p *os.Process) error {
	handle, err := job()
	if err != nil {
		return err
	}
	child, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return fmt.Errorf("open the child process: %w", err)
	}
	defer windows.CloseHandle(child)
	if err := windows.AssignProcessToJobObject(handle, child); err != nil {
		return fmt.Errorf("put the child process into a job: %w", err)
	}
	return nil
}

// postgresStopSteps returns the fast shutdown and the immediate one. Windows has no signals: pg_ctl
// speaks to Postgres through a pipe.
func postgresStopSteps(bin, data string) []func(*os.Process) error {
	stop := func(mode string) func(*os.Process) error {
		return func(*os.Process) error {
			return exec.Command(filepath.Join(bin, "pg_ctl.exe"), "stop", "-W", "-D", data, "-m", mode).Run()
		}
	}
	return []func(*os.Process) error{stop("fast"), stop("immediate")}
}

func redisStopSteps() []func(*os.Process) error { return nil }

// alive reports whether a process of this id exists.
func alive(pid int) bool {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return err == windows.ERROR_ACCESS_DENIED
	}
	defer windows.CloseHandle(handle)
	var code uint32
	return windows.GetExitCodeProcess(handle, &code) == nil && code == 259 // STILL_ACTIVE
}

// endOldServers does nothing: the job object has ended them.
func endOldServers(_, _ string, _ bool) {}
