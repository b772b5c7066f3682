// Package news tells the event streams of one process that there is a result to read.
package news

import (
	"sync"

	"miaosha/order"
)

// Subscribers are the event streams of browsers that wait for results in this process. News of a result is a hint to
// read it: the ticket may be an older one that is settled again, and its user may have an order since.
type Subscribers struct {
	mu      sync.Mutex
	byBuyer map[order.Buyer]map[chan struct{}]struct{}
}

// Add subscribes to news of one user in one sale, until stop is called.
func (s *Subscribers) Add(k order.Buyer) (news <-chan struct{}, stop func()) {
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

// Publish tells the subscribers of results that there is news, and returns how many it told. It skips a subscriber who
// has been told and has not looked yet.
func (s *Subscribers) Publish(sale int64, results []order.Result) (told int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byBuyer) == 0 {
		return 0
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
	return told
}
