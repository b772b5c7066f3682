package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	glua "github.com/yuin/gopher-lua"
)

// trial is one schedule at work.
type trial struct {
	*search
	scene
	schedule []move
	ctx      context.Context
	vms      []*process
	actors   []*actor
	steps    []ScheduleStep
	repeats  []bool   // the steps that say nothing new: an actor tries again and again
	turn     int      // the actor whose turn it is
	choices  []choice // so far
	away     int      // calls of Redis that still fail
	faults   []string // that came to pass
	switches int
	broken   int    // index of the step at which more was sold than there is; -1
	failure  string // of the program itself
	problem  string
	kind     string   // verdict
	orders   []string // at the end
	before   RowState // before the first click
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
	*vm
	ctx  context.Context
	kill context.CancelCauseFunc
}

// actor is a click in a trial. It asks for each step and waits until its turn.
type actor struct {
	*trial
	id       int
	user     int64
	node     int
	conn     *pgx.Conn
	inTx     bool
	ask      chan *request
	ended    chan struct{}
	waiting  *request // asked and not begun
	flying   *request // begun, and waits for a lock of another
	done     bool
	told     string // yes, no or ""
	promised bool
	stale    int // steps since one that was new
	seen     map[string]bool
	put      []func(context.Context) error
}

// request is one step.
type request struct {
	kind, text string
	line       int
	commits    bool
	do         func(ctx context.Context) (result string, err error)
	reply      chan error
	finished   chan struct{}
	result     string
	err        error
}

var errTrialOver = errors.New("the schedule is over")

// try runs one schedule.
func (s *search) try(ctx context.Context, sc scene, moves []move) (*trial, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	t := &trial{search: s, scene: sc, schedule: moves, ctx: ctx, broken: -1}
	if err := s.reset(ctx, sc.stock); err != nil {
		return nil, err
	}
	for i := range min(s.plan.Nodes, len(sc.users)) {
		t.vms = append(t.vms, nil)
		if err := t.open(i); err != nil {
			return t.fail(err), nil
		}
	}
	if err := t.direct(t.vms[0], "prepare"); err != nil {
		return t.fail(err), nil
	}
	for _, p := range t.vms {
		if err := t.direct(p, "start"); err != nil {
			return t.fail(err), nil
		}
	}
	t.before = s.state(ctx)
	for i, user := range sc.users {
		a := &actor{trial: t, id: i, user: user, node: i % len(t.vms), conn: s.conns[i], ask: make(chan *request), ended: make(chan struct{}), seen: map[string]bool{}}
		t.actors = append(t.actors, a)
		go a.click()
	}
	for _, a := range t.actors {
		t.await(a)
	}
	t.run()
	t.orders = strings.Fields(s.state(ctx).Orders)
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
	p := &process{}
	p.ctx, p.kill = context.WithCancelCause(t.ctx)
	var err error
	p.vm, err = openVM(p.ctx, t.code, t.plan.Seed+uint64(i+1), t.print)
	t.vms[i] = p
	return err
}

// direct calls prepare or start, without a schedule.
func (t *trial) direct(p *process, name string) error {
	a := &actor{trial: t, id: -1, conn: t.conns[0]}
	_, _, err := p.call(p.ctx, a, name)
	a.rollBack()
	return err
}

func (t *trial) fail(err error) *trial {
	t.failure, t.problem = err.Error(), BadRuntime
	if t.ctx.Err() != nil {
		t.failure, t.problem = fmt.Sprintf("it did not end within %d s", int(trialTime.Seconds())), Endless
	}
	return t
}

// click presses buy until there is an answer, and does what later has put off.
func (a *actor) click() {
	defer close(a.ended)
	var err error
	for range clickTries {
		p := a.processOf(a)
		a.put = nil
		var yes glua.LValue
		var has bool
		yes, has, err = p.call(p.ctx, a, "buy", glua.LNumber(a.user))
		a.rollBack()
		if !has {
			a.failure, a.problem = errNoBuy.Error(), BadRuntime
			return
		}
		if errors.Is(err, errTrialOver) || a.ctx.Err() != nil {
			return
		}
		if err == nil && p.ctx.Err() == nil {
			answer := "no"
			if yes == glua.LTrue {
				answer = "yes"
			}
			if err = a.step(&request{kind: "answer", text: answer, do: func(context.Context) (string, error) {
				a.told = answer
				return "", nil
			}}); err == nil {
				for _, do := range a.put {
					if p.ctx.Err() != nil {
						return
					}
					_ = do(p.ctx)
					a.rollBack()
				}
				return
			}
			if a.told != "" || errors.Is(err, errTrialOver) {
				return
			}
		}
	}
	if err != nil && len(a.faults) == 0 {
		a.failure, a.problem = err.Error(), BadRuntime
	}
}

