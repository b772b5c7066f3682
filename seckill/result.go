package seckill

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
)

// States of a buyer in a sale.
const (
	None    = "none" // no ticket: asking is safe
	Queued  = "queued"
	Ordered = order.Ordered
	SoldOut = order.SoldOut
	Shut    = order.Shut
	Invalid = order.Invalid
)

// Status is what became of a buyer's ticket so far.
type Status struct {
	State    string
	OrderID  uuid.UUID     // when Ordered
	Ahead    int           // when Queued: tickets that are settled before his, as far as known
	NextPoll time.Duration // when to ask again; 0 when final
}

// Final tells whether the state will not change any more.
func (s Status) Final() bool { return s.State != None && s.State != Queued }

// statusOf reads a value of the tickets hash. "" is none.
func statusOf(value string) Status {
	if value == "" {
		return Status{State: None}
	}
	switch rest := value[1:]; value[0] {
	case 'Q':
		return Status{State: Queued}
	case 'O':
		if id, err := uuid.Parse(rest); err == nil {
			return Status{State: Ordered, OrderID: id}
		}
	case 'X':
		switch rest {
		case SoldOut, Shut, Invalid:
			return Status{State: rest}
		}
	}
	return Status{State: Invalid}
}

// nextPoll is when to ask again: first after a buy, when on a fast machine the result is there, and then no oftener than the
// limit of five requests a second allows. It grows with the queue.
func nextPoll(ahead int, first bool) time.Duration {
	at := 200 * time.Millisecond
	if first {
		at = 50 * time.Millisecond
	}
	return min(at+time.Duration(ahead)*50*time.Microsecond, 2*time.Second)
}

// watchers are those who listen for the result of a ticket in this process.
type watchers struct {
	mu sync.Mutex
	at map[watch]map[chan Status]struct{}
}

type watch struct{ sale, user int64 }

// Watch gives a channel that gets the user's results in a sale that this process settles from now on. It holds one;
// nobody waits for a slow reader, who still has Result. Call stop at the end.
func (e *Engine) Watch(sale, user int64) (results <-chan Status, stop func()) {
	w, ch, k := &e.watchers, make(chan Status, 1), watch{sale, user}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[watch]map[chan Status]struct{}{}
	}
	if w.at[k] == nil {
		w.at[k] = map[chan Status]struct{}{}
	}
	w.at[k][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.at[k], ch); len(w.at[k]) == 0 {
			delete(w.at, k)
		}
	}
}

func (w *watchers) tell(sale int64, results []order.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.at) == 0 {
		return
	}
	for _, r := range results {
		for ch := range w.at[watch{sale, r.UserID}] {
			select {
			case ch <- statusOf(remembered(r)):
			default:
			}
		}
	}
}
