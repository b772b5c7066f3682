//go:build unix

package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Ctrl-C ends the processes of the shop and removes what the run has made. After kill -9 of the command the processes end
// too (on Linux), and the next run removes the rest.
func TestOutsideShopsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), outsideEnv(t)
	shop := goShop(t, absolute(startersDir+"/go/shop.go"), dir)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		if sig == syscall.SIGKILL && runtime.GOOS != "linux" {
			continue
		}
		pids := filepath.Join(dir, fmt.Sprint("pids", int(sig)))
		cmd, errs := exec.Command(sandboxtest.Binary(t), "lab", "--mine", "echo $$ >>"+pids+"; sleep 61.25 & exec "+shop, "--buyers", "5000", "--stock", "1000", "--seconds", "30"), &sandboxtest.SyncBuffer{}
		if sig == syscall.SIGKILL { // which reaches the process that this one has started, and not its children
			cmd.Args[3] = "echo $$ >>" + pids + "; exec " + shop + " >/dev/null 2>&1" // a line to a reader who has gone would end it too
		}
		cmd.Env, cmd.Stderr = env, errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := sync.OnceFunc(func() { cmd.Process.Signal(sig); cmd.Wait() })
		t.Cleanup(kill)
		sandboxtest.Until(t, "buyers are answered", func() bool { return strings.Contains(errs.String(), "of 5000 buyers answered") })
		kill()
		text, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		started := strings.Fields(string(text))
		if len(started) != 2 {
			t.Errorf("%d processes: %s", len(started), errs)
		}
		for _, pid := range started {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			sandboxtest.Until(t, "the processes of the shop end", func() bool { return syscall.Kill(-n, 0) == syscall.ESRCH })
		}
		if left := labLeft(t, env); sig == syscall.SIGINT && (left != 0 || !strings.Contains(errs.String(), "miaosha: stopped. The processes of your shop are killed")) {
			t.Errorf("%d schemas are left: %s", left, errs)
		}
	}
	sandboxtest.Command(t, env, "lab", "--mine", "false")
	if n := labLeft(t, env); n != 0 {
		t.Errorf("%d schemas are left by the killed run", n)
	}
}