// step asks for a step and waits until it is done. Outside of a schedule it is done at once.
func (a *actor) step(r *request) error {
	if a.id < 0 {
		_, err := r.do(a.ctx)
		return err
	}
	r.reply = make(chan error, 1)
	select {
	case a.ask <- r:
	case <-a.ctx.Done():
		return errTrialOver
	}
	return <-r.reply
}

// await waits until an actor asks for its next step or has ended.
func (t *trial) await(a *actor) {
	if a.done || a.waiting != nil || a.flying != nil {
		return
	}
	select {
	case a.waiting = <-a.ask:
	case <-a.ended:
		a.done = true
	case <-t.ctx.Done():
	}
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
			t.failure, t.problem = fmt.Sprintf("the buyers are not done after %d steps", trialSteps), Endless
			return
		}
		at := len(t.choices)
		var fault string
		switched := false
		for _, m := range t.schedule {
			if m.at != at {
				continue
			}
			if m.buyer >= 0 && slices.Contains(ready, m.buyer) && m.buyer != t.turn {
				t.turn, switched = m.buyer, true
				t.switches++
			}
			fault = m.fault
		}
		if !slices.Contains(ready, t.turn) || t.actors[t.turn].spins() {
			t.turn = t.other(ready)
			if t.actors[t.turn].spins() { // all of them wait for something that only time brings
				if passes++; passes > 20 {
					t.failure, t.problem = "the buyers wait for each other without end", Endless
					return
				}
				t.server.FastForward(max(time.Second, t.expiry()))
				for _, a := range t.actors {
					a.stale = 0
				}
			}
		}
		a := t.actors[t.turn]
		t.choices = append(t.choices, choice{others: slices.DeleteFunc(slices.Clone(ready), func(i int) bool { return i == t.turn }),
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

// spins reports whether an actor repeats what it has done: it waits for another one.
func (a *actor) spins() bool { return a.stale >= 6 }

// perform does the next step of an actor, or the fault in its place.
func (t *trial) perform(a *actor, fault string, switched bool) {
	r := a.waiting
	if fault != "" {
		t.faults = append(t.faults, fault)
	}
	switch fault {
	case Kill:
		t.kill(a, switched)
		return
	case Stall:
		t.server.FastForward(t.expiry() + time.Millisecond)
		t.record(a, &request{kind: "fault", text: stallText}, switched)
	case RedisAway:
		t.away = 3
	}
	a.waiting = nil
	lost := fault == LostReply
	r.finished = make(chan struct{})
	go func() {
		defer close(r.finished)
		if t.away > 0 && r.kind == "redis" {
			t.away--
			r.err = errRedisAway
			return
		}
		r.result, r.err = r.do(t.ctx)
		if late := net.Error(nil); r.kind == "redis" && errors.As(r.err, &late) && late.Timeout() {
			t.stuck(Endless, "a call of Redis does not end: "+oneLine(r.text))
		}
		if r.err == nil && lost {
			r.err = errLostReply
		}
	}()
	if !t.settled(a, r) {
		i := t.record(a, r, switched)
		t.steps[i].Result, t.steps[i].Waited = "waits", true
		a.flying = r
		return
	}
	t.finish(a, r, switched, false)
}

const (
	stallText = "time passes: keys in Redis expire"
	killText  = "the process is killed"
	thinkText = "think"
)

// settled waits until a step has ended. It returns false if the step waits for a lock of another actor.
func (t *trial) settled(a *actor, r *request) bool {
	pid := uint32(0)
	if a.conn != nil && !a.conn.IsClosed() {
		pid = a.conn.PgConn().PID()
	}
	wait := 2 * time.Millisecond
	began := time.Now()
	for {
		select {
		case <-r.finished:
			return true
		case <-t.ctx.Done():
			<-r.finished
			return true
		case <-time.After(wait):
		}
		if r.kind != "sql" {
			if time.Since(began) > 15*time.Millisecond {
				return false
			}
			continue
		}
		var blocked bool
		if err := t.see.QueryRow(t.ctx, `select cardinality(pg_blocking_pids($1)) > 0`, int32(pid)).Scan(&blocked); err == nil && blocked {
			select {
			case <-r.finished:
				return true
			default:
				return false
			}
		}
	}
}

// land finishes the steps whose wait is over. With wait it waits for one of them, such as for the end of a deadlock; it
// returns false if no step is under way.
func (t *trial) land(wait bool) bool {
	for {
		flying, landed := false, false
		for _, a := range t.actors {
			r := a.flying
			if r == nil {
				continue
			}
			flying = true
			if wait {
				select {
				case <-r.finished:
				case <-time.After(3 * time.Millisecond):
					continue
				case <-t.ctx.Done():
					<-r.finished
				}
			} else if !t.settled(a, r) {
				continue
			}
			a.flying, landed = nil, true
			t.finish(a, r, false, true)
		}
		if !flying || landed || !wait {
			return flying
		}
	}
}

// finish records a step that has ended, and lets its actor ask for the next one.
func (t *trial) finish(a *actor, r *request, switched, waited bool) {
	i := t.record(a, r, switched)
	t.steps[i].Waited = waited
	t.steps[i].Result = r.result
	if r.err != nil {
		t.steps[i].Result = oneLine(r.err.Error())
	}
	signature := r.kind + r.text + t.steps[i].Result
	if a.stale++; !a.seen[signature] {
		a.seen[signature], a.stale = true, 0
	}
	t.repeats[i] = a.stale > 1
	if errors.Is(r.err, errLostReply) {
		a.hangUp()
	}
	r.reply <- r.err
	t.await(a)
}

// record adds a step with the state after it.
func (t *trial) record(a *actor, r *request, switched bool) int {
	text := strings.ReplaceAll(oneLine(r.text), t.ns.key(""), "")
	t.steps = append(t.steps, ScheduleStep{Buyer: a.id + 1, Kind: r.kind, Text: text, Line: r.line, Switched: switched, State: t.state(t.ctx)})
	t.repeats = append(t.repeats, false)
	i := len(t.steps) - 1
	if sold := strings.Fields(t.steps[i].State.Orders); t.broken < 0 && (len(sold) > t.stock || len(slices.Compact(slices.Sorted(slices.Values(sold)))) < len(sold)) {
		t.broken = i
	}
	return i
}

// kill ends the process of an actor, with the transactions and memory of all its clicks, and starts another one.
func (t *trial) kill(a *actor, switched bool) {
	i := slices.Index(t.vms, t.processOf(a))
	t.vms[i].kill(errKilled)
	var dead []*actor
	for _, other := range t.actors {
		if t.processOf(other) == t.vms[i] && !other.done {
			dead = append(dead, other)
			other.hangUp()
		}
	}
	t.record(a, &request{kind: "fault", text: killText}, switched)
	if err := t.open(i); err == nil {
		err = t.direct(t.vms[i], "start")
		if err != nil {
			t.fail(err)
		}
	}
	for _, other := range dead {
		for _, r := range []*request{other.waiting, other.flying} {
			if r != nil {
				r.reply <- errKilled
			}
		}
		other.waiting, other.flying = nil, nil
		t.await(other)
	}
}

func (t *trial) processOf(a *actor) *process { return t.vms[a.node] }

// hangUp ends an actor's connection, as Postgres sees it: its transaction is rolled back, and its locks are free.
func (a *actor) hangUp() {
	if a.flying == nil && !a.conn.IsClosed() {
		if a.inTx {
			_, _ = a.conn.Exec(a.ctx, `rollback`)
		}
		a.inTx = false
		if _, err := a.conn.PgConn().Exec(a.ctx, `discard all`).ReadAll(); err == nil {
			return
		}
	}
	pid := a.conn.PgConn().PID()
	_, _ = a.see.Exec(a.ctx, `select pg_terminate_backend($1, 1000)`, int32(pid))
	_ = a.conn.PgConn().Conn().Close()
	if c, err := a.connect(a.ctx); err == nil {
		a.conn, a.conns[a.id] = c, c
	}
	a.inTx = false
}

// rollBack ends a transaction that a click has left open.
func (a *actor) rollBack() {
	if a.inTx && !a.conn.IsClosed() {
		_, _ = a.conn.Exec(a.ctx, `rollback`)
	}
	a.inTx = false
}

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
		fault := func(name string, ok bool) {
			if ok && !slices.Contains(t.faults, name) {
				moves = append(moves, move{at: at, buyer: -1, fault: name})
			}
		}
		fault(Stall, c.keys && !c.think)
		fault(Kill, t.plan.has(Kill) && !c.think)
		fault(LostReply, t.plan.has(LostReply) && c.commits)
		fault(RedisAway, t.plan.has(RedisAway) && c.kind == "redis")
	}
	return moves
}

