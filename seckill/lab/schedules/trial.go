package schedules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// trial is one schedule at work.
type trial struct {
	*search
	scene
	schedule  []move
	ctx       context.Context
	limit     time.Duration // of ctx
	processes []*process
	actors    []*actor
	steps     []lab.ScheduleStep
	repeats   []bool   // the steps that say nothing new: an actor tries again and again
	turn      int      // the actor whose turn it is
	choices   []choice // so far
	away      int      // calls of Redis that still fail
	faults    []string // that came to pass
	switches  int
	broken    int    // index of the step at which more was sold than there is; -1
	failure   string // of the program itself
	problem   string
	kind      string       // verdict
	orders    []string     // at the end
	before    lab.RowState // before the first click
}

// choice is a point at which a schedule may switch to another buyer or inject a fault.
type choice struct {
	others  []int // actors that could go on as well
	kind    string
	commits bool // the step writes, or ends a transaction
	keys    bool // a key in Redis has a life
	think   bool
}

// process is one process of the shop in a trial.
type process struct {
	*program.VM
	ctx      context.Context
	kill     context.CancelCauseFunc
	starting program.Lock
	started  atomic.Bool // start has returned, or the program has none
}

// try runs one schedule, which fails when it has not ended in its time.
func (s *search) try(ctx context.Context, sc scene, moves []move, limit time.Duration) (*trial, error) {
	if err := s.reset(ctx, sc.stock); err != nil {
		return nil, err
	}
	s.numberBuyers()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &trial{search: s, scene: sc, schedule: moves, ctx: ctx, limit: limit, broken: -1}
	for i := range min(s.plan.Nodes, len(sc.users)) {
		t.processes = append(t.processes, nil)
		if err := t.open(i); err != nil {
			return t.fail(err), nil
		}
	}
	if err := t.direct(t.processes[0], "prepare"); err != nil {
		return t.fail(err), nil
	}
	for _, p := range t.processes {
		if err := t.direct(p, "start"); err != nil {
			return t.fail(err), nil
		}
		p.started.Store(true)
	}
	if t.before = t.observe(); t.before.Orders != "" && t.before.Orders != unreadable {
		t.kind = lab.Tampered // orders before the first click
	}
	for i, user := range sc.users {
		a := &actor{trial: t, id: i, user: user, node: i % len(t.processes), conn: s.conns[i], ask: make(chan *request),
			ended: make(chan struct{}), seen: map[string]bool{}, often: map[string]int{}}
		t.actors = append(t.actors, a)
		go a.click()
		t.await(a)
	}
	t.run()
	if orders := t.observe().Orders; orders != unreadable {
		t.orders = strings.Fields(orders)
	}
	changed, err := t.ns.Tampered(t.ctx)
	if err != nil && t.failure == "" {
		t.fail(err)
	}
	if changed || t.foreign {
		t.kind = lab.Tampered
	}
	cancel()
	for _, a := range t.actors { // let the goroutines go
		for !a.done {
			for _, r := range []*request{a.waiting, a.flying} {
				if r != nil {
					if r.finished != nil { // it still has the connection, until ctx ends it
						<-r.finished
					}
					r.reply <- errTrialOver
				}
			}
			a.waiting, a.flying = nil, nil
			select {
			case a.waiting = <-a.ask:
			case <-a.ended:
				a.done = true
			}
		}
	}
	return t, nil
}

// open starts a process.
func (t *trial) open(i int) error {
	p := &process{starting: make(program.Lock, 1)}
	p.ctx, p.kill = context.WithCancelCause(t.ctx)
	var err error
	p.VM, err = program.OpenVM(p.ctx, t.code, t.plan.Seed+uint64(i+1), t.print)
	t.processes[i] = p
	return err
}

// direct calls prepare or start, without a schedule.
func (t *trial) direct(p *process, name string) error {
	a := &actor{trial: t, id: -1, conn: t.conns[0]}
	began := time.Now()
	_, _, err := p.Call(p.ctx, a, name)
	a.rollBack()
	a.doLater(p)
	t.spent += time.Since(began)
	return err
}

func (t *trial) fail(err error) *trial {
	t.failure, t.problem = lab.OneLine(err.Error()), lab.BadRuntime
	if t.ctx.Err() != nil {
		t.failure, t.problem = fmt.Sprintf("it did not end within %v", t.limit), lab.Endless
	}
	return t
}

