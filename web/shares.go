package web

import (
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"miaosha/seckill"
)

// origin is where the holder of a place comes from.
type origin struct{ addr, site netip.Addr } // see clientNetwork and clientSite

func (s *Server) originOf(r *http.Request) origin { return origin{s.clientNetwork(r), s.clientSite(r)} }

// givesWay returns the place, of those that are taken, that a newcomer gets when none is free: one of the network (/24, /48) that
// has most, if that has at least two more than the newcomer's, and else of the address that has most, by the same rule. Of a network
// the address that has most makes room, with its newest place. It returns -1 for a newcomer that has its share.
//
// While a place is free no one is refused, so a class behind one address may have all of them until others come.
func givesWay(taken []origin, from origin) int {
	ofSite, ofAddr := map[netip.Addr]int{}, map[origin]int{}
	site, addr := from.site, from
	for _, o := range taken {
		ofSite[o.site]++
		ofAddr[o]++
		if ofSite[o.site] > ofSite[site] {
			site = o.site
		}
		if ofAddr[o] > ofAddr[addr] {
			addr = o
		}
	}
	switch {
	case ofSite[site] >= ofSite[from.site]+2:
		addr = origin{site: site}
		for o, n := range ofAddr {
			if o.site == site && (n > ofAddr[addr] || n == ofAddr[addr] && o.addr.Less(addr.addr)) {
				addr = o
			}
		}
	case ofAddr[addr] < ofAddr[from]+2:
		return -1
	}
	for i, o := range slices.Backward(taken) {
		if o == addr {
			return i
		}
	}
	return -1
}

// streamPlaces are those of the event streams of one kind.
type streamPlaces struct {
	room    int
	perUser int // 0: streams of no user

	mu     sync.Mutex
	taken  []*streamPlace // the oldest first
	ofUser map[int64]int
}

// streamPlace is that of an open stream.
type streamPlace struct {
	from origin
	user int64
	lost chan struct{} // closed when another stream has got it
}

func newStreamPlaces(room, perUser int) *streamPlaces {
	return &streamPlaces{room: room, perUser: perUser, ofUser: map[int64]int{}}
}

// take returns a place for one more stream. If none is free, the stream of another one may have to end for it: see givesWay. It
// returns seckill.ErrBusy if there is none for the newcomer, and a seckill.TooManyError if the user has enough.
func (p *streamPlaces) take(from origin, user int64) (*streamPlace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perUser > 0 && p.ofUser[user] >= p.perUser {
		return nil, seckill.TooManyError{RetryAfter: time.Second}
	}
	if len(p.taken) >= p.room {
		origins := make([]origin, len(p.taken))
		for i, other := range p.taken {
			origins[i] = other.from
		}
		i := givesWay(origins, from)
		if i < 0 {
			return nil, seckill.ErrBusy
		}
		close(p.taken[i].lost)
		p.remove(i)
	}
	taken := &streamPlace{from, user, make(chan struct{})}
	p.taken = append(p.taken, taken)
	p.ofUser[user]++
	return taken, nil
}

// leave frees a place. One that was lost is another stream's.
func (p *streamPlaces) leave(left *streamPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.taken, left); i >= 0 {
		p.remove(i)
	}
}

// remove takes the place with this index away. The caller has locked p.
func (p *streamPlaces) remove(i int) {
	user := p.taken[i].user
	p.taken = slices.Delete(p.taken, i, i+1)
	if p.ofUser[user]--; p.ofUser[user] == 0 {
		delete(p.ofUser, user)
	}
}