// The calls of a click in a trial.

func (a *actor) key(name string) string { return a.ns.key(name) }

func (a *actor) query(_ context.Context, line int, text string, args []any) (t *table, err error) {
	first := strings.ToLower(strings.TrimSpace(text))
	err = a.step(&request{kind: "sql", text: withArgs(text, args), line: line, commits: !a.inTx && !strings.HasPrefix(first, "select"),
		do: func(ctx context.Context) (string, error) {
			rows, err := a.conn.Query(ctx, text, args...)
			if err != nil {
				return "", err
			}
			if t, err = readTable(rows); err != nil {
				return "", err
			}
			return t.String(), nil
		}})
	return t, err
}

func (a *actor) begin(_ context.Context, line int, isolation string) error {
	if a.inTx {
		return errNested
	}
	level, err := isolationLevel(isolation)
	if err != nil {
		return err
	}
	text := "begin"
	if level != "" {
		text += " isolation level " + string(level)
	}
	return a.step(&request{kind: "sql", text: text, line: line, do: func(ctx context.Context) (string, error) {
		_, err := a.conn.Exec(ctx, text)
		a.inTx = err == nil
		return "", err
	}})
}

func (a *actor) end(_ context.Context, line int, commit bool) error {
	if !a.inTx {
		return nil
	}
	text := "rollback"
	if commit {
		text = "commit"
	}
	return a.step(&request{kind: "sql", text: text, line: line, commits: commit, do: func(ctx context.Context) (string, error) {
		tag, err := a.conn.Exec(ctx, text)
		a.inTx = false
		if err == nil && commit && tag.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
		return "", err
	}})
}