// observe returns the state. Without it there is nothing to judge.
func (t *trial) observe() lab.RowState {
	state, err := t.state(t.ctx)
	if err != nil && t.failure == "" {
		t.fail(err)
	}
	return state
}

// await waits until an actor asks for its next step or has ended.
func (t *trial) await(a *actor) {
	if a.done || a.waiting != nil || a.flying != nil {
		return
	}
	began := time.Now()
	select {
	case a.waiting = <-a.ask:
	case <-a.ended:
		a.done = true
	case <-t.ctx.Done():
	}
	t.spent += time.Since(began)
}

// run makes the schedule's choices until all actors have ended.
func (t *trial) run() {
	passes := 0
	for t.failure == "" {
		if t.ctx.Err() != nil {
			t.fail(t.ctx.Err())
			return
		}
		ready := t.ready()
		if len(ready) == 0 {
			if !t.land(true) {
				return
			}
			continue
		}
		if len(t.steps) >= trialSteps {
			t.failure, t.problem = fmt.Sprintf("the buyers are not done after %d steps", trialSteps), lab.Endless
			return
		}
		at := len(t.choices)
		var fault string
		switched := false
		for _, m := range t.schedule {
			if m.at != at {
				continue
			}
			if m.fault == Stall {
				t.stall(ready)
			} else {
				fault = m.fault
			}
			if m.buyer >= 0 && slices.Contains(ready, m.buyer) && m.buyer != t.turn {
				t.turn, switched = m.buyer, true
				t.switches++
			}
		}
		if !slices.Contains(ready, t.turn) || t.actors[t.turn].spins() {
			t.turn = t.other(ready)
			if t.actors[t.turn].spins() { // all of them wait for something that only time brings
				if passes++; passes > 20 {
					t.failure, t.problem = "the buyers wait for each other without end", lab.Endless
					return
				}
				t.pass(max(time.Second, t.expiry()))
			}
		}
		a := t.actors[t.turn]
		t.choices = append(t.choices, choice{others: slices.DeleteFunc(slices.Clone(ready),
			func(i int) bool { return i == t.turn }),
			kind: a.waiting.kind, commits: a.waiting.commits, keys: t.expiry() > 0, think: a.waiting.text == thinkText})
		t.perform(a, fault, switched)
		t.land(false)
	}
}

// ready returns the actors that have asked for a step.
func (t *trial) ready() (ready []int) {
	for i, a := range t.actors {
		if a.waiting != nil {
			ready = append(ready, i)
		}
	}
	return ready
}

// other returns the next actor that is ready, one that makes progress first.
func (t *trial) other(ready []int) int {
	for n := range t.actors {
		if i := (t.turn + 1 + n) % len(t.actors); slices.Contains(ready, i) && !t.actors[i].spins() {
			return i
		}
	}
	for n := range t.actors {
		if i := (t.turn + 1 + n) % len(t.actors); slices.Contains(ready, i) {
			return i
		}
	}
	return ready[0]
}

func (t *trial) processOf(a *actor) *process { return t.processes[a.node] }

// moves returns what could be different after the last move of the schedule.
func (t *trial) moves() (moves []move) {
	if t.failure != "" {
		return nil
	}
	from := 0
	if n := len(t.schedule); n > 0 {
		from = t.schedule[n-1].at + 1
	}
	for at := from; at < len(t.choices); at++ {
		c := t.choices[at]
		if !c.think { // to switch before a pause is to switch after it
			for _, other := range c.others {
				moves = append(moves, move{at: at, buyer: other})
			}
		}
		if len(t.users) > 2 {
			continue
		}
		fault := func(name string, ok bool, to int) {
			if ok && !slices.Contains(t.faults, name) {
				moves = append(moves, move{at: at, buyer: to, fault: name})
			}
		}
		other := -1 // goes on while the buyer stands still
		if len(c.others) > 0 {
			other = c.others[0]
		}
		fault(Stall, c.keys && !c.think, other)
		fault(lab.Kill, t.plan.Has(lab.Kill) && !c.think, -1)
		fault(lab.LostReply, t.plan.Has(lab.LostReply) && c.commits, -1)
		fault(lab.RedisAway, t.plan.Has(lab.RedisAway) && c.kind == "redis", -1)
	}
	return moves
}
