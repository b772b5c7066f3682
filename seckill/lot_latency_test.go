//go:build latency

package seckill_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/seckill/captcha"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// crowd is one kind of buyer at an opening. Every buyer has an account and the shop's clock.
type crowd struct {
	before   bool                 // they solve their first sum before the opening; otherwise they draw it then
	react    func() time.Duration // from the opening until the first request
	solve    func() time.Duration // for one sum
	distance func() time.Duration // of a request, and of a reply
}

func between(least, most time.Duration) func() time.Duration {
	return func() time.Duration { return least + rand.N(most-least) }
}

// Bots solve at once, and sit beside the shop. People read for 3 to 8 s.
var (
	bots     = crowd{before: true, react: between(0, 2*time.Millisecond), solve: between(0, time.Millisecond), distance: between(0, time.Millisecond)}
	lateBots = crowd{react: bots.react, solve: bots.solve, distance: bots.distance}
	// The sum page shows its first sum before the opening, and sends the answer in the first half of a second.
	earlyPeople = crowd{before: true, react: between(0, 500*time.Millisecond), solve: between(3*time.Second, 8*time.Second), distance: between(10*time.Millisecond, 40*time.Millisecond)}
	// These press the button at the opening, and then read.
	latePeople = crowd{react: between(200*time.Millisecond, 600*time.Millisecond), solve: earlyPeople.solve, distance: earlyPeople.distance}
)

// buy goes on until one of the crowd has a ticket, or the sale is sold out.
func (c crowd) buy(s *shop, e *process, sums *captcha.Sums, sale, user int64, opening time.Time) {
	ctx, token := s.Context(), strconv.FormatInt(user, 10)
	far := func(step func() error) error {
		time.Sleep(c.distance())
		defer func() { time.Sleep(c.distance()) }()
		return step()
	}
	draw := func() (answer string) {
		far(func() error { _, _, err := sums.Draw(ctx, sale, user, token); return err })
		answer, _, _ = strings.Cut(s.rdb.Get(ctx, gate.SumOfSale(sale, token).Key()).Val(), " ")
		return answer
	}
	var answer string
	if c.before {
		answer = draw()
	}
	time.Sleep(opening.Sub(e.Now()) + c.react())
	if !c.before {
		answer = draw()
		time.Sleep(c.solve())
	}
	for e.Now().Before(opening.Add(20 * time.Second)) {
		var early goods.NotStartedError
		err := far(func() error {
			_, _, err := e.Address(ctx, sale, user, token, sums.Answer(sale, user, token, answer))
			return err
		})
		if err == nil {
			err = far(func() error { _, err := e.Buy(ctx, sale, user); return err })
			if err == nil {
				return
			}
		}
		switch {
		case errors.Is(err, goods.ErrSoldOut):
			return
		case errors.As(err, &early):
			time.Sleep(opening.Sub(e.Now()))
		default:
			time.Sleep(10 * time.Millisecond)
			answer = draw()
			time.Sleep(c.solve())
		}
	}
}

// rush opens a sale of 20 units for 40 buyers of each crowd, and returns how many units each crowd gets.
func rush(t *testing.T, crowds ...crowd) (units []int) {
	t.Helper()
	s := newShop(t, 1)
	e := s.start(nil)
	sums := s.sums(e.Engine)
	opening := e.Now().Add(3 * time.Second)
	sale, err := s.sales.Sell(t.Context(), goods.Item{Title: "milk"}, goods.Terms{Price: 1, Total: 20, StartsAt: opening, EndsAt: opening.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, c := range crowds {
		for n := range 40 {
			all.Go(func() { c.buy(s, e, sums, sale, int64(1000*i+n+1), opening) })
		}
	}
	all.Wait()
	units = make([]int, len(crowds))
	sandboxtest.Until(t, "all units are sold", func() bool {
		rows, _ := s.db.Query(t.Context(), `select user_id from orders where sale_id = $1`, sale)
		buyers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			t.Fatal(err)
		}
		clear(units)
		for _, user := range buyers {
			units[user/1000]++
		}
		return len(buyers) == 20
	})
	return units
}

// Who gets the units at an opening: MIAOSHA_RUSHES=10 go test -v -tags latency -run WhoGetsTheUnits ./seckill
func TestWhoGetsTheUnits(t *testing.T) {
	rushes, err := strconv.Atoi(os.Getenv("MIAOSHA_RUSHES"))
	if err != nil {
		t.Skip("MIAOSHA_RUSHES is not a number")
	}
	for _, c := range []struct {
		what   string
		crowds []crowd
	}{
		{"bots, people who read after the opening", []crowd{bots, latePeople}},
		{"bots, people who read before it", []crowd{bots, earlyPeople}},
		{"bots and people who all draw their sums at the opening", []crowd{lateBots, latePeople}},
	} {
		var total [2]int
		for range rushes {
			for i, n := range rush(t, c.crowds...) {
				total[i] += n
			}
		}
		t.Logf("%s: %.1f and %.1f of 20", c.what, float64(total[0])/float64(rushes), float64(total[1])/float64(rushes))
	}
}
