package schedules

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

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

// perform does the next step of an actor, or the fault in its place.
func (t *trial) perform(a *actor, fault string, switched bool) {
	r := a.waiting
	if fault != "" {
		t.faults = append(t.faults, fault)
	}
	switch fault {
	case lab.Kill:
		t.kill(a, switched)
		return
	case lab.RedisAway:
		t.away = 3
	}
	a.waiting = nil
	lost, away := fault == lab.LostReply, t.away > 0 && r.kind == "redis"
	if away {
		t.away--
	}
	r.finished = make(chan struct{})
	go func() {
		defer close(r.finished)
		if away {
			r.err = program.ErrRedisAway
			return
		}
		r.result, r.err = r.do(t.ctx)
		if late := net.Error(nil); r.kind == "redis" && errors.As(r.err, &late) && late.Timeout() {
			t.stuck(lab.Endless, "a call of Redis does not end: "+lab.OneLine(r.text))
		}
		if r.err == nil && lost {
			r.err = program.ErrLostReply
		}
	}()
	began := time.Now()
	if !t.settled(a, r) {
		i := t.record(a, r, switched)
		t.steps[i].Result, t.steps[i].Waited = "waits", true
		a.flying = r
		return
	}
	t.spent += time.Since(began)
	t.finish(a, r, switched, false)
}

// stall lets the actor whose turn it is stand still until the keys in Redis have expired.
func (t *trial) stall(ready []int) {
	if !slices.Contains(ready, t.turn) {
		t.turn = t.other(ready)
	}
	t.faults = append(t.faults, Stall)
	t.pass(t.expiry() + time.Millisecond)
	t.record(t.actors[t.turn], &request{kind: "fault", text: stallText}, false)
}

// pass lets time pass in Redis. Who waited for a key tries again.
func (t *trial) pass(d time.Duration) {
	t.server.FastForward(d)
	for _, a := range t.actors {
		a.stale = 0
	}
}

// manyTimes is how often one line with one result may say something new, such as with a new token for each try.
const manyTimes = 20

const (
	stallText = "time passes: keys in Redis expire"
	killText  = "the process is killed"
	thinkText = "think"
	startText = "start"

	cancelText = "cancel"
)

// blocksInRedis matches the calls of Redis that wait for another client. Others are at most slow.
var blocksInRedis = regexp.MustCompile(`(?i)^(bl|br|bz|xread|wait)`)

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
			if time.Since(began) > 15*time.Millisecond && (r.kind != "redis" || blocksInRedis.MatchString(r.text)) {
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
	t.steps[i].Result = t.plain.Replace(r.result)
	if r.err != nil {
		t.steps[i].Result = t.plain.Replace(lab.OneLine(r.err.Error()))
	}
	signature := r.kind + r.text + t.steps[i].Result
	same := fmt.Sprint(r.kind, r.line, t.steps[i].Result)
	a.often[same]++
	if a.stale++; !a.seen[signature] && a.often[same] <= manyTimes {
		a.seen[signature], a.stale = true, 0
	}
	t.repeats[i] = a.stale > 1 || a.stale > 0 && a.refused > 0 // presses again
	if r.kind == "answer" && r.err == nil {
		a.answered(r.text)
	}
	if errors.Is(r.err, program.ErrLostReply) {
		a.hangUp()
	}
	r.reply <- r.err
	t.await(a)
}

// record adds a step with the state after it.
func (t *trial) record(a *actor, r *request, switched bool) int {
	text := t.plain.Replace(strings.ReplaceAll(lab.OneLine(r.text), t.ns.Key(""), ""))
	t.steps = append(t.steps, lab.ScheduleStep{Buyer: a.id + 1, Kind: r.kind, Text: text, Line: r.line,
		Switched: switched, State: t.observe()})
	t.repeats = append(t.repeats, false)
	i := len(t.steps) - 1
	if sold := strings.Fields(t.steps[i].State.Orders); t.broken < 0 &&
		(len(sold) > t.stock || len(slices.Compact(slices.Sorted(slices.Values(sold)))) < len(sold)) {
		t.broken = i
	}
	return i
}

// kill ends the process of an actor, with the transactions and memory of all its clicks, and opens another one.
func (t *trial) kill(a *actor, switched bool) {
	i := slices.Index(t.processes, t.processOf(a))
	t.processes[i].kill(lab.ErrKilled)
	var dead []*actor
	for _, other := range t.actors {
		if t.processOf(other) == t.processes[i] && !other.done {
			dead = append(dead, other)
			other.hangUp()
		}
	}
	t.record(a, &request{kind: "fault", text: killText}, switched)
	if err := t.open(i); err != nil {
		t.fail(err)
	}
	t.processes[i].started.Store(!t.processes[i].Has("start"))
	for _, other := range dead {
		for _, r := range []*request{other.waiting, other.flying} {
			if r != nil {
				r.reply <- lab.ErrKilled
			}
		}
		other.waiting, other.flying = nil, nil
		t.await(other)
	}
}
