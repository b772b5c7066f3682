//go:build faults && linux

package faults

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// redisClusterScenarios returns the scenarios on a Redis Cluster of three masters and three replicas.
func redisClusterScenarios() []scenario {
	return []scenario{
		{name: "a Cluster's master killed", detail: "its replica takes over", realRedis: true, losesData: true,
			setup: setup{cluster: true}, crowd: groupPlan, run: killMaster, after: checkNoTicketLost},
		{name: "a Cluster's master killed and its replica is old", detail: "it lacks the last second", long: true, realRedis: true,
			losesData: true, setup: setup{cluster: true}, run: killMasterOfOldReplica, after: checkNoTicketLost,
			crowd: plan{buyers: 300, units: 220, span: 8 * time.Second, twice: 30, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, cached: true, limit: 40 * time.Second}},
		{name: "the sale moves to another master of a Cluster", realRedis: true, setup: setup{cluster: true}, crowd: groupPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(40)
				env.Inject("the slot moved", env.moveSale)
			}},
		{name: "a Cluster's master and its replica killed", detail: "no server has the sale until they start again", long: true,
			realRedis: true, setup: setup{cluster: true, fsync: "always"}, crowd: groupPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(40)
				master, replica := env.masterAndReplica()
				env.Inject("a master and its replica killed", func() {
					replica.Kill()
					master.Kill()
					c.Wait(4 * time.Second) // the others call it dead after one
					env.restartNode(master)
					env.restartNode(replica)
					env.waitServes(master)
				})
			},
			after: checkSoldMeanwhile},
	}
}

// groupPlan is a crowd with a unit for every buyer, who arrive for longer than a failover takes.
var groupPlan = plan{buyers: 300, units: 400, span: 8 * time.Second, twice: 30, pays: 40, cancels: 5,
	payAfter: 300 * time.Millisecond, cached: true, limit: 40 * time.Second}

// killMaster kills the server that has the sale.
func killMaster(env *Environment, c *Crowd) {
	c.WaitSold(40)
	env.failOver(env.masterAndReplica())
}

// failOver kills a master and waits until its replica serves the sale.
func (env *Environment) failOver(master, replica *Redis) {
	env.Inject("a master killed", func() {
		began := time.Now()
		master.Kill()
		env.waitServes(replica)
		env.T.Logf("the replica serves the sale after %v", time.Since(began).Round(time.Millisecond))
	})
}

func (env *Environment) restartNode(r *Redis) {
	if err := r.Start(); err != nil {
		env.T.Errorf("restart a Redis: %v", err)
	}
}

// killMasterOfOldReplica takes the replica away from its master for a second in which the sale goes on. Then the master dies,
// and the replica takes over with its old data.
func killMasterOfOldReplica(env *Environment, c *Crowd) {
	c.WaitSold(40)
	master, replica := env.masterAndReplica()
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	// The replica cannot connect again, because it has a wrong password.
	if err := env.group.of(replica).ConfigSet(ctx, "masterauth", "wrong").Err(); err != nil {
		env.T.Error(err)
	}
	if n, err := env.group.of(master).ClientKillByFilter(ctx, "TYPE", "replica").Result(); err != nil || n != 1 {
		env.T.Errorf("%d replicas were disconnected: %v", n, err)
	}
	c.WaitSold(60)
	has := env.ops(ctx, master)
	c.Wait(time.Second)
	if !sandboxtest.Poll(func() bool { return c.isOver() || env.ops(ctx, master) > has+10 }) {
		env.TooLittle("the sale stood still while the replica was away")
	}
	before := env.ops(ctx, master)
	stop := c.askOwners()
	env.failOver(master, replica)
	if after := env.ops(ctx, replica); after >= before {
		env.TooLittle("the gate had %d ops on the master and has %d on its replica: no data was lost", before, after)
	} else {
		env.T.Logf("the gate went back from %d ops to %d", before, after)
	}
	stop()
	c.observers.Go(func() {
		sandboxtest.Poll(func() bool { right, _ := env.gateMatches(env.T.Context()); return right })
		c.Wait(time.Second) // a process may trust a gate that went back until its next look, 0.4 s at most
		c.clickAgain()
	})
}

// ops returns the ops of the gate on one server.
func (env *Environment) ops(ctx context.Context, r *Redis) int {
	c := env.group.of(r)
	cmd := redis.NewStringCmd(ctx, "hget", env.key("gate"), "ops")
	if err := c.Process(ctx, cmd); err != nil {
		env.T.Errorf("read the ops of the gate at %s: %v", r.addr, err)
	}
	n, _ := strconv.Atoi(cmd.Val())
	return n
}

// moveSale moves the sale's slot to the next master, key by key, while all ask for them.
func (env *Environment) moveSale() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	from, err := env.saleMaster(ctx)
	if err != nil {
		env.T.Error(err)
		return
	}
	masters := env.group.nodes[:3]
	to := masters[0]
	if from == to {
		to = masters[1]
	}
	slot := int(env.group.of(from).ClusterKeySlot(ctx, env.key("gate")).Val())
	do := func(r *Redis, args ...any) *redis.Cmd {
		reply := env.group.of(r).Do(ctx, args...)
		if err := reply.Err(); err != nil {
			env.T.Errorf("%v: %v", args, err)
		}
		return reply
	}
	id := func(r *Redis) string { return env.group.of(r).ClusterMyID(ctx).Val() }
	do(to, "cluster", "setslot", slot, "importing", id(from))
	do(from, "cluster", "setslot", slot, "migrating", id(to))
	moved := 0
	for {
		keys, err := env.group.of(from).ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			env.T.Error(err)
			return
		}
		if len(keys) == 0 {
			break
		}
		do(from, "migrate", "127.0.0.1", to.port, "", 0, 5000, "auth", redisPassword, "keys", keys[0])
		moved++
		time.Sleep(300 * time.Millisecond)
	}
	if moved < 3 {
		env.T.Errorf("only %d keys were moved", moved)
	}
	for _, r := range append([]*Redis{to, from}, masters...) {
		do(r, "cluster", "setslot", slot, "node", id(to))
	}
	env.waitServes(to)
}

// checkNoTicketLost checks that each accepted ticket has a result: no process of the shop has died, so each has still its queue,
// whatever Redis lost.
func checkNoTicketLost(env *Environment, c *Crowd) {
	checkSoldMeanwhile(env, c)
	env.checkTicketsKept(c)
}

func (env *Environment) checkTicketsKept(c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	sale, err := env.readSale(ctx)
	if err != nil {
		env.T.Error(err)
		return
	}
	for _, resp := range c.ledger.filter(ofKind("buy")) {
		if r, ok := sale.tickets[resp.Data.Ticket]; resp.Data.Ticket != "" && (!ok || r.UserID != resp.User) {
			env.Report("I4: ticket %s, accepted from user %d, has no result", resp.Data.Ticket, resp.User)
		}
	}
}

// checkSoldMeanwhile checks that the shops have sold during the fault.
func checkSoldMeanwhile(env *Environment, c *Crowd) {
	if n := len(env.duringFaults(c.ledger.filter(func(resp response) bool { return resp.Kind == "buy" && resp.Data.State == "ordered" }))); n == 0 {
		env.Report("I11: no buyer got an order while no Redis had the sale")
	} else if n < 20 {
		env.TooLittle("only %d buyers got an order while no Redis had the sale", n)
	}
}
