//go:build faults && linux

package faults

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// secret is every shop's.
const secret = "0123456789abcdef0123456789abcdef"

// Shop is one process of the shop, with wires of its own to the stores. It keeps its addresses when it is started again.
type Shop struct {
	ToRedis, ToPostgres *Wire
	Env                 []string // of its own, for the next Start
	Log                 *sandboxtest.Tape

	w         *World
	n         int
	addr, ops string
	lives     int    // how often it was started
	binary    string // what it runs

	mu     sync.Mutex
	p      *process
	open   bool // it answers, as far as we know
	ending bool // we end it
}

func newShop(w *World, n int) (s *Shop, err error) {
	s = &Shop{w: w, n: n, binary: w.binary, Log: &sandboxtest.Tape{}}
	if s.ToRedis, err = newWire("redis", w.Redis.addr); err != nil {
		return nil, err
	}
	if s.ToPostgres, err = newWire("postgres", w.DB.Addr()); err != nil {
		return nil, err
	}
	for _, at := range []*string{&s.addr, &s.ops} {
		port, err := sandbox.FreePort()
		if err != nil {
			return nil, err
		}
		*at = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return s, nil
}

func (s *Shop) URL() string { return "http://" + s.addr }

func (s *Shop) env(points string) []string {
	env := append([]string{
		"DATABASE_URL=" + s.w.DB.on(s.ToPostgres.Addr(), ground.tools.PostgresName),
		"REDIS_URL=" + s.w.Redis.on(s.ToRedis.Addr()),
		"MIAOSHA_ADDR=" + s.addr, "MIAOSHA_OPS_ADDR=" + s.ops, "HOME=" + s.w.dir,
		"MIAOSHA_FAILPOINTS=" + points}, s.w.env()...)
	return append(env, s.Env...)
}

// Start runs the shop with failpoints armed and waits until it is open.
func (s *Shop) Start(points string) error {
	cmd := exec.Command(s.binary)
	cmd.Env = s.env(points)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log := &sandboxtest.Tape{} // of this life
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
	s.p, s.ending = p, false
	s.lives++
	s.mu.Unlock()
	select {
	case <-ready:
	case <-p.done:
		out.Close()
		return fmt.Errorf("shop %d ended at its start: %s", s.n, log)
	case <-time.After(20 * time.Second):
		p.End(syscall.SIGKILL, time.Second)
		return fmt.Errorf("shop %d did not open: %s", s.n, log)
	}
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
	s.w.work.Go(func() {
		<-p.done
		out.Close()
		s.ended(p, log.String())
	})
	return nil
}

var killedAt = regexp.MustCompile(`failpoint (F\d+): kill`)

// restartAfter is how long a shop that a failpoint has killed stays down, as under a supervisor.
const restartAfter = 300 * time.Millisecond

// ended looks at why a shop ended. One that a failpoint has killed is started again, without failpoints.
func (s *Shop) ended(p *process, log string) {
	s.mu.Lock()
	ending := s.ending
	s.open = false
	s.mu.Unlock()
	if strings.Contains(log, "\npanic: ") || strings.HasPrefix(log, "panic: ") || strings.Contains(log, "\nfatal error: ") {
		s.w.Violate("I10: shop %d panicked:\n%s", s.n, log)
	}
	point := killedAt.FindStringSubmatch(log)
	switch {
	case point != nil && !ending:
		s.w.Strike("killed at "+point[1], func() {
			time.Sleep(restartAfter)
			if err := s.Start(""); err != nil {
				s.w.Violate("I10: a shop can't be started again: %v", err)
			}
		})
		s.w.fire(point[1])
	case point != nil:
		s.w.fire(point[1])
	case !ending:
		s.w.Violate("I10: shop %d ended by itself (%v):\n%s", s.n, p.cmd.ProcessState, log)
	}
}

// Kill is kill -9. Term is SIGTERM; it waits for the end and gives the exit code.
func (s *Shop) Kill() { s.end(syscall.SIGKILL) }

func (s *Shop) Term() int {
	s.w.scrape() // its counters end with it
	return s.end(syscall.SIGTERM)
}

func (s *Shop) end(sig syscall.Signal) int {
	s.mu.Lock()
	s.ending, s.open = true, false
	p := s.p
	s.mu.Unlock()
	if p == nil {
		return 0
	}
	return p.End(sig, 20*time.Second)
}

// life names the life that the shop is in; ok if it is open.
func (s *Shop) life() (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d/%d", s.n, s.lives), s.open
}

func (s *Shop) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}
