package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox"
)

// recoverLimit bounds the wait for a shop that gets up, and for its audit.
const recoverLimit = 30 * time.Second

// TeachFaults are the faults of the teaching panel, with the seconds that each lasts if no other number is asked for.
var TeachFaults = map[string]int{"kill": 4, "redis": 5, "flush": 0, "postgres": 10}

// Teacher breaks a part of the running sandbox on purpose, one part at a time, so that a class sees what a buyer
// notices of it and how the shop recovers. Each fault ends automatically, even if this process dies meanwhile. Nothing
// starts before Run is called.
type Teacher struct {
	env    Env
	stores *backend.Stores
	can    map[string]string
	next   chan lesson // has room for the one fault

	mu  sync.Mutex
	now Lesson
}

// lesson is what Start hands to Run.
type lesson struct {
	fault string
	lasts time.Duration
}

// Lesson is the state of a fault, or of the last one.
type Lesson struct {
	Fault     string    `json:"fault,omitempty"`
	State     string    `json:"state"`   // idle; starting and selling for a kill; broken, recovering; done or failed
	Seconds   int       `json:"seconds"` // for how long it lasts
	Elapsed   float64   `json:"elapsed"` // seconds since it began, or until all was well again
	Recovered float64   `json:"recovered,omitempty"`
	Audit     string    `json:"audit,omitempty"` // clean, or what the audit says; "" while it is not known
	Second    *Second   `json:"second,omitempty"`
	began     time.Time // of the fault
}

// Second is the other process of the shop, which is killed, and what became of its tickets.
type Second struct {
	URL      string  `json:"url"`
	PID      int     `json:"pid"`
	Sale     int64   `json:"sale"`
	Accepted int64   `json:"accepted"` // tickets that it has given
	Unknown  int64   `json:"unknown"`  // clicks without an answer
	Before   int     `json:"before"`   // orders in Postgres at its death
	Orders   int     `json:"orders"`
	TookOver float64 `json:"took_over,omitempty"` // seconds from its death until the last of its tickets was an order
}

// NewTeacher returns a Teacher for the sandbox of this process. gate says whether the shop at url has a gate.
func NewTeacher(env Env, stores *backend.Stores, url string, gate bool) *Teacher {
	return &Teacher{env: env, stores: stores, can: possible(stores.Sandbox, url, gate), next: make(chan lesson, 1),
		now: Lesson{State: "idle"}}
}

// possible returns each fault with the reason why it is not possible here, "" if it is: linux (only there), joined
// (another process runs the servers), own (the server is not the sandbox's), embedded (Redis is inside this process),
// gate (it is off), tls.
func possible(s *sandbox.Sandbox, url string, gate bool) map[string]string {
	can := map[string]string{}
	for fault := range TeachFaults {
		reason := ""
		switch {
		case s == nil || s.Shared != 0:
			reason = "joined"
		case fault != "flush" && !canStop:
			reason = "linux"
		case (fault == "redis" || fault == "flush") && s.RedisKind == "":
			reason = "own"
		case fault == "redis" && s.RedisKind == sandbox.Embedded:
			reason = "embedded"
		case fault == "kill" && !gate:
			reason = "gate"
		case fault == "kill" && strings.HasPrefix(url, "https:"):
			reason = "tls"
		}
		can[fault] = reason
	}
	return can
}

// Can returns each fault with the reason why it is not possible here, "" if it is.
func (t *Teacher) Can() map[string]string { return t.can }

// under reports whether a fault is under way.
func (l Lesson) under() bool { return l.State != "idle" && l.State != "done" && l.State != "failed" }

// Busy reports whether Start would refuse.
func (t *Teacher) Busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now.under()
}

// Start begins a possible fault; 0 seconds are those of TeachFaults. It reports false while another one is under way.
func (t *Teacher) Start(fault string, seconds int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.under() {
		return false
	}
	if seconds == 0 {
		seconds = TeachFaults[fault]
	}
	t.now = Lesson{Fault: fault, State: "broken", Seconds: seconds, began: time.Now()}
	if fault == "kill" {
		t.now.State = "starting"
	}
	t.next <- lesson{fault, time.Duration(seconds) * time.Second}
	return true
}

// State returns the state of the fault, a Lesson.
func (t *Teacher) State() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.now
	if l.Second != nil {
		second := *l.Second
		l.Second = &second
	}
	if l.under() {
		l.Elapsed = round1(time.Since(l.began).Seconds())
	}
	return l
}

func (t *Teacher) update(do func(*Lesson)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(&t.now)
}

// Run makes the faults until ctx ends, and ends one that is under way then.
func (t *Teacher) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-t.next:
			t.env.Log.Warn("the teaching panel causes a fault on purpose", "fault", l.fault, "for", l.lasts)
			err := t.make(ctx, l)
			if err == nil {
				err = t.recover(ctx)
			}
			if err != nil && ctx.Err() == nil {
				t.env.Log.Error("a fault from the teaching panel failed", "fault", l.fault, "err", err)
			}
			t.update(func(l *Lesson) {
				if l.State = "done"; err != nil {
					l.State = "failed"
				}
				l.Elapsed = round1(time.Since(l.began).Seconds())
			})
		}
	}
}

// make makes a fault, and returns when it is over.
func (t *Teacher) make(ctx context.Context, l lesson) error {
	switch l.fault {
	case "redis":
		return pauseProcesses(ctx, l.lasts, t.stores.Sandbox.RedisProcess())
	case "postgres":
		return pauseProcesses(ctx, l.lasts, t.stores.Sandbox.PostgresProcess())
	case "flush":
		return t.stores.Redis.FlushAll(ctx).Err()
	case "kill":
		return t.killSecond(ctx, l.lasts)
	}
	return fmt.Errorf("no fault %q", l.fault)
}

// recover waits until both stores answer and the audit is clean. What the audit says at the end of its time is a
// result, not an error.
func (t *Teacher) recover(ctx context.Context) error {
	began := time.Now()
	t.update(func(l *Lesson) { l.State = "recovering" })
	for {
		said, err := t.audit(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if late := time.Since(began) > recoverLimit; said == "clean" || late {
			t.update(func(l *Lesson) { l.Audit, l.Recovered = said, round1(time.Since(began).Seconds()) })
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// audit returns "clean", or what the audit says.
func (t *Teacher) audit(ctx context.Context) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := errors.Join(t.stores.Web.Ping(ctx), t.stores.Redis.Ping(ctx).Err()); err != nil {
		return "", err
	}
	var b bytes.Buffer
	clean, err := audit.Run(ctx, t.stores.Web, t.stores.Redis, &b)
	if err == nil && clean {
		return "clean", nil
	}
	return b.String(), err
}
