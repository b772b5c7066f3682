package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/goods"
)

var errDown = errors.New("connection refused")

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		errs []error
		open bool
	}{
		"after three failures in a row":    {[]error{errDown, errDown, errDown}, true},
		"after a single timeout":           {[]error{context.DeadlineExceeded}, true},
		"not after two failures":           {[]error{errDown, errDown}, false},
		"not after refusals":               {[]error{goods.ErrSoldOut, ErrNoGate, ErrBusy, TooManyError{}, goods.ErrEnded}, false},
		"not after keys of the wrong type": {[]error{errors.New("WRONGTYPE"), errors.New("WRONGTYPE"), errors.New("WRONGTYPE")}, false},
		"not after callers that went away": {[]error{context.Canceled, context.Canceled, context.Canceled}, false},
		"after five of nine calls":         {[]error{errDown, nil, errDown, nil, errDown, nil, errDown, nil, errDown}, true},
	} {
		g := New(nil, "here", time.Minute)
		for _, err := range c.errs {
			if got := g.call(t.Context(), time.Second, func(context.Context) error { return err }); !errors.Is(got, err) {
				t.Errorf("%s: the call returns %v, want %v", name, got, err)
			}
		}
		if g.Available() == c.open {
			t.Errorf("%s: available %v", name, g.Available())
		}
		if opened := g.BreakerOpened() == 1; opened != c.open {
			t.Errorf("%s: opened %d times", name, g.BreakerOpened())
		}
	}
}

// What Redis refuses for one of many sales is no failure of Redis, except that its silence is.
func TestFaultOfManyReplies(t *testing.T) {
	t.Parallel()
	wrongType := errors.New("WRONGTYPE")
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"all read":                    {[]error{nil, nil}, nil},
		"one refused":                 {[]error{nil, errDown, nil}, nil},
		"one read":                    {[]error{errDown, nil, errDown}, nil},
		"all refused":                 {[]error{errDown, errDown}, errDown},
		"a timeout":                   {[]error{nil, context.DeadlineExceeded, nil}, context.DeadlineExceeded},
		"a refusal, and a timeout":    {[]error{errDown, context.DeadlineExceeded, errDown}, context.DeadlineExceeded},
		"a key of the wrong type":     {[]error{wrongType, wrongType}, nil},
		"a key of the wrong type too": {[]error{wrongType, errDown}, nil},
	} {
		var replies manyReplies
		for _, err := range c.errs {
			replies.add(err)
		}
		if got := replies.fault(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// replyError is a reply of Redis that refuses a command.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// Commands that Redis refuses to background work do not take the gate from the buyers, and do not close an open breaker.
func TestRepliesToBackgroundWorkLeaveTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(nil, "here", 30*time.Millisecond)
		refused := func(context.Context) error { return replyError("OOM command not allowed") }
		for range 20 {
			g.Background().call(t.Context(), time.Second, refused)
		}
		if !g.Available() {
			t.Error("refused commands of background work opened the breaker")
		}
		for range 3 {
			g.call(t.Context(), time.Second, refused)
		}
		if g.Available() {
			t.Error("three refused commands of buyers did not open the breaker")
		}
		time.Sleep(20 * time.Millisecond)
		g.Background().call(t.Context(), time.Second, func(context.Context) error { return replyError("LOADING") })
		if g.Available() {
			t.Error("a Redis that is loading closed the breaker")
		}
	})
}

// While the breaker is open, no call reaches Redis. When it is half-open, background work probes, one call at a time, and
// buyers' requests do not.
func TestOnlyBackgroundWorkProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(nil, "here", 30*time.Millisecond) // half-open after 10 ms
		background := g.Background()
		calls := 0
		count := func(context.Context) error { calls++; return nil }
		g.call(t.Context(), time.Second, func(context.Context) error { return context.DeadlineExceeded })
		for _, view := range []*Gate{g, background} {
			if err := view.call(t.Context(), time.Second, count); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrBusy) {
				t.Errorf("open: %v, want ErrUnavailable, which wraps ErrBusy", err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		if err := g.call(t.Context(), time.Second, count); !errors.Is(err, ErrUnavailable) || calls > 0 {
			t.Errorf("a buyer's request probes: %v, %d calls", err, calls)
		}
		err := background.call(t.Context(), time.Second, func(ctx context.Context) error {
			return background.call(ctx, time.Second, count) // during the probe
		})
		if !errors.Is(err, ErrUnavailable) || calls > 0 {
			t.Errorf("two probes at once: %v, %d calls", err, calls)
		}
		if !g.Available() {
			t.Error("a probe that reached Redis did not close the breaker")
		}
		if err := g.call(t.Context(), time.Second, count); err != nil || calls != 1 {
			t.Errorf("closed again: %v, %d calls, want one", err, calls)
		}
	})
}

// A caller that is cancelled does not end a call under way, and begins none.
func TestCallHasItsOwnTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(nil, "here", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		err := g.call(ctx, 20*time.Millisecond, func(call context.Context) error {
			cancel()
			if call.Err() != nil {
				t.Error("the call was cancelled with its caller")
			}
			<-call.Done()
			return call.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the time limit of the call", err)
		}
		g = New(nil, "here", time.Minute)
		if err := g.call(ctx, time.Second, func(context.Context) error { t.Error("called"); return nil }); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want busy", err)
		}
	})
}
