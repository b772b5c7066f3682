package seckill

import (
	"sync"

	"miaosha/order"
)

// subscribers are the event streams of browsers that wait for results in this process. News of a result is a hint to read it: the
// ticket may be an older one that is settled again, and its user may have an order since.
type subscribers struct {
	trace Trace

	mu      sync.Mutex
	byBuyer map[order.Buyer]map[chan struct{}]struct{}
}

// add subscribes to news of one user in one sale, until stop is called.
func (s *subscribers) add(k order.Buyer) (news <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBuyer == nil {
		s.byBuyer = map[order.Buyer]map[chan struct{}]struct{}{}
	}
	if s.byBuyer[k] == nil {
		s.byBuyer[k] = map[chan struct{}]struct{}{}
	}
	s.byBuyer[k][ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.byBuyer[k], ch); len(s.byBuyer[k]) == 0 {
			delete(s.byBuyer, k)
		}
	}
}

// publish tells the subscribers of results that there is news. It skips a subscriber who has been told and has not looked yet.
func (s *subscribers) publish(sale int64, results []order.Result) {
	told := 0
	defer func() { s.trace.Tell(sale, results, told) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byBuyer) == 0 {
		return
	}
	for _, r := range results {
		for ch := range s.byBuyer[order.Buyer{SaleID: sale, UserID: r.UserID}] {
			select {
			case ch <- struct{}{}:
				told++
			default:
			}
		}
	}
}
