package user

import "sync"

// turn is the order in which callers of the hasher receive a slot.
type turn int

const (
	inTurn turn = iota // the caller that waits longest
	ahead              // every second slot goes to these callers, if one waits
)

// The places beside those for everybody.
const (
	devicePlaces = 8 // for browsers from which the owner of an account has logged in; two for an account
	solvedPlaces = 4 // for solved sums; two for a network
)

// door admits as many log-ins as fit into the slots and the queue of the hasher, from one network at
// most half of them. Others are refused before they cost a query. Known devices and solved sums have
// a few places of their own, so that a crowd of strangers does not keep them out.
type door struct {
	mu                        sync.Mutex
	everybody, solved, device places
}

func newDoor(room int) *door {
	return &door{everybody: newPlaces(room, room/2), solved: newPlaces(solvedPlaces, 2),
		device: newPlaces(devicePlaces, 2)}
}

// admit returns the turn of a log-in to an account (its phone) from a network, and the function that
// ends the log-in. ErrSolveFirst; ErrBusy if the places for solved sums are taken too.
func (d *door) admit(phone, network string, device, solved bool) (turn, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case device && d.device.take(phone):
		return ahead, d.leave(&d.device, phone), nil
	case solved && d.solved.take(network):
		return ahead, d.leave(&d.solved, network), nil
	case d.everybody.take(network):
		return inTurn, d.leave(&d.everybody, network), nil
	}
	if solved {
		return inTurn, nil, ErrBusy
	}
	return inTurn, nil, ErrSolveFirst
}

func (d *door) leave(p *places, of string) func() {
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		p.free(of)
	}
}

// places are a number of places of which one network or account gets a share at most.
type places struct {
	room, share int
	taken       int
	by          map[string]int // the same by network or account
}

func newPlaces(room, share int) places { return places{room, share, 0, map[string]int{}} }

func (p *places) take(of string) bool {
	if p.taken >= p.room || p.by[of] >= p.share {
		return false
	}
	p.taken++
	p.by[of]++
	return true
}

func (p *places) free(of string) {
	p.taken--
	if p.by[of]--; p.by[of] == 0 {
		delete(p.by, of)
	}
}
