package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/seckill"
)

// tryLimits lets one bot, with 1,000 requests, come among 200 people with one each, for 50 units; and then 1,000 buyers for
// 20.
//
// Without a limit whoever asks oftenest gets most. A token bucket for each user lets everybody do what a person would: five
// requests a second, and ten in one go (web/limit.go). It is in the process, so what it refuses costs Redis nothing.
//
// A bucket doesn't know how much there is to sell. The big gate does: no more addresses are alive at one time than five for
// each unit left, or 64 (seckill/scripts/path.lua). The others are told to wait, and their clicks never reach the sale.
//
// asked: requests; redis: those that reached Redis, or would; bot and people: who got units. alive: addresses at one time; bound:
// what the big gate allows; waiting: buyers who were told to wait.
func tryLimits(ctx context.Context, s Stores, seed uint64) (rows []Found, err error) {
	d, err := openDoor(ctx, s, "off", gateUnits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	t, err := openTill(s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for _, limited := range []bool{false, true} {
		row, err := crowdWithBot(ctx, t, d.key("stock"), seed, limited)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	for _, gated := range []bool{false, true} {
		row, err := crowdAtGate(ctx, d, gated)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

const (
	limitUnits  = 50
	limitBot    = 1000 // requests
	limitPeople = 200
	limitAtOnce = 32
	limitRate   = 5 // requests a second, the shop's default
	limitBurst  = 10

	gateUnits  = 20
	gateBuyers = 1000
	gateLeast  = 64 // addresses that may be alive however few units are left
)

// crowdWithBot mixes the bot's requests with the people's. User 0 is the bot.
func crowdWithBot(ctx context.Context, t till, stock string, seed uint64, limited bool) (Found, error) {
	if err := t.Set(ctx, stock, limitUnits, keyLife).Err(); err != nil {
		return Found{}, err
	}
	requests := make([]int, limitBot, limitBot+limitPeople)
	for user := range limitPeople {
		requests = append(requests, user+1)
	}
	rand.New(rand.NewPCG(seed, 20)).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	buckets := make([]*rate.Limiter, limitPeople+1)
	for i := range buckets {
		buckets[i] = rate.NewLimiter(limitRate, limitBurst)
	}
	before := t.asked.Load()
	began := time.Now()
	var bot, people, botReached atomic.Int64
	var all errgroup.Group
	all.SetLimit(limitAtOnce)
	for _, user := range requests {
		all.Go(func() error {
			if limited && !buckets[user].Allow() {
				return nil
			}
			if user == 0 {
				botReached.Add(1)
			}
			got, err := t.sell(ctx, stock)
			switch {
			case got && user == 0:
				bot.Add(1)
			case got:
				people.Add(1)
			}
			return err
		})
	}
	err := all.Wait()
	allowed := limitBurst + limitRate*time.Since(began).Seconds()
	row := Found{Way: "no limit", Right: float64(botReached.Load()) <= allowed && people.Load() > bot.Load(), Figures: map[string]float64{
		"asked": float64(len(requests)), "redis": float64(t.asked.Load() - before), "bot": float64(bot.Load()), "people": float64(people.Load())}}
	if limited {
		row.Way = "a bucket per user"
	}
	return row, err
}

// crowdAtGate gives addresses to as many of a crowd as the gate lets have one, or to all.
func crowdAtGate(ctx context.Context, d door, gated bool) (Found, error) {
	var alive, waiting atomic.Int64
	var all errgroup.Group
	all.SetLimit(limitAtOnce)
	for user := int64(1); user <= gateBuyers; user++ {
		all.Go(func() error {
			if !gated {
				path := seckill.SignPath(d.secret, user, d.number, token(user), d.Now().Add(time.Minute))
				if _, err := d.CheckPath(d.number, token(user), path); err != nil {
					return err
				}
				alive.Add(1)
				return nil
			}
			_, err := d.address(ctx, user, token(user), "")
			switch wait := (seckill.TooManyError{}); {
			case errors.As(err, &wait), errors.Is(err, goods.ErrSoldOut):
				waiting.Add(1)
				return nil
			case err != nil:
				return fmt.Errorf("an address for user %d: %w", user, err)
			}
			alive.Add(1)
			return nil
		})
	}
	err := all.Wait()
	bound := max(gateLeast, gateFactor*gateUnits)
	row := Found{Way: "an address for everybody", Right: alive.Load() <= int64(bound), Figures: map[string]float64{"asked": gateBuyers,
		"alive": float64(alive.Load()), "bound": float64(bound), "waiting": float64(waiting.Load())}}
	if gated {
		row.Way = "the big gate"
	}
	return row, err
}
