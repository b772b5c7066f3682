package seckill

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

func TestTurns(t *testing.T) {
	l := &lot{paths: newPaths(secret)}
	opening := time.UnixMilli(1_800_000_000_000)
	sale, other := goods.Sale{ID: 7, StartsAt: opening}, goods.Sale{ID: 8, StartsAt: opening}
	var tenths [10]int
	equal := 0
	for user := range int64(4000) {
		turn := l.turn(sale, user, opening)
		after := turn.Sub(opening.Add(lotOpen))
		if after < 0 || after >= lotSpread {
			t.Fatalf("the turn of user %d is %v after the opening", user, turn.Sub(opening))
		}
		tenths[after*10/lotSpread]++
		if again := (&lot{paths: newPaths(secret)}).turn(sale, user, opening.Add(lotOpen-1)); again != turn {
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
	before := opening.Add(lotOpen + lotSpread - 1)
	for late := lotOpen; late < lotOpen+2*lotSpread; late += each {
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
	for _, now := range []time.Time{opening.Add(lotOpen + 2*lotSpread), opening.Add(time.Hour)} {
		if l.turn(sale, 1, now) != now {
			t.Errorf("a request %v after the opening waits", now.Sub(opening))
		}
	}
}

// A request whose client is gone does not wait for its turn, and without sums there is no lot.
func TestTheLotEndsWithTheRequest(t *testing.T) {
	l := &lot{cfg: Config{Captcha: "math"}, clock: gate.NewClock(gate.New(redis.NewClient(&redis.Options{}), "", time.Second)), paths: newPaths(secret)}
	sale := goods.Sale{ID: 7, StartsAt: l.clock.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.wait(ctx, sale, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("with a request that is over: %v, want ErrBusy", err)
	}
	l.cfg.Captcha = "off"
	if err := l.wait(ctx, sale, 1); err != nil {
		t.Errorf("without sums: %v", err)
	}
}
