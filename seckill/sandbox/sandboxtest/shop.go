package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Stores is a fresh database and Redis as the environment of a shop, which listens where there is room. Its first entry is
// the DATABASE_URL.
func Stores(t testing.TB) []string {
	return []string{"DATABASE_URL=" + DatabaseURL(t), "REDIS_URL=" + RedisURL(t),
		"MIAOSHA_SECRET=0123456789abcdef0123456789abcdef", "MIAOSHA_OPS_ADDR=off", "MIAOSHA_ADDR=127.0.0.1:0", "HOME=" + t.TempDir()}
}

// Command runs one command of the shop to its end.
func Command(t testing.TB, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Env = env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// MustCommand is Command for one that has to succeed.
func MustCommand(t testing.TB, env []string, args ...string) string {
	t.Helper()
	out, errs, code := Command(t, env, args...)
	if code != 0 {
		t.Fatalf("miaosha %v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

// Shop is a running shop.
type Shop struct {
	URL string
	Log *Tape // what it says on standard error
	Say *Tape // what it says on standard output

	cmd *exec.Cmd
	out chan struct{} // closed when its output ends
}

// Open starts the shop and waits until it is open. It is killed at the end of the test, and must not have met a data race.
func Open(t testing.TB, env []string, args ...string) *Shop {
	t.Helper()
	s := &Shop{cmd: exec.Command(Binary(t), args...), Log: &Tape{}, Say: &Tape{}, out: make(chan struct{})}
	s.cmd.Env, s.cmd.Stderr = env, s.Log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End(syscall.SIGKILL)
		if _, race, found := strings.Cut(s.Log.String(), "WARNING: DATA RACE"); found {
			t.Errorf("a data race in the shop: %s", race)
		}
	})
	ready := make(chan string, 1)
	go func() {
		defer close(s.out)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			fmt.Fprintln(s.Say, lines.Text())
			if rest, ok := strings.CutPrefix(lines.Text(), "miaosha is open at "); ok {
				ready <- strings.Fields(rest)[0]
			}
		}
	}()
	select {
	case s.URL = <-ready:
	case <-s.out:
		s.cmd.Wait()
		t.Fatalf("the shop ended: %s", s.Log)
	case <-time.After(30 * time.Second):
		t.Fatalf("the shop did not open: %s", s.Log)
	}
	return s
}

// Tape keeps what is written to it, and may be read meanwhile.
type Tape struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (t *Tape) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(b)
}

func (t *Tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// PID is its process id.
func (s *Shop) PID() int { return s.cmd.Process.Pid }

// End sends a signal, waits, and gives the exit code: -1 for one that was killed.
func (s *Shop) End(sig os.Signal) int {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(sig)
		<-s.out
		s.cmd.Wait()
	}
	return s.cmd.ProcessState.ExitCode()
}

var browser = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2000, MaxConnsPerHost: 400}}

// Reply is what the shop answered. Its Status is 0 where it did not, and Code says why.
type Reply struct {
	Status int
	Header http.Header
	Raw    []byte
	Code   string
	Msg    string
	Data   json.RawMessage
}

// Read reads the answer's data into v.
func (r Reply) Read(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Data, v); err != nil {
		t.Fatalf("%d %s %s: %v", r.Status, r.Code, r.Data, err)
	}
}

// Call makes one request: with a session's token unless it is "", with a JSON body unless that is "", and with headers
// given as names and values.
func Call(method, url, token, body string, headers ...string) Reply {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body == "" {
		req.Body = nil
		req.ContentLength = 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := browser.Do(req)
	if err != nil {
		return Reply{Code: err.Error()}
	}
	defer resp.Body.Close()
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	if r.Raw, err = io.ReadAll(resp.Body); err != nil {
		return Reply{Code: err.Error()}
	}
	json.Unmarshal(r.Raw, &r) // not JSON: Code stays empty
	return r
}
