package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// helperEnv makes the test binary a process that opens the sandbox of the Config in it, prints the Sandbox as a line of
// JSON, and closes it when its standard input ends.
const helperEnv = "MIAOSHA_SANDBOX_HELPER"

func TestMain(m *testing.M) {
	if text := os.Getenv(helperEnv); text != "" {
		if err := help(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func help(text string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	s, err := Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// helper is another process on a sandbox.
type helper struct {
	*exec.Cmd
	Sandbox
	stdin io.Closer
}

// startHelper starts one and waits until its sandbox is open.
func startHelper(t *testing.T, cfg Config, change ...func(*exec.Cmd)) *helper {
	t.Helper()
	h, out := launchHelper(t, cfg, change...)
	h.wait(t, out)
	return h
}

func launchHelper(t *testing.T, cfg Config, change ...func(*exec.Cmd)) (*helper, io.Reader) {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &helper{Cmd: exec.Command(self)}
	h.Env = append(os.Environ(), helperEnv+"="+string(text))
	h.Stderr = os.Stderr
	for _, f := range change {
		f(h.Cmd)
	}
	stdout, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.stdin, err = h.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.ProcessState == nil {
			h.kill(t)
		}
	})
	return h, stdout
}

func (h *helper) wait(t *testing.T, out io.Reader) {
	t.Helper()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the helper ended early: %v, %v", err, h.Wait())
	}
	if err := json.Unmarshal(line, &h.Sandbox); err != nil {
		t.Fatal(err)
	}
}

// kill is kill -9.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	if err := h.Process.Kill(); err != nil {
		t.Error(err)
	}
	h.Wait()
}

// leave has the helper close its sandbox and end.
func (h *helper) leave(t *testing.T) {
	t.Helper()
	h.stdin.Close()
	if err := h.Wait(); err != nil {
		t.Errorf("the helper ended with %v", err)
	}
}
