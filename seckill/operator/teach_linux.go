package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// canStop says that a process and its children can be stopped for a while, and that a child ends with this process.
const canStop = true

// pauseProcesses stops a server of this process, and its children, for as long as d; less if ctx ends. A helper lets
// them go on if this process dies meanwhile: a stopped process takes no other signal, not even the one that tells it of
// our death.
func pauseProcesses(ctx context.Context, d time.Duration, server int) (err error) {
	if server == 0 || parentOf(server) != os.Getpid() {
		return errors.New("the server is just being started again")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	helper := exec.Command(self, "resume", (d + time.Second).String())
	stdin, err := helper.StdinPipe()
	if err != nil {
		return err
	}
	if err := helper.Start(); err != nil {
		return err
	}
	defer func() {
		stdin.Close() // the helper lets all of them go on
		err = errors.Join(err, helper.Wait())
	}()
	stop := func(pid int) error {
		if _, err := fmt.Fprintln(stdin, pid); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err := stop(server); err != nil {
		return err
	}
	for _, child := range childrenOf(server) { // from here on there are no new ones
		if err := stop(child); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return nil
}

func parentOf(pid int) int {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.PPID
}

func childrenOf(pid int) (children []int) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	for _, p := range processes {
		if parentOf(p.PID) == pid {
			children = append(children, p.PID)
		}
	}
	return children
}

// Resume is the hidden command that lets stopped processes go on. It reads their ids, one a line.
type Resume struct {
	After time.Duration `arg:""`
}

// Run waits until standard input ends, which it also does when the parent process ends, for as long as After at most.
func (r Resume) Run(env Env) error {
	var pids []int
	lines := make(chan int)
	go func() { // ends with the process
		defer close(lines)
		for scan := bufio.NewScanner(env.In); scan.Scan(); {
			if pid, err := strconv.Atoi(scan.Text()); err == nil && pid > 1 {
				lines <- pid
			}
		}
	}()
	limit := time.After(r.After)
	for {
		select {
		case pid, more := <-lines:
			if more {
				pids = append(pids, pid)
				continue
			}
		case <-limit:
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGCONT) // a process that has ended needs nothing
		}
		return nil
	}
}
