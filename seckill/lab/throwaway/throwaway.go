// Package throwaway runs a Postgres for one job of the lab: a copy of an empty cluster in a folder of its own, with
// nothing of the shop in it. A wrapper, which is this program again, starts it, adds up what all its processes use, and
// ends it at its limits, when it is told to, and when this process dies. Then no process, file or folder of it is left.
//
// The cluster has one database, Database, to which the role Role may connect. Whoever may pass the folder may log in as
// either, without a password: that is the account of this process, the one that runs Postgres for root, and root.
// Postgres listens nowhere else.
package throwaway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Niceness is that of all processes of a job, programs included, once its server answers: the shop comes first.
const Niceness = 10

// Names in each cluster.
const (
	Database  = "lab"
	Superuser = "lab" // of the judge
	Role      = "program"
)

// port is a part of the name of the socket in a folder.
const port = "5432"

// Programs says which Postgres is run, and as whom.
type Programs struct {
	Bin      string // the folder of postgres and initdb
	Version  string // such as "15.13"
	Account  bool   // another account runs it, of these ids
	UID, GID uint32
	Cache    string // a folder in which an empty cluster may stay for the next start; "" for the account's
}

// Limits are those of all processes of a server together. Each alone may not have more either.
type Limits struct {
	Processor time.Duration
	Memory    int64 // bytes, without what the processes share
	Folder    int64 // bytes
	Files     int
}

// Reasons why a server has ended before Close.
const (
	Processor = "processor"
	Memory    = "memory"
	Folder    = "folder"
	Files     = "files"
	Crashed   = "crashed"
	none      = "none" // before the start: ErrNone
)

// Used is what a server has used.
type Used struct{ Processor time.Duration }

// ErrNone means that this machine can run no such server: Start refuses, and would refuse again.
var ErrNone = errors.New("a program needs a Postgres of its own, and none can be run here")

// ErrLate means that the machine has too little time for a server to start.
var ErrLate = errors.New("it does not answer: this machine is too busy")

// Server is a running server.
type Server struct {
	folder  string
	cmd     *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when the wrapper has ended, and all others with it
	started chan news
	last    news // its last words; read after ended
	trouble lastBytes
	close   sync.Once
}

// job is what the wrapper reads from its standard input. Its end ends the server.
type job struct {
	Programs Programs
	Limits   Limits
}

// news is a line of the wrapper.
type news struct {
	Folder string // the server answers there
	Ended  string // a reason; "" after Close
	Text   string
	Used   Used
}

const (
	startLimit = time.Minute
	closeLimit = 20 * time.Second // a process that no signal reaches is the system's
)

// Start starts a server and returns when it answers. The wrapper is this program with env as its environment; in it Run
// has to be called before anything else. ErrNone, ErrLate.
func Start(ctx context.Context, p Programs, l Limits, env []string) (*Server, error) {
	return startWithin(ctx, startLimit, p, l, env)
}

func startWithin(ctx context.Context, limit time.Duration, p Programs, l Limits, env []string) (s *Server, err error) {
	if !supported {
		return nil, ErrNone
	}
	if p.Cache == "" {
		p.Cache, _ = os.UserCacheDir() // without one each start makes a cluster
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s = &Server{cmd: exec.Command(self), ended: make(chan struct{}), started: make(chan news, 1)}
	s.cmd.Env, s.cmd.Stderr = env, &s.trouble
	ownGroup(s.cmd)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a Postgres for the lab: %w", err)
	}
	go s.listen(stdout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrLate)
	defer cancel()
	if err = json.NewEncoder(stdin).Encode(job{p, l}); err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		s.Close()
		if s.last.Text != "" {
			err = errors.New(s.last.Text)
		}
		if s.last.Ended == none {
			return nil, fmt.Errorf("%w: %w", ErrNone, err)
		}
		return nil, fmt.Errorf("start a Postgres for the lab: %w", err)
	}
	return s, nil
}

// listen reads what the wrapper says until it has ended.
func (s *Server) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var n news
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue
		}
		if n.Folder != "" {
			s.started <- n
		} else {
			s.last = n
		}
	}
	if err := s.cmd.Wait(); err != nil && s.last.Text == "" {
		s.last = news{Ended: Crashed, Text: fmt.Sprintf("its wrapper has ended: %v %s", err, s.trouble.lastLine())}
	}
	close(s.ended)
}

// ready waits until Postgres answers.
func (s *Server) ready(ctx context.Context) error {
	select {
	case n := <-s.started:
		s.folder = n.Folder
		return nil
	case <-s.ended:
		return errors.New("it ended at once")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// URL returns the address for Superuser or Role.
func (s *Server) URL(user string) string { return urlIn(s.folder, user) }

func urlIn(folder, user string) string {
	query := url.Values{"host": {folder}, "port": {port}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + Database, RawQuery: query.Encode()}).String()
}

// Ended is closed when the server has ended by itself or at a limit, or after Close.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Why returns one of the reasons why the server has ended, and a text; "" after Close. It waits for the end.
func (s *Server) Why() (reason, text string) {
	<-s.ended
	return s.last.Ended, s.last.Text
}

// Used returns what the server has used. It waits for the end.
func (s *Server) Used() Used {
	<-s.ended
	return s.last.Used
}

// Close ends the server and removes its folder. It returns when nothing of it is left.
func (s *Server) Close() (err error) {
	s.close.Do(func() {
		s.stdin.Close()
		select {
		case <-s.ended:
		case <-time.After(closeLimit):
			err = errors.New("a Postgres of the lab does not end")
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		if s.folder != "" { // the wrapper has removed it, unless it was killed
			err = errors.Join(err, os.RemoveAll(s.folder))
		}
	})
	return err
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (b *lastBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const most = 4 << 10
	b.kept = append(b.kept, p...)
	b.kept = b.kept[max(0, len(b.kept)-most):]
	return len(p), nil
}

// lastLine returns the last line that says why a server has ended.
func (b *lastBytes) lastLine() (last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, mark := range []string{"PANIC:", "terminated by signal", "FATAL:", ""} {
		for line := range strings.Lines(string(b.kept)) {
			if line = strings.TrimSpace(line); line != "" && strings.Contains(line, mark) {
				last = line
			}
		}
		if last != "" {
			break
		}
	}
	return last
}
