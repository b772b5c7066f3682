package experiments

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runFair sells 100 units to 400 people and 50 bots: 200 people with a fast line, 200 with a slow one. A person sees
// that the sale is open and presses, a bot waits for nothing.
//
// First come, first served sounds fair, and sells to those with the shortest way: all bots, then people near the
// server. That is a race of lines and programs.
//
// A lot (抽签): all who ask within the first 0.4 s take part, and a draw decides. It costs Redis one member of a set for
// each buyer, and a bot that is early has gained nothing. The draw is a keyed hash of the user, not a random number:
// the same user draws the same in every process, so asking again does not help.
//
// But a lot counts entries. A bot with ten accounts has ten of them, and half of the units go to fifty people again.
// What is scarce must be the entry: one for each verified phone, or address, or card. No rule of order is fairer than
// the identity behind it.
//
// The shop draws the order of the first second's requests (seckill/address/lot.go), lets a phone be one account, and
// has buckets for each account and network.
//
// The figures are entries: accounts that asked; bots, fast, slow: units of each group.
func runFair(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, ``, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	rdb, err := lab.OpenRedis(s)
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	sale := fairSale{w, rdb, seed}
	sell := func(accounts int, draw bool, entry func(fairBuyer) string) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return sale.sell(ctx, accounts, draw, entry) }
	}
	return tryAll(ctx, []variant{
		{"first come, first served", paced(sell(1, false, fairBuyer.account))},
		{"a lot", sell(1, true, fairBuyer.account)},
		{"a lot, and each bot has ten accounts", sell(10, true, fairBuyer.account)},
		{"the same, one entry for each phone", sell(10, true, fairBuyer.phone)},
	})
}

const (
	fairUnits  = 100
	fairPeople = 200 // with a fast line, and as many with a slow one
	fairBots   = 50
	fairWindow = 400 * time.Millisecond // requests within this time take part in the lot
	fairAtOnce = 64
)

// Groups of buyers.
const (
	fairBot = iota
	fairFast
	fairSlow
	fairGroups
)

// fairBuyer is one account. person is the bot or human behind it.
type fairBuyer struct {
	group, person, nth int
	comes              time.Duration
}

func (b fairBuyer) phone() string   { return fmt.Sprint(b.group, ":", b.person) }
func (b fairBuyer) account() string { return fmt.Sprint(b.phone(), ":", b.nth) }

type fairSale struct {
	workspace
	redis redis.UniversalClient
	seed  uint64
}

// crowd returns all accounts. A bot comes in the first two milliseconds, a person needs time to see and press, and a
// slow line as long again.
func (s fairSale) crowd(accounts int) (all []fairBuyer) {
	draw := rand.New(rand.NewPCG(s.seed, 25))
	upTo := func(d time.Duration) time.Duration { return time.Duration(draw.Int64N(int64(d))) }
	for person := range fairBots {
		for nth := range accounts {
			all = append(all, fairBuyer{fairBot, person, nth, upTo(2 * time.Millisecond)})
		}
	}
	for person := range fairPeople {
		all = append(all, fairBuyer{fairFast, person, 0, 20*time.Millisecond + upTo(60*time.Millisecond)},
			fairBuyer{fairSlow, person, 0, 100*time.Millisecond + upTo(100*time.Millisecond)})
	}
	return all
}

// sell sells to the crowd. entry returns the name under which an account takes part in the lot.
func (s fairSale) sell(
	ctx context.Context, accounts int, draw bool, entry func(fairBuyer) string,
) (row Finding, err error) {
	stock, lot := s.Key("stock"), s.Key("lot")
	if err := errors.Join(s.redis.Set(ctx, stock, fairUnits, lab.KeyLife).Err(),
		s.redis.Del(ctx, lot).Err()); err != nil {
		return row, err
	}
	buyers := s.crowd(accounts)
	var entries atomic.Int64
	var units [fairGroups]atomic.Int64
	figures := func() map[string]float64 {
		return map[string]float64{"entries": float64(entries.Load()), "bots": float64(units[fairBot].Load()),
			"fast": float64(units[fairFast].Load()), "slow": float64(units[fairSlow].Load())}
	}
	show(ctx, figures)
	began := time.Now()
	var all errgroup.Group
	turns := make(chan struct{}, fairAtOnce)
	for _, b := range buyers {
		all.Go(func() error {
			lab.Pause(ctx, b.comes-time.Since(began))
			turns <- struct{}{}
			defer func() { <-turns }()
			entries.Add(1)
			if !draw {
				//lab:here
				left, err := s.redis.Decr(ctx, stock).Result()
				if err == nil && left >= 0 {
					units[b.group].Add(1)
				}
				//lab:end
				return err
			}
			//lab:here
			return s.redis.ZAdd(ctx, lot, redis.Z{Score: s.drawn(entry(b)), Member: entry(b)}).Err()
			//lab:end
		})
	}
	if err := errors.Join(all.Wait(), ctx.Err()); err != nil {
		return row, err
	}
	if draw {
		lab.Pause(ctx, fairWindow-time.Since(began))
		winners, err := s.redis.ZPopMin(ctx, lot, fairUnits).Result()
		if err != nil {
			return row, err
		}
		for _, z := range winners {
			group, _ := strconv.Atoi(z.Member.(string)[:1])
			units[group].Add(1)
		}
	}
	bots, fast, slow := units[fairBot].Load(), units[fairFast].Load(), units[fairSlow].Load()
	// what the bots would have if each person and bot had the same chance
	share := int64(fairUnits * fairBots / (fairBots + 2*fairPeople))
	result, exact := verdict(bots <= 2*share && slow >= fast/2, lab.Unfair), bots+fast+slow == fairUnits
	if !exact {
		result = Wrong
	}
	return Finding{Verdict: result, sure: !exact, Figures: figures()}, ctx.Err()
}

// drawn returns what an entry draws, between 0 and 1: always the same for the same sale.
func (s fairSale) drawn(entry string) float64 {
	mac := hmac.New(sha256.New, binary.BigEndian.AppendUint64([]byte("lot of the lab "), s.seed))
	mac.Write([]byte(entry))
	return float64(binary.BigEndian.Uint64(mac.Sum(nil))>>11) / (1 << 53)
}
