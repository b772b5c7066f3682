package seckill

import (
	"sync"

	"miaosha/order"
)

// subscribers are the event streams of browsers that wait for results in this process.
type subscribers struct {
	trace *trace

	mu      sync.Mutex
	byBuyer map[saleUser]map[chan Status]struct{}
}

// add subscribes to the results of one user in one sale, until stop is called.
func (s *subscribers) add(k saleUser) (results <-chan Status, stop func()) {
	ch := make(chan Status, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBuyer == nil {
		s.byBuyer = map[saleUser]map[chan Status]struct{}{}
	}
	if s.byBuyer[k] == nil {
		s.byBuyer[k] = map[chan Status]struct{}{}
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

// publish sends results to their subscribers. It skips a subscriber whose channel is full.
func (s *subscribers) publish(sale int64, results []order.Result) {
	told := 0
	defer func() { s.trace.tell(sale, results, told) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byBuyer) == 0 {
		return
	}
	for _, r := range results {
		for ch := range s.byBuyer[saleUser{sale, r.UserID}] {
			select {
			case ch <- statusOf(r):
				told++
			default:
			}
		}
	}
}
