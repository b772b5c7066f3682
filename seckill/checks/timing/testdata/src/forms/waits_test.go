package forms_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestSleeps(t *testing.T) {
	time.Sleep(time.Second)                           // want `sleeps`
	for n := 0; n < 3; time.Sleep(time.Millisecond) { // want `sleeps`
		n++
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		go func() { time.Sleep(time.Second) }()
		inBubble(2)
		sometimes()
		named := func() { time.Sleep(time.Second) }
		named()
		defer (&clock{}).tick()
	})
	sometimes()
	synctest.Test(t, bubble)
}

func bubble(t *testing.T) { inBubble(1) }

// All its uses are in a bubble, and it calls itself.
func inBubble(n int) {
	if time.Sleep(time.Second); n > 0 {
		inBubble(n - 1)
	}
	var c ticker = &clock{}
	c.tick()
	for _, step := range steps {
		step()
	}
}

// One use is outside.
func sometimes() { time.Sleep(time.Second) } // want `sleeps`

type ticker interface {
	tick()
	tock()
}

type clock struct{}

func (*clock) tick() { time.Sleep(time.Second) }

// Only called through the interface.
func (*clock) tock() { time.Sleep(time.Second) }

var steps []func()

func init() {
	steps = []func(){step, func() { time.Sleep(time.Second) }}
}

func step() { time.Sleep(time.Second) }

func TestCompares(t *testing.T) {
	began := time.Now()
	if time.Since(began) > time.Second { // want `compares how long`
		t.Error("late")
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > time.Second { // want `compares how long`
		t.Error("early or late")
	}
	if time.Now().Sub(began).Seconds() >= 1 { // want `compares how long`
		t.Error("late")
	}
	ended := time.Now()
	if ended.Sub(began) == time.Second { // want `compares how long`
		t.Error("not the same")
	}
	var all []time.Duration
	for range 3 {
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	if all[1] > 20*time.Millisecond { // want `compares how long`
		t.Error("late")
	}
	for _, took := range all {
		if int(took.Milliseconds())+1 > 20 { // want `compares how long`
			t.Error("late")
		}
	}
	var sum struct{ took time.Duration }
	sum.took += time.Since(began)
	if sum.took != 0 && len(all) > 1 {
		t.Logf("it took %v", sum.took)
	}
	if sum.took <= time.Second { // want `compares how long`
		t.Error("early")
	}
	if time.Since(began) > sandboxtest.Hang {
		t.Error("not of this run")
	}
	if behind := time.Since(began) - time.Second; behind > 0 { // want `compares how long`
		t.Error("late")
	}
	if left, least := lifetime(), time.Hour-time.Since(began); left < least {
		t.Error("too short")
	}
	starts := began.Add(time.Hour)
	if got := starts.Sub(began); got > time.Hour {
		t.Error("wrong")
	}
	synctest.Test(t, func(t *testing.T) {
		if time.Since(began) != time.Second {
			t.Error("wrong")
		}
	})
}

func lifetime() time.Duration { return time.Hour }

func TestLimits(t *testing.T) {
	select {
	case <-time.After(time.Second): // want `a limit of the test's own`
	case <-time.NewTimer(time.Second).C: // want `a limit of the test's own`
	case <-time.After(sandboxtest.Hang):
	case <-time.Tick(time.Second): // want `a limit of the test's own`
	case <-time.NewTicker(time.Millisecond).C:
	}
	time.AfterFunc(time.Second, func() {})                       // want `a limit of the test's own`
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // want `a limit of the test's own`
	cancel()
	ctx, cancel = context.WithTimeout(ctx, sandboxtest.Hang)
	cancel()
	ctx, cancel = context.WithTimeout(ctx, -1) // a state: it is over
	cancel()
	ctx, cancel = context.WithDeadline(ctx, time.Now().Add(time.Second)) // want `a limit of the test's own`
	cancel()
	ctx, cancel = context.WithDeadline(ctx, time.Now().Add(sandboxtest.Hang))
	cancel()
	client := &http.Client{Timeout: 15 * time.Second} // want `a limit of the test's own`
	client.Timeout = time.Second                      // want `a limit of the test's own`
	client.Timeout = sandboxtest.Hang
	server := &http.Server{ReadTimeout: time.Second} // a setting
	server.Close()
	conn, _ := net.DialTimeout("tcp", "127.0.0.1:1", time.Second) // want `a limit of the test's own`
	conn, _ = (&net.Dialer{Timeout: time.Second}).Dial("tcp", "") // want `a limit of the test's own`
	conn.SetDeadline(time.Now().Add(time.Second))                 // want `a limit of the test's own`
	until := time.Now().Add(time.Second)
	conn.SetReadDeadline(until) // want `a limit of the test's own`
	conn.SetWriteDeadline(time.Now().Add(sandboxtest.Hang))
	conn.SetDeadline(time.Now())
	conn.SetDeadline(time.Time{})
	sandboxtest.PollFor(time.Second, nil) // want `PollFor is for the fault suite`
	sandboxtest.PollFor(sandboxtest.Hang, nil)
	sandboxtest.Poll(nil)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
	})
}

func TestLoops(t *testing.T) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); { // want `until a deadline`
	}
	deadline := time.Now().Add(time.Second)
	if time.Now().After(deadline) { // want `until a deadline`
		t.Error("late")
	}
	for {
		if deadline.Before(time.Now()) { // want `until a deadline`
			break
		}
	}
	for end := time.Now().Add(sandboxtest.Hang); time.Now().Before(end); {
	}
	for _, at := range []time.Time{{}} {
		if at.After(time.Now()) {
			t.Error("not yet")
		}
	}
	wait(t, time.Now().Add(sandboxtest.Hang))
}

func wait(t *testing.T, deadline time.Time) {
	for n := 0; ; n++ {
		if time.Now().After(deadline) { // want `until a deadline`
			return
		}
	}
}

func TestWallClock(t *testing.T) {
	if time.Now().Hour() == 3 { // want `wall clock`
		t.Error("night")
	}
	tomorrow := time.Now().UTC().AddDate(0, 0, 1)
	t.Log(tomorrow.Day())             // want `wall clock`
	t.Log(tomorrow.Format("15:04"))   // want `wall clock`
	t.Log(tomorrow.Format("3:04 PM")) // want `wall clock`
	t.Log(tomorrow.Format(time.RFC3339), tomorrow.Format("05.000"))
	fixed := time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC)
	t.Log(fixed.Hour(), fixed.Format("15:04"))
	t.Log(fixed.In(time.Local)) // want `wall clock`
	time.Local = time.UTC
}
