package throwaway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox/sandboxtest"
)

// busy lets a session look for no interrupt until the test ends, and returns its process.
func busy(t *testing.T, s *Server) (pid int) {
	t.Helper()
	c := connect(t, s, Role)
	pid = int(c.PgConn().PID())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Exec(t.Context(), rank)
	}()
	t.Cleanup(func() { <-ended })
	admin := connect(t, s, Superuser)
	sandboxtest.Until(t, "the session is at work", func() bool {
		var active bool
		err := admin.QueryRow(t.Context(), `select state = 'active' from pg_stat_activity where pid = $1`, pid).Scan(&active)
		return err == nil && active
	})
	return pid
}

func mainOf(t *testing.T, s *Server) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, "data", "postmaster.pid"))
	if err == nil {
		pid, err = strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// However a server ends, its busy sessions end with it.
func TestNothingIsLeftOfAServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(t *testing.T, s *Server, session int)
		want string
	}{
		"closed":              {func(t *testing.T, s *Server, _ int) { must(t, s.Close()) }, ""},
		"Postgres is killed":  {func(t *testing.T, s *Server, _ int) { must(t, syscall.Kill(mainOf(t, s), syscall.SIGKILL)) }, Crashed},
		"a session is killed": {func(t *testing.T, _ *Server, session int) { must(t, syscall.Kill(session, syscall.SIGKILL)) }, Crashed},
		"Postgres is stopped": {func(t *testing.T, s *Server, _ int) {
			must(t, syscall.Kill(mainOf(t, s), syscall.SIGSTOP))
			must(t, s.Close())
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, roomy)
			segment := (&wrapper{folder: s.folder}).sharedSegment()
			if segment == 0 {
				t.Fatal("Postgres has no segment of shared memory")
			}
			test.end(t, s, busy(t, s))
			if reason, text := s.Why(); reason != test.want {
				t.Errorf("ended because of %q (%s), want %q", reason, text, test.want)
			}
			nothingLeft(t, s.folder)
			if _, err := unix.SysvShmCtl(segment, unix.IPC_STAT, new(unix.SysvShmDesc)); !errors.Is(err, unix.EINVAL) {
				t.Errorf("the segment of shared memory: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A shop that is killed leaves nothing.
func TestTheServerEndsWithTheShop(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(programs(t))
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), asEnv+"=shop", "PROGRAMS="+string(encoded)), os.Stderr
	_, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	folder := strings.TrimSpace(line)
	if len(processesIn(folder)) == 0 {
		t.Fatalf("no process in %q", folder)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	nothingLeft(t, folder)
}

// A wrapper that is killed leaves no process, and its folder is removed by the shop or by the next server.
func TestTheServerEndsWithItsWrapper(t *testing.T) {
	t.Parallel()
	s := open(t, roomy)
	must(t, s.cmd.Process.Kill())
	if reason, _ := s.Why(); reason != Crashed {
		t.Errorf("ended because of %q", reason)
	}
	sandboxtest.Until(t, "no process", func() bool { return len(processesIn(s.folder)) == 0 })
	next := open(t, roomy)
	if _, err := os.Lstat(s.folder); !os.IsNotExist(err) {
		t.Errorf("the folder of the dead wrapper: %v", err)
	}
	if next.folder == s.folder {
		t.Error("both have one folder")
	}
}

// A machine without such a Postgres says so.
func TestAServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	p := programs(t)
	p.Bin, p.Version = t.TempDir(), "none"
	if s, err := Start(t.Context(), p, roomy, wrapperEnv); err == nil || !strings.Contains(err.Error(), "initdb") {
		t.Errorf("%v: %v", s, err)
	}
}

// Sessions of a program make room for the shop. What starts them does not: it is no work of a program.
func TestAServerIsNiceOnceItAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, roomy)
	niceness := func(pid int) int {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid) // 20 minus it
		must(t, err)
		return 20 - raw
	}
	if main, session := niceness(mainOf(t, s)), niceness(int(connect(t, s, Role).PgConn().PID())); main != Niceness || session != Niceness {
		t.Errorf("Postgres has %d, a session %d", main, session)
	}
	if own, wrapper := niceness(os.Getpid()), niceness(s.cmd.Process.Pid); wrapper != own {
		t.Errorf("the wrapper has %d, the shop %d", wrapper, own)
	}
}

// A machine without time for a server says so, and whoever stopped the start is not told that.
func TestAStartThatIsTooLate(t *testing.T) {
	t.Parallel()
	if s, err := startWithin(t.Context(), 0, programs(t), roomy, wrapperEnv); !errors.Is(err, ErrLate) {
		t.Errorf("%v: %v", s, err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Start(stopped, programs(t), roomy, wrapperEnv); !errors.Is(err, context.Canceled) || errors.Is(err, ErrLate) {
		t.Errorf("%v: %v", s, err)
	}
}

// What only makes a server nicer to others may be refused.
func TestAServerThatMayNotBeNice(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), programs(t), roomy, as("wrapper that may not be nice"))
	must(t, err)
	must(t, s.Close())
}

// Where Linux does not say which children a process has, no server runs without a limit.
func TestNoServerWithoutTotals(t *testing.T) {
	t.Parallel()
	if s, err := Start(t.Context(), programs(t), roomy, as("wrapper that sees no children")); !errors.Is(err, ErrNone) {
		t.Errorf("%v: %v", s, err)
	}
}

// Under memory pressure Linux ends the server of a program, and not the shop.
func TestAServerIsTheFirstToGiveMemoryBack(t *testing.T) {
	t.Parallel()
	s := open(t, roomy)
	score := func(pid int) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	if main, session := score(mainOf(t, s)), score(int(connect(t, s, Role).PgConn().PID())); main != "1000" || session != "1000" {
		t.Errorf("Postgres has %s, a session %s", main, session)
	}
	if own, wrapper := score(os.Getpid()), score(s.cmd.Process.Pid); wrapper != own {
		t.Errorf("the wrapper has %s, the shop %s", wrapper, own)
	}
}

// The reason why a server has ended is among the last lines of a long log.
func TestTheReasonIsTheLastThatALogSays(t *testing.T) {
	t.Parallel()
	for want, log := range map[string]string{
		"LOG:  server process (PID 1) was terminated by signal 24: CPU time limit exceeded": "LOG:  server process (PID 1) was terminated by signal 24: CPU time limit exceeded\nFATAL:  the database system is in recovery mode\n",
		"PANIC:  could not read file": "PANIC:  could not read file\nLOG:  startup process (PID 2) was terminated by signal 6: Aborted\nLOG:  database system is shut down\n",
		"FATAL:  no memory":           "FATAL:  no memory\nLOG:  database system is shut down\n",
		"LOG:  shut down":             "LOG:  shut down\n\n",
	} {
		b := &lastBytes{}
		for range 1000 {
			fmt.Fprintln(b, "LOG:  a checkpoint has begun")
		}
		fmt.Fprint(b, log)
		if got := b.lastLine(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
