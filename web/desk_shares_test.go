package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"miaosha/seckill"
	"miaosha/seckill/live"
	"miaosha/seckill/sandbox/sandboxtest"
)

func originAt(addr string) origin {
	a := netip.MustParseAddr(addr)
	return origin{networkOf(a, 32, 64), networkOf(a, 24, 48)}
}

// Whoever takes every place loses them to others until it has no more than they have, by the address and by the network; while there
// is room no one is refused.
func TestTheLargestNetworkGivesWayToOtherStreams(t *testing.T) {
	t.Parallel()
	for name, attacker := range map[string]func(i int) string{
		"one address":  func(int) string { return "10.0.0.1" },
		"one /24":      func(i int) string { return fmt.Sprintf("10.0.0.%d", i%250) },
		"one /64":      func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) },
		"one /48":      func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i+1) },
		"one of a /24": func(i int) string { return fmt.Sprintf("10.0.0.%d", min(i, 1)) }, // a class has one place beside it
	} {
		p := newStreamPlaces(500, 0)
		var all []*streamPlace
		for i := range 500 {
			taken, err := p.take(originAt(attacker(i)), 0)
			if err != nil {
				t.Fatalf("%s: with room, the stream %d: %v", name, i, err)
			}
			all = append(all, taken)
		}
		if _, err := p.take(originAt(attacker(0)), 0); err != seckill.ErrBusy && name != "one of a /24" {
			t.Errorf("%s: one more than all: %v", name, err)
		}
		for i := range 40 { // a class behind one address
			if _, err := p.take(originAt("192.0.2.7"), 0); err != nil {
				t.Fatalf("%s: the class's stream %d: %v", name, i, err)
			}
		}
		for i := range 200 {
			if _, err := p.take(originAt(fmt.Sprintf("198.51.%d.1", i)), 0); err != nil {
				t.Fatalf("%s: another network's stream %d: %v", name, i, err)
			}
		}
		lost := 0
		for _, taken := range all {
			select {
			case <-taken.lost:
				lost++
				p.leave(taken) // the handler of a lost place leaves, too
			default:
			}
		}
		if lost < 240 || len(p.taken) != 500 {
			t.Errorf("%s: it lost %d streams, and %d are open", name, lost, len(p.taken))
		}
	}
}

// A network whose places are as many as those of a newcomer's network keeps them.
func TestAShareIsKept(t *testing.T) {
	t.Parallel()
	p := newStreamPlaces(10, 0)
	for i := range 10 {
		if _, err := p.take(originAt([]string{"10.0.0.1", "10.0.1.1"}[i%2]), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.take(originAt("10.0.0.1"), 0); err != seckill.ErrBusy {
		t.Errorf("one more for an address with half: %v", err)
	}
	for i := range 4 {
		if _, err := p.take(originAt("10.0.2.1"), 0); (err == nil) != (i < 3) {
			t.Errorf("the stream %d of a third network: %v", i, err)
		}
	}
	counts := map[string]int{}
	for _, taken := range p.taken {
		counts[taken.from.addr.String()]++
	}
	if counts["10.0.0.1"]+counts["10.0.1.1"] != 7 || counts["10.0.2.1"] != 3 {
		t.Errorf("the places are %v", counts)
	}
}

// A user has five streams, from wherever.
func TestStreamsOfAUser(t *testing.T) {
	t.Parallel()
	p := newStreamPlaces(20, 5)
	var last *streamPlace
	for i := range 6 {
		taken, err := p.take(originAt(fmt.Sprintf("10.0.%d.1", i)), 7)
		if errors.As(err, new(seckill.TooManyError)) != (i == 5) {
			t.Errorf("the stream %d: %v", i, err)
		}
		if err == nil {
			last = taken
		}
	}
	p.leave(last)
	if _, err := p.take(originAt("10.0.0.1"), 7); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// A stream ends when another one gets its place, and the network that took all gets no further one.
func TestAStreamThatLosesItsPlaceEnds(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off", LiveView: "public"}, Deps{Live: &live.Monitor{}}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.handlers.liveView.guests.room = 2
	open := func(addr string) (ended chan int) {
		before := len(s.handlers.liveView.guests.taken)
		ended = make(chan int, 1)
		go func() {
			r, w := httptest.NewRequest("GET", "/api/live", nil), httptest.NewRecorder()
			r.RemoteAddr = addr + ":1"
			s.ServeHTTP(w, r)
			ended <- w.Code
		}()
		sandboxtest.Until(t, "the stream has a place, or none is left", func() bool {
			s.handlers.liveView.guests.mu.Lock()
			defer s.handlers.liveView.guests.mu.Unlock()
			return len(s.handlers.liveView.guests.taken) > before || len(ended) > 0 || before == 2 && s.handlers.liveView.guests.taken[1].from == originAt(addr)
		})
		return ended
	}
	first, second := open("10.0.0.1"), open("10.0.0.1")
	if code := <-open("10.0.0.1"); code != 503 {
		t.Errorf("a third stream of the address: %d", code)
	}
	third := open("10.0.1.1")
	if code := <-second; code != 503 {
		t.Errorf("the stream that gave way: %d", code)
	}
	s.Close()
	<-first
	<-third
}

// The counts agree with the places that are taken, in whatever order they are taken and left, and a place is lost by the
// network or the address that has most.
func TestSharesAgreeWithThePlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newStreamPlaces(12, 0)
		var all []*streamPlace
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				from := originAt(fmt.Sprintf("10.0.%d.%d", rapid.IntRange(0, 3).Draw(t, "network"), rapid.IntRange(0, 2).Draw(t, "address")))
				sites, addrs := countsOf(p.taken)
				full, before := len(p.taken) == p.room, slices.Clone(p.taken)
				taken, err := p.take(from, 0)
				bySite, byAddr := most(sites) >= sites[from.site]+2, most(addrs) >= addrs[from]+2
				if (err == nil) != (!full || bySite || byAddr) {
					t.Fatalf("a place for one more of %v: %v, of %v", from, err, addrs)
				}
				if err != nil {
					return
				}
				all = append(all, taken)
				for _, was := range before {
					if slices.Contains(p.taken, was) {
						continue
					}
					if !full || bySite && sites[was.from.site] < most(sites) || !bySite && addrs[was.from] < most(addrs) {
						t.Fatalf("%v gives way to %v, of %v", was.from, from, addrs)
					}
				}
			},
			"leave": func(t *rapid.T) {
				if len(all) > 0 {
					p.leave(rapid.SampledFrom(all).Draw(t, "stream")) // may have left
				}
			},
			"": func(t *rapid.T) {
				sites, addrs := countsOf(p.taken)
				if !maps.Equal(sites, p.shares.sites.of) || !maps.Equal(addrs, p.shares.addrs.of) {
					t.Fatalf("counted are %v and %v, taken %v and %v", p.shares.sites.of, p.shares.addrs.of, sites, addrs)
				}
				if p.shares.sites.most != most(sites) || p.shares.addrs.most != most(addrs) {
					t.Fatalf("the most are %d and %d, of %v", p.shares.sites.most, p.shares.addrs.most, addrs)
				}
			},
		})
	})
}

func countsOf(taken []*streamPlace) (sites map[netip.Addr]int, addrs map[origin]int) {
	sites, addrs = map[netip.Addr]int{}, map[origin]int{}
	for _, at := range taken {
		sites[at.from.site]++
		addrs[at.from]++
	}
	return sites, addrs
}

func most[K comparable](counts map[K]int) (n int) {
	for _, count := range counts {
		n = max(n, count)
	}
	return n
}
