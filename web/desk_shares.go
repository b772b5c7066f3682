package web

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"miaosha/seckill"
)

// shares counts the places that are taken, by the network and by the address of their holders.
type shares struct {
	sites tally[netip.Addr]
	addrs tally[origin]
}

func newShares() shares { return shares{newTally[netip.Addr](), newTally[origin]()} }

// count adds a place, or takes one away: by is 1 or -1.
func (s *shares) count(from origin, by int) {
	s.sites.count(from.site, by)
	s.addrs.count(from, by)
}

// givesWay returns which of n places a newcomer gets when none is free: one of the network (/24, /48) that has most,
// if that has at least two more than the newcomer's, and else of the address that has most, by the same rule. Of a
// network the address that has most makes room, with its newest place. at returns the holder of each place, from the
// oldest on. givesWay returns -1 for a newcomer that has its share, and looks at no place then.
//
// While a place is free no one is refused, so a class behind one address may have all of them until others come.
func (s *shares) givesWay(n int, at func(int) origin, newcomer origin) int {
	ofSite := s.sites.most >= s.sites.of[newcomer.site]+2
	if !ofSite && s.addrs.most < s.addrs.of[newcomer]+2 {
		return -1
	}
	found, most := -1, 0
	for i := range n {
		from := at(i)
		if ofSite && s.sites.of[from.site] < s.sites.most {
			continue
		}
		if has := s.addrs.of[from]; has >= most {
			found, most = i, has
		}
	}
	return found
}

// streamPlaces are those of the event streams of one kind.
type streamPlaces struct {
	room    int
	perUser int // 0: streams of no user

	mu     sync.Mutex
	taken  []*streamPlace // the oldest first
	shares shares         // of those that are taken
	ofUser map[int64]int
}

// streamPlace is that of an open stream.
type streamPlace struct {
	from origin
	user int64
	lost chan struct{} // closed when another stream has got it
}

func newStreamPlaces(room, perUser int) *streamPlaces {
	return &streamPlaces{room: room, perUser: perUser, shares: newShares(), ofUser: map[int64]int{}}
}

// take returns a place for one more stream. If none is free, the stream of another one may have to end for it: see
// givesWay. It returns seckill.ErrBusy if there is none for the newcomer, and a seckill.TooManyError if the user has
// enough.
func (p *streamPlaces) take(from origin, user int64) (*streamPlace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perUser > 0 && p.ofUser[user] >= p.perUser {
		return nil, seckill.TooManyError{RetryAfter: time.Second}
	}
	if len(p.taken) >= p.room {
		i := p.shares.givesWay(len(p.taken), func(i int) origin { return p.taken[i].from }, from)
		if i < 0 {
			return nil, seckill.ErrBusy
		}
		close(p.taken[i].lost)
		p.remove(i)
	}
	taken := &streamPlace{from, user, make(chan struct{})}
	p.taken = append(p.taken, taken)
	p.shares.count(from, 1)
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
	p.shares.count(p.taken[i].from, -1)
	p.taken = slices.Delete(p.taken, i, i+1)
	if p.ofUser[user]--; p.ofUser[user] == 0 {
		delete(p.ofUser, user)
	}
}
