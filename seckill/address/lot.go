package address

import (
	"context"
	"encoding/binary"
	"math/bits"
	"time"

	"miaosha/goods"
	"miaosha/seckill/purpose"
)

const (
	LotOpen   = time.Second // requests within this time after a sale's opening take part
	lotSpread = time.Second // their turns are spread over this time after it
)

// Lot decides in which order the requests for an address of a sale's first second go to the big gate. Without it the
// fastest program is first; with it all users who asked in that second have the same chance. Without sums there is no
// lot.
type Lot struct{ macs *Signer }

// NewLot returns a Lot. It is the same in all processes with the same secret.
func NewLot(secret []byte) *Lot { return &Lot{withKey(purpose.Lot.Key(secret))} }

// Wait returns when it is the user's turn, for a request that came at now. After the last turn it returns at once. It
// returns ctx's error if ctx ends first. What bounds the requests that wait is the limit of sums: each has used one up.
func (l *Lot) Wait(ctx context.Context, sale goods.Sale, user int64, now time.Time) error {
	left := l.turn(sale, user, now).Sub(now)
	if left <= 0 {
		return nil
	}
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn returns the time at which a request that came at now is let through. All requests of a user within LotOpen have
// the same turn, in every session and process, so a second try does not help. A later one does not overtake them:
// requests of the next two seconds keep their order and pass in one, not all at once, which the gate's connections
// could not take.
func (l *Lot) turn(sale goods.Sale, user int64, now time.Time) time.Time {
	if now.Before(sale.StartsAt.Add(LotOpen)) {
		drawn := l.macs.mac(binary.BigEndian.AppendUint64([]byte("lot of "), uint64(user)), sale.ID, "")
		part, _ := bits.Mul64(binary.BigEndian.Uint64(drawn[:]), uint64(lotSpread))
		return sale.StartsAt.Add(LotOpen + time.Duration(part))
	}
	if end := sale.StartsAt.Add(LotOpen + 2*lotSpread); now.Before(end) {
		return end.Add(-end.Sub(now) / 2)
	}
	return now
}