func (a *actor) redis(_ context.Context, line int, args []any) (reply any, err error) {
	err = a.step(&request{kind: "redis", text: redisText(args), line: line, commits: true, do: func(ctx context.Context) (string, error) {
		var err error
		if reply, err = redisReply(a.rdb.Do(ctx, args...)); err != nil {
			return "", err
		}
		if reply == nil {
			return "nil", nil
		}
		return oneLine(fmt.Sprint(reply)), nil
	}})
	return reply, err
}

// redisText returns a call as a terminal shows it. Of a script it shows the first line.
func redisText(args []any) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	return strings.ReplaceAll(strings.Join(words, " "), closedScript, "")
}

func (a *actor) think(_ context.Context, line int) error {
	return a.step(&request{kind: "code", text: thinkText, line: line, do: func(context.Context) (string, error) { return "", nil }})
}

func (a *actor) promise(_ context.Context, line int) error {
	if a.id < 0 {
		return nil
	}
	return a.step(&request{kind: "answer", text: "yes", line: line, do: func(context.Context) (string, error) {
		a.promised = true
		return "", nil
	}})
}

func (a *actor) lock(_ context.Context, line int, name string) (unlock func(), err error) {
	p := a.processOf(a)
	err = a.step(&request{kind: "code", text: "lock " + name, line: line, do: func(ctx context.Context) (string, error) {
		var err error
		unlock, err = p.lockOf(name).take(p.ctx)
		return "", err
	}})
	return unlock, err
}

func (a *actor) later(do func(context.Context) error) { a.put = append(a.put, do) }
