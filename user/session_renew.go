package user

import (
	"context"
	_ "embed"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/maypok86/otter/v2"
)

const (
	// renewStep is the least time by which a renewal extends a session, so a session is written at most
	// once in it, by all processes together.
	renewStep = 10 * time.Minute

	renewGather = time.Second // from the first use that is due to the call that renews
	renewAtOnce = 256         // sessions in a call. Others wait for their next use: they have hours
)

//go:embed session_renew.lua
var sessionRenewSource string
var sessionRenew = redis.NewScript(-1, sessionRenewSource)

// renewals extend the sessions that are in use, in the background: no request waits for one, and a call to
// Redis a second is all that a crowd costs. Without Redis they are left out.
type renewals struct {
	copies *copies
	life   time.Duration // of a session that is used all the time
	due    chan renewal
	stop   context.CancelFunc
	done   chan struct{}
}

// renewal is a session to renew: the key of its token, its user and the end of its life.
type renewal struct {
	token    string
	userID   int64
	deadline time.Time
}

// startRenewals starts the goroutine that renews; close ends it.
func startRenewals(c *copies, life time.Duration) *renewals {
	ctx, stop := context.WithCancel(context.Background())
	r := &renewals{copies: c, life: life, due: make(chan renewal, renewAtOnce), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

func (r *renewals) close() {
	r.stop()
	<-r.done
}

// used notes that a session is in use. Most calls only compare two times: a session is due once in renewStep.
func (r *renewals) used(s renewal, e entry, now time.Time) {
	if now.Before(e.renewAt) || now.Before(s.deadline.Add(renewStep-r.life)) {
		return
	}
	select {
	case r.due <- s:
		r.copies.entries.Compute(s.token, func(old entry, ok bool) (entry, otter.ComputeOp) {
			if !ok || old.record == nil {
				return old, otter.CancelOp
			}
			old.renewAt = now.Add(renewStep)
			return old, otter.WriteOp
		})
	default: // the next use is soon enough
	}
}

func (r *renewals) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-r.due:
			select {
			case <-ctx.Done():
				return
			case <-time.After(renewGather):
			}
			batch := []renewal{first}
			for len(batch) < renewAtOnce && len(r.due) > 0 {
				batch = append(batch, <-r.due)
			}
			r.renew(ctx, batch) // a fault costs nothing: their next use in renewStep tries again
		}
	}
}

// renew extends sessions and returns how many. It leaves out those that their users ended here.
func (r *renewals) renew(ctx context.Context, batch []renewal) (renewed int, err error) {
	now := r.copies.now()
	var keys, args []any
	for _, s := range batch {
		if e, ok := r.copies.entries.GetIfPresent(s.token); ok && e.record == nil {
			continue
		}
		keys = append(keys, sessionPrefix+s.token, indexKey(s.userID), originsKey(s.userID))
		args = append(args, s.token, expiryOf(s.deadline, now).UnixMilli(), s.deadline.UnixMilli())
	}
	if len(keys) == 0 {
		return 0, nil
	}
	args = append(append(append([]any{len(keys)}, keys...), renewStep.Milliseconds()), args...)
	err = r.copies.remote.with(ctx, "renew sessions", func(conn redis.Conn) error {
		renewed, err = redis.Int(sessionRenew.Do(conn, args...))
		return err
	})
	return renewed, err
}

// expiryOf returns when a session ends that is used now and not again.
func expiryOf(deadline, now time.Time) time.Time {
	if idle := now.Add(idleFor); idle.Before(deadline) {
		return idle
	}
	return deadline
}
