//go:build faults && linux

package faults

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestCluster is the exhibition of `make cluster`: three processes behind nginx, on a Redis Cluster and on a Postgres with a
// synchronous standby, sell 5,000 units to 30,000 buyers, while one part after the other is killed.
func TestCluster(t *testing.T) {
	if os.Getenv("MIAOSHA_CLUSTER") == "" {
		t.Skip("an exhibition of four minutes: make cluster")
	}
	sc := scenario{name: "everything killed in turn", detail: "3 processes behind nginx, a Cluster, a synchronous standby", realRedis: true,
		program: "nginx", losesData: true, exhibition: true, setup: behindNginx(), run: killEverythingInTurn,
		crowd: plan{buyers: 30000, units: 5000, span: 40 * time.Second, twice: 10, pays: 50, cancels: 5, fetchesPath: 5,
			payAfter: 500 * time.Millisecond, again: 10 * time.Second, limit: 2 * time.Minute}}
	sc.setup.cluster, sc.setup.standby = true, true
	v := runScenario(t, sc, build(t, ""), seed)
	for _, broken := range slices.Concat(v.wrong(), v.open()) {
		t.Error(broken)
	}
	printResults(t)
}

// killEverythingInTurn kills a process, the master of the sale, the Redis of the sessions, nginx and the Postgres primary. Each is
// well again, or replaced, before the next.
func killEverythingInTurn(env *Environment, c *Crowd) {
	c.WaitSold(300)
	env.Inject("a process killed", func() {
		env.Shops[1].Kill()
		c.Wait(2 * time.Second)
		env.restart(1)
	})
	c.Wait(3 * time.Second)
	master, replica := env.masterAndReplica()
	env.failOver(master, replica)
	env.restartNode(master)
	c.Wait(3 * time.Second)
	env.Inject("the sessions' Redis killed", func() {
		env.sessions.Kill()
		c.Wait(2 * time.Second)
		env.restartNode(env.sessions)
	})
	c.Wait(3 * time.Second)
	env.Inject("nginx killed", func() {
		env.Nginx.Kill()
		c.Wait(time.Second)
		if err := env.Nginx.Start(); err != nil {
			env.T.Error(err)
		}
	})
	c.Wait(3 * time.Second)
	env.Inject("primary killed", func() { env.promoteStandby(c, time.Second) })
	c.checkBuyersStillCome()
}

// checkBuyersStillCome checks that not all buyers have arrived: a fault after that proves nothing.
func (c *Crowd) checkBuyersStillCome() {
	if int(c.arrived.Load()) == len(c.buyers) {
		c.env.TooLittle("all buyers came before the end of the fault")
	}
}
