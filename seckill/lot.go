package seckill

import (
	"context"
	"encoding/binary"
	"math/bits"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

const (
	lotOpen   = time.Second // requests within this time after a sale's opening take part
	lotSpread = time.Second // their turns are spread over this time after it
)

// lot decides in which order the requests for an address of a sale's first second go to the big gate. Without it the fastest
// program is first; with it all users who asked in that second have the same chance. Without sums there is no lot.
type lot struct {
	clock *gate.Clock
	macs  *addresses // with the key of purpose.Lot
}

// wait returns when it is the user's turn. After the last turn it returns at once. It returns ErrBusy if ctx ends first.
// What bounds the requests that wait is the limit of sums: each has used one up.
func (l *lot) wait(ctx context.Context, sale goods.Sale, user int64) error {
	now := l.clock.Now()
	left := l.turn(sale, user, now).Sub(now)
	if left <= 0 {
		return nil
	}
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return ErrBusy
	}
}

// turn returns the time at which a request that came at now is let through. All requests of a user within lotOpen have the
// same turn, in every session and process, so a second try does not help. A later one does not overtake them: requests of the
// next two seconds keep their order and pass in one, not all at once, which the gate's connections could not take.
func (l *lot) turn(sale goods.Sale, user int64, now time.Time) time.Time {
	if now.Before(sale.StartsAt.Add(lotOpen)) {
		drawn := l.macs.mac(binary.BigEndian.AppendUint64([]byte("lot of "), uint64(user)), sale.ID, "")
		part, _ := bits.Mul64(binary.BigEndian.Uint64(drawn[:]), uint64(lotSpread))
		return sale.StartsAt.Add(lotOpen + time.Duration(part))
	}
	if end := sale.StartsAt.Add(lotOpen + 2*lotSpread); now.Before(end) {
		return end.Add(-end.Sub(now) / 2)
	}
	return now
}
