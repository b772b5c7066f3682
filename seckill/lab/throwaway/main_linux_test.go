package throwaway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// asEnv says what the test binary is: a wrapper, or a shop that is killed.
const asEnv = "MIAOSHA_THROWAWAY_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asEnv) {
	case "wrapper":
		Run()
	case "wrapper that may not be nice":
		refuse(unix.SYS_SETPRIORITY)
		Run()
	case "wrapper that sees no children":
		procfs = "/nowhere"
		Run()
	case "shop":
		shop()
	}
	os.Exit(m.Run())
}

// refuse lets Linux refuse a call to this process and its children, as the filter of a service does.
func refuse(call uint32) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
		if errno != 0 {
			err = errno
		}
	}
	if err != nil {
		panic(err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 1); !errors.Is(err, unix.EPERM) {
		panic(fmt.Sprintf("a call that is refused returns %v", err))
	}
}

var wrapperEnv = as("wrapper")

// as returns the environment of the test binary as something else.
func as(what string) []string {
	return []string{asEnv + "=" + what, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.Getenv("HOME")}
}

// shop starts a server, prints its folder, and waits until it is killed.
func shop() {
	var p Programs
	if err := json.Unmarshal([]byte(os.Getenv("PROGRAMS")), &p); err != nil {
		panic(err)
	}
	s, err := Start(context.Background(), p, roomy, wrapperEnv)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.folder)
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

var (
	roomy = Limits{Processor: sandboxtest.Hang, Memory: 1 << 30, Folder: 1 << 30, Files: 100_000}
	tight = Limits{Processor: 400 * time.Millisecond, Memory: 128 << 20, Folder: 64 << 20, Files: 1000}
)

func programs(t *testing.T) Programs {
	t.Helper()
	spare, err := sandbox.FindSpare(t.Context(), sandbox.Config{PostgresBin: os.Getenv("MIAOSHA_POSTGRES_BIN")})
	if err != nil {
		t.Fatal(err)
	}
	return Programs(spare)
}

// open starts a server that ends with the test, when nothing of it may be left.
func open(t *testing.T, l Limits) *Server {
	t.Helper()
	s, err := Start(t.Context(), programs(t), l, wrapperEnv)
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, s, Superuser)
	for _, sql := range []string{`create schema work authorization program`, `alter role program set search_path = work`} { // as for a run
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Error(err)
		}
	}
	admin.Close(t.Context())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, s.folder)
	})
	return s
}

// nothingLeft waits until no process works in a folder and the folder is gone.
func nothingLeft(t *testing.T, folder string) {
	t.Helper()
	sandboxtest.Until(t, "no process in "+folder, func() bool { return len(processesIn(folder)) == 0 })
	sandboxtest.Until(t, folder+" is gone", func() bool { _, err := os.Lstat(folder); return os.IsNotExist(err) })
}

// processesIn returns the processes whose working folder is below a folder, which may have been removed, and those that have its path
// among their arguments.
func processesIn(folder string) (all []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range entries {
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.HasPrefix(cwd, folder) || strings.Contains(string(args), folder) {
			all = append(all, filepath.Base(dir)+" "+string(args))
		}
	}
	return all
}

// connect logs in, perhaps after a session before it has given back its locks.
func connect(t *testing.T, s *Server, user string) (c *pgx.Conn) {
	t.Helper()
	sandboxtest.Until(t, user+" logs in", func() (ok bool) {
		var err error
		c, err = pgx.Connect(t.Context(), s.URL(user))
		return err == nil
	})
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}
