package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/seckill"
)

// tryAddress lets bots and people come for 50 units. People need a moment: they see that the sale is open, and click. Bots are
// there in the first millisecond, if they know where.
//
// Where one buys at a fixed address, they know: it is in yesterday's page. A hidden address is given out inside the window only,
// to one user. The courses keep it in Redis under the user's id, which is safe, but each made-up one costs a look. The shop
// signs it: user, expiry, and an HMAC over these, the sale and the session (seckill/path.go). Checking that is arithmetic.
// Bots try what there is: a made-up address, another user's, that of another sale, one that has run out, one with a bit turned.
//
// Before an address stands a sum. Where a wrong answer may be followed by another, a program guesses until it is in. In the
// shop a sum dies with its first answer (seckill/captcha.go): who then finds out the right one is too late with it, and who
// was right can't be right twice.
//
// tries: what bots asked; let_in: how often they came through; redis: commands these tries cost; bots and people: who got units,
// or solved a sum.
func tryAddress(ctx context.Context, s Stores, seed uint64) (rows []Found, err error) {
	d, err := openDoor(ctx, s, "math", addressUnits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	a := addressRush{door: d, seed: seed}
	if a.people, err = openTill(s); err != nil {
		return nil, err
	}
	defer a.people.Close()
	if a.bots, err = openTill(s); err != nil {
		return nil, err
	}
	defer a.bots.Close()
	defer func() { err = errors.Join(err, a.tidy(ctx)) }()
	for _, try := range []struct {
		way string
		do  func(context.Context) (Found, error)
	}{
		{"fixed address", a.fixed},
		{"random address kept in Redis", a.kept},
		{"signed address", a.signed},
		{"a sum may be tried again", a.patientSum},
		{"a sum dies with its first answer", a.mortalSum},
	} {
		row, err := try.do(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", try.way, err)
		}
		row.Way = try.way
		rows = append(rows, row)
	}
	return rows, nil
}

const (
	addressUnits  = 50
	addressBots   = 50 // each with a session
	addressTries  = 20 // of each bot
	addressPeople = 100
	peopleRead    = 100 * time.Millisecond // until the first of them clicks
	peopleApart   = 200 * time.Millisecond // until the last does, after that
	sumPeople     = 20
)

// addressRush is bots and people at one sale. Bots have the users from 1, people those after them.
type addressRush struct {
	door
	seed         uint64
	people, bots till
}

func token(user int64) string { return "session " + strconv.FormatInt(user, 10) }

func (a addressRush) pathKey(user int64) string { return a.key("path:" + strconv.FormatInt(user, 10)) }

// rush lets both loose. give is how a person gets his address, known what a bot tries, and enter whether one at the door with an
// address may buy.
func (a addressRush) rush(ctx context.Context, give func(ctx context.Context, user int64) (string, error),
	known func(bot int64, try int, luck *rand.Rand) string, enter func(ctx context.Context, t till, user int64, path string) (bool, error)) (Found, error) {
	if err := a.people.Set(ctx, a.key("stock"), addressUnits, keyLife).Err(); err != nil {
		return Found{}, err
	}
	before := a.bots.asked.Load()
	var letIn, bots, people atomic.Int64
	var all errgroup.Group
	luck := rand.New(rand.NewPCG(a.seed, 10))
	for i := range int64(addressPeople) {
		user, reads := addressBots+1+i, peopleRead+time.Duration(luck.Int64N(int64(peopleApart)))
		all.Go(func() error {
			pause(ctx, reads)
			path, err := give(ctx, user)
			if err != nil {
				return err
			}
			in, err := enter(ctx, a.people, user, path)
			if err == nil && !in {
				return fmt.Errorf("user %d was not let in at his own address", user)
			}
			if err != nil {
				return err
			}
			got, err := a.people.sell(ctx, a.key("stock"))
			if got {
				people.Add(1)
			}
			return err
		})
	}
	for bot := int64(1); bot <= addressBots; bot++ {
		all.Go(func() error {
			luck := rand.New(rand.NewPCG(a.seed, uint64(100+bot)))
			for try := range addressTries {
				in, err := enter(ctx, a.bots, bot, known(bot, try, luck))
				if err != nil {
					return err
				}
				if !in {
					continue
				}
				letIn.Add(1)
				if got, err := a.bots.sell(ctx, a.key("stock")); err != nil {
					return err
				} else if got {
					bots.Add(1)
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return Found{Right: letIn.Load() == 0, Figures: map[string]float64{"tries": addressBots * addressTries, "let_in": float64(letIn.Load()),
		"redis": float64(a.bots.asked.Load() - before), "bots": float64(bots.Load()), "people": float64(people.Load())}}, err
}

// fixed is a sale at an address that everybody knows.
func (a addressRush) fixed(ctx context.Context) (Found, error) {
	return a.rush(ctx, func(context.Context, int64) (string, error) { return "buy", nil },
		func(int64, int, *rand.Rand) string { return "buy" },
		func(_ context.Context, _ till, _ int64, path string) (bool, error) { return path == "buy", nil })
}

// kept is a sale whose addresses are in Redis.
func (a addressRush) kept(ctx context.Context) (Found, error) {
	made := func(luck *rand.Rand) string { return fmt.Sprintf("%016x%016x", luck.Uint64(), luck.Uint64()) }
	victim := made(rand.New(rand.NewPCG(a.seed, 11)))
	return a.rush(ctx, func(ctx context.Context, user int64) (string, error) {
		path := made(rand.New(rand.NewPCG(a.seed, uint64(1000+user))))
		return path, a.people.Set(ctx, a.pathKey(user), path, time.Minute).Err()
	}, a.forgeries(victim), func(ctx context.Context, t till, user int64, path string) (bool, error) {
		kept, err := t.read(ctx, a.pathKey(user))
		return err == nil && kept != "" && kept == path, err
	})
}

// signed is a sale with the shop's own addresses, given and checked by its own code.
func (a addressRush) signed(ctx context.Context) (Found, error) {
	give := func(_ context.Context, user int64) (string, error) {
		return seckill.SignPath(a.secret, user, a.number, token(user), a.Now().Add(time.Minute)), nil
	}
	victim, _ := give(ctx, addressBots+1)
	rdb, err := openRedis(Stores{Redis: a.redis})
	if err != nil {
		return Found{}, err
	}
	defer rdb.Close()
	var asked counter
	rdb.AddHook(&asked)
	guard, err := seckill.New(a.config, seckill.Deps{Redis: rdb, Secret: a.secret}) // it does no more than check
	if err != nil {
		return Found{}, err
	}
	row, err := a.rush(ctx, give, a.forgeries(victim), func(_ context.Context, _ till, user int64, path string) (bool, error) {
		of, err := guard.CheckPath(a.number, token(user), path)
		if err != nil && !errors.Is(err, seckill.ErrBadPath) {
			return false, err
		}
		return err == nil && of == user, nil
	})
	if err == nil {
		row.Figures["redis"] += float64(asked.n.Load())
	}
	return row, err
}

// forgeries are what bots try by turns: made up, another user's, another sale's, run out, and one with a bit turned.
func (a addressRush) forgeries(victim string) func(int64, int, *rand.Rand) string {
	return func(bot int64, try int, luck *rand.Rand) string {
		now := a.Now()
		switch try % 5 {
		case 0:
			b := make([]byte, 48)
			for i := range b {
				b[i] = byte(luck.Uint32())
			}
			return base64.RawURLEncoding.EncodeToString(b)
		case 1:
			return victim
		case 2:
			return seckill.SignPath(a.secret, bot, a.number+1, token(bot), now.Add(time.Minute))
		case 3:
			return seckill.SignPath(a.secret, bot, a.number, token(bot), now.Add(-time.Minute))
		}
		own, _ := base64.RawURLEncoding.DecodeString(seckill.SignPath(a.secret, bot, a.number, token(bot), now.Add(-time.Minute)))
		bit := luck.IntN(8 * len(own)) // such as one of its expiry
		own[bit/8] ^= 1 << (bit % 8)
		return base64.RawURLEncoding.EncodeToString(own)
	}
}

// patientSum is a sum as many shops ask it: two small numbers, and whoever is wrong may try again.
func (a addressRush) patientSum(ctx context.Context) (Found, error) {
	luck := rand.New(rand.NewPCG(a.seed, 12))
	before, tries, letIn := a.bots.asked.Load(), 0, 0
	for bot := int64(1); bot <= addressBots; bot++ {
		answer := 2 + luck.IntN(9) + luck.IntN(9)
		if err := a.people.Set(ctx, a.pathKey(bot), answer, time.Minute).Err(); err != nil {
			return Found{}, err
		}
		for guess := 2; guess <= 18; guess++ {
			tries++
			want, err := a.bots.read(ctx, a.pathKey(bot))
			if err != nil {
				return Found{}, err
			}
			if strconv.Itoa(guess) == want {
				letIn++
				break
			}
		}
	}
	return Found{Right: letIn == 0, Figures: map[string]float64{"tries": float64(tries), "let_in": float64(letIn),
		"redis": float64(a.bots.asked.Load() - before)}}, nil
}

// mortalSum is the shop's sum, asked and judged by its own code. Bots give a wrong answer and then the right one, which they
// have been told meanwhile; people give the right one, and one of them gives it twice.
func (a addressRush) mortalSum(ctx context.Context) (Found, error) {
	var tries, letIn, people int
	answer := func(user int64, given string) (in bool, err error) {
		switch _, err = a.address(ctx, user, token(user), given); {
		case errors.Is(err, seckill.ErrWrongCaptcha):
			return false, nil
		case errors.Is(err, goods.ErrSoldOut): // the sum was right
			return true, nil
		}
		return err == nil, err
	}
	for user := int64(1); user <= addressBots+sumPeople; user++ {
		right, err := a.sum(ctx, token(user))
		if err != nil {
			return Found{}, err
		}
		if user > addressBots {
			in, err := answer(user, right)
			if err != nil {
				return Found{}, err
			}
			if in {
				people++
			}
		}
		for _, given := range []string{"1", right} { // a sum has at least four digits
			tries++
			in, err := answer(user, given)
			if err != nil {
				return Found{}, err
			}
			if in {
				letIn++
			}
		}
	}
	return Found{Right: letIn == 0 && people == sumPeople, Figures: map[string]float64{"tries": float64(tries), "let_in": float64(letIn),
		"people": float64(people)}}, nil
}

// tidy removes the keys that a place doesn't know of. Sums go by themselves, after a minute.
func (a addressRush) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(32)
	for user := int64(1); user <= addressBots+addressPeople; user++ {
		all.Go(func() error { return a.people.Del(ctx, a.pathKey(user)).Err() })
	}
	return all.Wait()
}
