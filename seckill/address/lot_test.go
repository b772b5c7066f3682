package address

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/goods"
)

func TestTurns(t *testing.T) {
	l := NewLot(secret)
	opening := time.UnixMilli(1_800_000_000_000)
	sale, other := goods.Sale{ID: 7, StartsAt: opening}, goods.Sale{ID: 8, StartsAt: opening}
	var tenths [10]int
	equal := 0
	for user := range int64(4000) {
		turn := l.turn(sale, user, opening)
		after := turn.Sub(opening.Add(LotOpen))
		if after < 0 || after >= lotSpread {
			t.Fatalf("the turn of user %d is %v after the opening", user, turn.Sub(opening))
		}
		tenths[after*10/lotSpread]++
		if again := NewLot(secret).turn(sale, user, opening.Add(LotOpen-1)); again != turn {
			t.Errorf("user %d asks again at another process and has another turn: %v, not %v", user, again, turn)
		}
		if l.turn(other, user, opening) == turn {
			equal++
		}
	}
	for i, n := range tenths {
		if n < 300 || n > 500 {
			t.Errorf("%d of 4000 turns are in tenth %d of the time, want about 400", n, i)
		}
	}
	if equal > 10 {
		t.Errorf("%d of 4000 users have the same turn in two sales", equal)
	}
	// Later requests come after all of the lot, in their order, and spread: in no tenth of a second are there more than came in two.
	const each = 10 * time.Millisecond
	turns := map[time.Duration]int{} // by tenth of a second
	before := opening.Add(LotOpen + lotSpread - 1)
	for late := LotOpen; late < LotOpen+2*lotSpread; late += each {
		turn := l.turn(sale, 1, opening.Add(late))
		if !turn.After(before) || turn.Before(opening.Add(late)) {
			t.Errorf("a request after %v has its turn at %v, and one before it at %v", late, turn.Sub(opening), before.Sub(opening))
		}
		turns[turn.Sub(opening).Truncate(lotSpread/10)]++
		before = turn
	}
	for at, n := range turns {
		if n > 2*int(lotSpread/10/each) {
			t.Errorf("%d requests have their turn within a tenth of a second after %v, twice as many at most as come", n, at)
		}
	}
	for _, now := range []time.Time{opening.Add(LotOpen + 2*lotSpread), opening.Add(time.Hour)} {
		if l.turn(sale, 1, now) != now {
			t.Errorf("a request %v after the opening waits", now.Sub(opening))
		}
	}
}

// People who solved their sum before the opening, and send the answer in the first half of a second, get units beside as many
// programs, which send it at once. Without a lot they get none.
func TestPeopleGetUnitsBesideBots(t *testing.T) {
	const each, stock = 40, 20
	for _, c := range []struct {
		lot         bool
		least, most int // units of the people
	}{{true, 2, stock - 2}, {false, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLot(secret)
			sale := goods.Sale{ID: 7, StartsAt: time.Now()}
			let := make(chan int64, 2*each) // through to the big gate, in this order
			for n := range int64(each) {
				for user, reacts := range map[int64]time.Duration{n + 1: time.Millisecond, 1000 + n: time.Duration(5+n*12) * time.Millisecond} {
					go func() {
						time.Sleep(reacts)
						if c.lot {
							if err := l.Wait(t.Context(), sale, user, time.Now()); err != nil {
								t.Errorf("user %d: %v", user, err)
							}
						}
						let <- user
					}()
				}
			}
			people := 0
			for range stock {
				if <-let >= 1000 {
					people++
				}
			}
			for range 2*each - stock {
				<-let
			}
			if t.Logf("with a lot %t: of %d units the people get %d", c.lot, stock, people); people < c.least || people > c.most {
				t.Errorf("with a lot %t: of %d units the people get %d, want %d to %d", c.lot, stock, people, c.least, c.most)
			}
		})
	}
}

// A request whose client is gone does not wait for its turn.
func TestTheLotEndsWithTheRequest(t *testing.T) {
	l := NewLot(secret)
	sale := goods.Sale{ID: 7, StartsAt: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx, sale, 1, sale.StartsAt); !errors.Is(err, context.Canceled) {
		t.Errorf("with a request that is over: %v, want context.Canceled", err)
	}
}
