package operator

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox/sandboxtest"
)

// On a terminal what is broken is red, unless NO_COLOR is set. Elsewhere there are no colours.
func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	env := slices.Clip(append(sandboxtest.Stores(t), "TERM=xterm")) // each case appends to it
	sale := sandboxtest.Sale(t, env, 5)
	if _, err := connect(t, env).Exec(t.Context(), `update sales set stock = stock - 1 where id = $1`, sale); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env []string
		red bool
	}{{env, true}, {append(env, "NO_COLOR=1"), false}, {append(env, "TERM=dumb"), false}} {
		text := onTerminal(t, c.env, "audit")
		if !strings.Contains(text, "BROKEN I1") || strings.Contains(text, "\x1b[1;31mBROKEN I1") != c.red || strings.Contains(text, "\x1b[1;31mmiaosha:") != c.red {
			t.Errorf("with %v: %q", c.env[len(c.env)-1], text)
		}
		if before, _, _ := strings.Cut(text, "BROKEN I1"); !strings.HasSuffix(strings.TrimSuffix(before, "\x1b[1;31m"), "\r\x1b[K") {
			t.Errorf("with %v: what is broken does not begin a line: %q", c.env[len(c.env)-1], text)
		}
	}
	if out, errs, _ := sandboxtest.Command(t, env, "audit"); strings.Contains(out+errs, "\x1b") {
		t.Errorf("in a pipe: %q", out+errs)
	}
}

// onTerminal runs a command on a terminal and returns what it prints there.
func onTerminal(t *testing.T, env []string, args ...string) (text string) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer ours.Close()
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sandboxtest.Binary(t), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, theirs, theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	for buf := make([]byte, 4096); ; { // an error is the end of the command
		n, err := ours.Read(buf)
		text += string(buf[:n])
		if err != nil {
			break
		}
	}
	cmd.Wait()
	return text
}
