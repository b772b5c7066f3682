//go:build unix

package outside

import (
	"syscall"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Kill ends the children of a process too.
func TestKillEndsTheGroup(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "right")
	s.command = s.command + " & sleep 300 & wait"
	p := start(t, s)
	p.Kill()
	// Kill waits for the shell, whose children end in their own time.
	sandboxtest.Until(t, "all processes of the group end", func() bool { return syscall.Kill(-p.cmd.Process.Pid, 0) == syscall.ESRCH })
	if _, err := p.Buy(t.Context(), 1); err == nil {
		t.Error("a killed process answers")
	}
}
