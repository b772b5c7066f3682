// Package alive tells a process of the shop which others live, so that the tickets of a dead one are taken over. Beats
// finds a death on any machine, by a counter in Redis that does not change any more; Presence finds one on the same
// machine at once, by a lock that the kernel releases. Highest divides work among the living.
package alive

import (
	"context"
	"slices"
	"sync"
	"time"

	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const (
	BeatEvery   = time.Second
	DeadAfter   = 5 * time.Second  // after so long without a new beat a process is dead
	forgetAfter = 10 * time.Minute // after so long its beat is removed

	roundLimit = 5 * time.Second // for one round: a Redis that hangs ends the round, not the beats
	endLimit   = 2 * time.Second // for the removal of this process's own beat
)

// Beats shows the other processes that this one lives, by a counter in Redis that it raises once a second, and knows
// which of them have died: those whose counter did not change for DeadAfter. The time is that of this process's own
// monotonic clock, in which its reads succeeded and its own counter changed: a Redis that is away, or that went back,
// ends no process, and no clock of another machine is believed. A round counts for one second at most, so a process
// that was stopped, perhaps with its whole machine, first leaves the others their time. A counter that is missing is
// only one that does not change: Redis may have lost it, and its owner raises it again.
type Beats struct {
	Rounds *rounds.Rounds
	After  time.Duration // DeadAfter, except in tests: set it before Run

	gate  *gate.Gate
	name  string // of this process
	fault func(doing string, err error)

	mu   sync.Mutex
	own  int64
	last time.Time        // the end of the last round, if it succeeded
	seen map[string]*beat // by process
}

// beat is the counter of a process, as this one has seen it.
type beat struct {
	n     int64 // 0: it was not there
	quiet time.Duration
}

// NewBeats returns the Beats of the process with this name, which is that of its gate too. fault logs what Redis did
// not do.
func NewBeats(g *gate.Gate, name string, fault func(doing string, err error)) *Beats {
	return &Beats{Rounds: rounds.New(), After: DeadAfter, gate: g, name: name, fault: fault, seen: map[string]*beat{}}
}

// Run beats once a second until ctx ends. Then this process is taken out: no other one waits for it.
func (b *Beats) Run(ctx context.Context) {
	b.Rounds.Run(ctx, roundLimit, rounds.Every(BeatEvery), b.Round)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if err := b.gate.EndBeats(last, b.name); err != nil {
		b.fault("end the beat", err)
	}
}

// Round beats once, and reads the beats of all processes.
func (b *Beats) Round(ctx context.Context) {
	began := time.Now()
	own, all, err := b.gate.Beat(ctx)
	if err != nil && ctx.Err() == nil {
		b.fault("beat", err)
	}
	if gone := b.note(began, own, all, err == nil); len(gone) > 0 {
		if err := b.gate.EndBeats(ctx, gone...); err != nil && ctx.Err() == nil {
			b.fault("forget dead processes", err)
		}
	}
}

// note takes in what a round that began then has read. It returns the processes that died long ago.
func (b *Beats) note(began time.Time, own int64, all map[string]int64, read bool) (gone []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := time.Duration(0)
	if !b.last.IsZero() {
		passed = min(began.Sub(b.last), BeatEvery)
	}
	b.last = time.Time{}
	if !read || own == b.own {
		return nil
	}
	b.own, b.last = own, time.Now()
	for name := range all {
		if b.seen[name] == nil {
			b.seen[name] = &beat{}
		}
	}
	for name, is := range b.seen {
		if n := all[name]; n != is.n {
			is.n, is.quiet = n, 0
			continue
		}
		is.quiet += passed
		switch {
		case is.quiet < forgetAfter:
		case is.n == 0:
			delete(b.seen, name)
		default:
			gone = append(gone, name)
		}
	}
	return gone
}

// Takes reports whether this process may take over an entry that its owner, "" for none, has had for so long. The owner
// must be dead. Its heir is first, so that one process does the work. After twice the time any process may: the heir
// may have no room, or no Postgres.
func (b *Beats) Takes(owner string, held time.Duration) bool {
	if owner != "" {
		held = b.silence(owner)
	}
	return held >= 2*b.After || held >= b.After && b.heirOf(owner)
}

// silence returns for how long the beat of another process has not changed. It is 0 while this process does not know.
func (b *Beats) silence(process string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := b.seen[process]
	if is == nil { // from now on its time counts
		is = &beat{}
		b.seen[process] = is
	}
	if process == b.name || !b.knows() {
		return 0
	}
	return is.quiet
}

// knows reports whether this process has read the beats a moment ago. After a pause it does not, until it has read them
// again. mu must be held.
func (b *Beats) knows() bool { return !b.last.IsZero() && time.Since(b.last) < 2*BeatEvery }

// heirOf reports whether this process is the heir of another one, or of none: of all that live it is the one with the
// highest hash. A process that does not see itself, because it cannot read, is no heir. Two may be for a moment, or
// none.
func (b *Beats) heirOf(process string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.knows() {
		return false
	}
	var living []string
	for name, is := range b.seen {
		if name != process && is.n != 0 && is.quiet < b.After {
			living = append(living, name)
		}
	}
	return Highest(b.name, process, slices.Values(living))
}
