//go:build faults && linux

package faults

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// secret is the same in every shop.
const secret = "0123456789abcdef0123456789abcdef"

// Shop is one process of the shop, with its own proxies to the stores. It keeps its addresses when it is restarted.
type Shop struct {
	ToRedis, ToPostgres *sandboxtest.Proxy // there is no proxy to a group of Redis: its servers announce their own addresses
	Log                 *sandboxtest.SyncBuffer

	env       *Environment
	n         int
	addr, ops string
	runs      int    // the number of times it was started
	binary    string // the program that it runs

	mu      sync.Mutex
	p       *process
	open    bool     // it answers, as far as the suite knows
	stopped *process // the last one that the suite has stopped; the next may run before its exit is looked at
}

func newShop(env *Environment, n int) (s *Shop, err error) {
	s = &Shop{env: env, n: n, binary: env.binary, Log: &sandboxtest.SyncBuffer{}}
	if env.Redis != nil {
		if s.ToRedis, err = sandboxtest.NewProxy(env.Redis.addr); err != nil {
			return nil, err
		}
	}
	if s.ToPostgres, err = sandboxtest.NewProxy(env.postgresAddr()); err != nil {
		return nil, err
	}
	for _, at := range []*string{&s.addr, &s.ops} {
		port, err := sandbox.FreePort()
		if err != nil {
			return nil, err
		}
		*at = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return s, os.MkdirAll(s.machine(), 0o755)
}

// machine returns the folder in which the processes of a machine show that they live.
func (s *Shop) machine() string {
	if s.env.sc.setup.machines {
		return filepath.Join(s.env.dir, fmt.Sprint("machine-", s.n))
	}
	return s.env.dir
}

// URL returns where the crowd reaches the shop: itself or, for all shops, the nginx in front of them.
func (s *Shop) URL() string {
	if s.env.Nginx != nil {
		return s.env.Nginx.URL()
	}
	return "http://" + s.addr
}

func (s *Shop) variables(points string) []string {
	processors := "" // as many as there are
	if s.env.sc.setup.oneProcessor && s.n == s.env.sc.setup.shops-1 {
		processors = "1"
	}
	return append([]string{
		"TMPDIR=" + s.machine(), "GOMAXPROCS=" + processors,
		"DATABASE_URL=" + s.env.postgresURL(s.ToPostgres.Addr()),
		"REDIS_URL=" + s.redisURL(),
		"MIAOSHA_ADDR=" + s.addr, "MIAOSHA_OPS_ADDR=" + s.ops, "HOME=" + s.env.dir,
		"MIAOSHA_FAILPOINTS=" + points}, s.env.variables()...)
}

func (s *Shop) redisURL() string {
	if s.ToRedis == nil {
		return s.env.redisURL()
	}
	return s.env.Redis.on(s.ToRedis.Addr())
}

// Start runs the shop with failpoints armed and waits until it is open. A shop that does not reach its stores in a few
// seconds exits, and is started again, as by a supervisor.
func (s *Shop) Start(points string) error {
	for began := time.Now(); ; {
		err := s.startOnce(points)
		if err == nil || !strings.Contains(err.Error(), ": can't reach ") || time.Since(began) > sandboxtest.Hang {
			return err
		}
		s.env.Late("I10: a shop did not open at once: %v", err)
	}
}

func (s *Shop) startOnce(points string) error {
	cmd := exec.Command(s.binary)
	cmd.Env = s.variables(points)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log := &sandboxtest.SyncBuffer{} // of this run
	cmd.Stderr = io.MultiWriter(s.Log, log)
	ready := make(chan struct{}, 1)
	r, out := io.Pipe()
	cmd.Stdout = out
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "miaosha is open at ") {
				ready <- struct{}{}
			}
		}
	}()
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.p = p
	s.runs++
	s.mu.Unlock()
	select {
	case <-ready:
	case <-p.done:
		out.Close()
		return fmt.Errorf("shop %d exited at its start: %s", s.n, log)
	case <-time.After(sandboxtest.Hang):
		p.End(syscall.SIGKILL, time.Second)
		return fmt.Errorf("shop %d did not open: %s", s.n, log)
	}
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
	s.env.watches.Go(func() {
		<-p.done
		out.Close()
		s.ended(p, log.String())
	})
	return nil
}

var killedAt = regexp.MustCompile(`failpoint (\w+): kill`)

// restartAfter is how long a shop stays down after a failpoint has killed it, as under a supervisor.
const restartAfter = 300 * time.Millisecond

// ended checks why a shop exited. It restarts a shop that a failpoint has killed, without failpoints.
func (s *Shop) ended(p *process, log string) {
	s.mu.Lock()
	ending := s.stopped == p
	if s.p == p {
		s.open = false
	}
	s.mu.Unlock()
	if strings.Contains(log, "\npanic: ") || strings.HasPrefix(log, "panic: ") || strings.Contains(log, "\nfatal error: ") {
		s.env.Report("I10: shop %d panicked:\n%s", s.n, log)
	}
	point := killedAt.FindStringSubmatch(log)
	switch {
	case point != nil && !ending:
		s.env.Inject("killed at "+point[1], func() {
			time.Sleep(restartAfter)
			if err := s.Start(""); err != nil {
				s.env.Report("I10: a shop cannot be restarted: %v", err)
			}
		})
		s.env.markKilled(point[1])
	case point != nil:
		s.env.markKilled(point[1])
	case !ending:
		s.env.Report("I10: shop %d exited by itself (%v):\n%s", s.n, p.cmd.ProcessState, log)
	}
}

// Kill sends SIGKILL and waits for the exit.
func (s *Shop) Kill() { s.end(syscall.SIGKILL) }

// Term sends SIGTERM, waits for the exit and returns the exit code.
func (s *Shop) Term() int {
	s.env.scrape() // the process takes its counters with it
	return s.end(syscall.SIGTERM)
}

func (s *Shop) end(sig syscall.Signal) int {
	s.mu.Lock()
	p := s.p
	s.stopped, s.open = p, false
	s.mu.Unlock()
	if p == nil {
		return 0
	}
	return p.End(sig, sandboxtest.Hang)
}

// mayEnd says that the running process may end without being stopped, and returns it.
func (s *Shop) mayEnd() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = s.p
	return s.p
}

// currentRun returns a name for the current run of the shop, and reports whether it is open.
func (s *Shop) currentRun() (name string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d/%d", s.n, s.runs), s.open
}

// hasDied reports whether a process of the shop has ended, or is ending, since the environment was opened.
func (s *Shop) hasDied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs > 1 || s.stopped != nil || s.p != nil && s.p.Ended()
}

func (s *Shop) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}
