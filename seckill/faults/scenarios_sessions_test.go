//go:build faults && linux

package faults

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// sessionScenarios returns the scenarios in which the sessions' own Redis dies, and the sale's Redis does not.
func sessionScenarios() []scenario {
	half := amplePlan
	half.cached = false
	return []scenario{
		{name: "the sessions' Redis killed and started again", setup: setup{separateSessions: true}, realRedis: true, crowd: half,
			run: func(env *Environment, c *Crowd) {
				c.cacheSessions(c.buyers[:len(c.buyers)/2]) // no process has a copy of the others' sessions unless they have come
				c.WaitSold(10)
				env.Inject("the sessions' Redis killed", func() {
					env.sessions.Kill()
					c.Wait(3 * time.Second)
					env.restartNode(env.sessions)
				})
			},
			after: checkSessionsAway},
		{name: "the sessions' Redis killed and started again empty", detail: "after the sale, so that all buyers live on copies", long: true,
			setup: setup{separateSessions: true}, realRedis: true, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("the sessions' Redis killed", func() {
					env.sessions.Kill()
					c.Wait(3 * time.Second) // and it stays away
				})
			},
			after: checkSessionsLost},
	}
}

// checkSessionsAway checks that during the fault the buyers whom a process knows bought, and that the others heard busy.
func checkSessionsAway(env *Environment, c *Crowd) {
	during := env.duringFaults(c.ledger.filter(ofKind("buy", "result", "order", "pay")))
	known, busy := 0, 0
	for _, resp := range during {
		switch {
		case resp.Status == http.StatusServiceUnavailable:
			busy++
		case resp.Status == http.StatusOK, resp.Status == http.StatusAccepted:
			known++
		case resp.gaveUp():
			env.Late("I11: without the sessions %s had no reply in %v", resp.Kind, formatBound(resp.Took))
		default:
			env.Report("I11: without the sessions %s got %d %s", resp.Kind, resp.Status, resp.Code)
		}
	}
	if known < 20 || busy < 20 {
		env.TooLittle("without the sessions %d requests were answered, and %d were told busy: not enough of either", known, busy)
	}
}

// checkSessionsLost starts the sessions' Redis without its data. Only then are the buyers logged out, and a new session is good.
func checkSessionsLost(env *Environment, c *Crowd) {
	during := env.duringFaults(c.ledger.filter(ofKind("buy")))
	if len(during) < 40 {
		env.TooLittle("only %d buys while the sessions were away", len(during))
	}
	for _, resp := range during {
		if resp.gaveUp() {
			env.Late("I11: without the sessions a buy had no reply in %v", formatBound(resp.Took))
		} else if resp.Status != http.StatusAccepted {
			env.Report("I11: without the sessions a buyer whom every process knows got %d %s", resp.Status, resp.Code)
		}
	}
	if err := os.RemoveAll(env.sessions.aof()); err != nil {
		env.T.Error(err)
	}
	env.restartNode(env.sessions)
	fresh, err := env.newBuyers(1, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	for _, s := range env.Shops {
		status := func(token string, want int) (got int) {
			env.within(3*time.Second, fmt.Sprintf("I11: shop %d answered %d to a session", s.n, want), func() bool {
				got = sandboxtest.Call("GET", s.URL()+"/api/me", token, "").Status
				return got == want
			})
			return got
		}
		if got := status(fresh[0].Token, http.StatusOK); got != http.StatusOK {
			env.Report("I11: shop %d answers %d to a new session", s.n, got)
		}
		if got := status(c.buyers[0].Token, http.StatusUnauthorized); got != http.StatusUnauthorized {
			env.Report("I11: shop %d answers %d to a session that is lost", s.n, got)
		}
	}
}
