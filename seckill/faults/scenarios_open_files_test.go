//go:build faults && linux

package faults

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox/sandboxtest"
)

// openFilesScenarios returns the scenario in which a process may open no more files, and so no connections.
func openFilesScenarios() []scenario {
	answers := make(chan bool, 1)
	return []scenario{
		{name: "no open files left in one process", detail: "for 4 s, in which it loses its connections to both stores, too", checksResources: true,
			crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				s := env.Shops[0]
				env.Inject("no open files", func() {
					old := s.limitOpenFiles(10)            // these are open, and the others that are open stay so
					c.ledger.client.CloseIdleConnections() // so that buyers need new ones
					c.Wait(time.Second)
					s.ToRedis.Cut()
					s.ToPostgres.Cut()
					env.restore(s.ToRedis)
					env.restore(s.ToPostgres)
					c.Wait(3 * time.Second)
					s.limitOpenFiles(old)
				})
				// Between two tries to accept a connection the process waits for a second at most. The gate is measured meanwhile.
				c.ledger.client.CloseIdleConnections()
				go func() {
					answers <- env.within(3*time.Second, "I10: shop 0 answered", func() bool {
						return c.ledger.request(s, 0, "", "list", "GET", "/api/sales", "").Status == 200
					})
				}()
			},
			after: func(env *Environment, c *Crowd) {
				if !<-answers {
					env.Report("I10: shop 0 does not answer %v after it may open files again", sandboxtest.Hang)
				}
				if log := env.Shops[0].Log.String(); !strings.Contains(log, "too many open files") {
					env.Report("I10: the log does not say that no files could be opened:\n%s", tail(log, 20))
				}
				failed := 0
				for _, resp := range env.duringFaults(c.ledger.filter(ofKind("buy", "result"))) {
					if resp.Shop == 0 && (resp.Status == 0 || resp.Status == 503 || resp.Took > time.Second) {
						failed++
					}
				}
				if failed < 10 {
					env.TooLittle("only %d requests met the process without files", failed)
				}
			}},
	}
}

// limitOpenFiles sets the limit of open files of the shop's process, and returns the former one. The hard limit stays.
func (s *Shop) limitOpenFiles(limit uint64) (former uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, old := s.p.cmd.Process.Pid, unix.Rlimit{}
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}, nil)
	}
	if err != nil {
		s.env.T.Errorf("limit the open files: %v", err)
	}
	return old.Cur
}
