package experiments

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
	"miaosha/seckill/address"
	"miaosha/seckill/captcha"
	"miaosha/seckill/lab"
)

// runAddress lets bots and people compete for 50 units. People need a moment: they see that the sale
// is open, and click. Bots come in the first millisecond, if they know the address.
//
// They know a fixed address: it is in yesterday's page. A hidden address is issued to one user, and
// only while the sale is open. The courses store it in Redis under the user's id. That is safe, but
// every forged address costs a read. The shop signs the address: it contains the user, the expiry,
// and an HMAC over these, the sale and the session (seckill/address/address.go). Checking it is arithmetic. Bots
// try a random address, another user's address, one of another sale, an expired one, and one with a
// flipped bit.
//
// Before an address, the shop asks for the result of a sum, its captcha. If a wrong answer may be
// followed by another, a program guesses until it is right. In the shop a captcha ends with its first
// answer (seckill/captcha/captcha.go): the right answer is refused after a wrong one, and is accepted only
// once.
//
// The figures are tries: the bots' tries; let_in: successful tries; redis: Redis commands of the
// tries; bots, people: units sold to them, or captchas they solved.
func runAddress(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	e, err := openEngine(ctx, s, addressUnits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	a := addressRush{engine: e.withSums(), seed: seed}
	if a.people, err = openCounter(s); err != nil {
		return nil, err
	}
	defer a.people.Close()
	if a.bots, err = openCounter(s); err != nil {
		return nil, err
	}
	defer a.bots.Close()
	defer func() { err = errors.Join(err, a.cleanUp(ctx)) }()
	return tryAll(ctx, []variant{
		{"fixed address", a.fixedAddress},
		{"random address kept in Redis", a.storedAddress},
		{"signed address", a.signedAddress},
		{"a sum may be tried again", a.retriedCaptcha},
		{"a sum dies with its first answer", a.oneTryCaptcha},
	})
}

const (
	addressUnits  = 50
	addressBots   = 50 // each with a session
	addressTries  = 20 // of each bot
	addressPeople = 100
	peopleRead    = 100 * time.Millisecond // until the first person clicks
	peopleApart   = 200 * time.Millisecond // from then until the last one does
	captchaPeople = 20
)

// addressRush is a sale with bots and people. The bots are the users from 1 on, the people follow.
type addressRush struct {
	engine
	seed         uint64
	people, bots counter
}

func token(user int64) string { return "session " + strconv.FormatInt(user, 10) }

func (a addressRush) addressKey(user int64) string {
	return a.Key("path:" + strconv.FormatInt(user, 10))
}

// rush starts bots and people. issue returns the address for a person, attempt an address that a bot
// tries, and check reports whether a user may buy at an address.
func (a addressRush) rush(ctx context.Context, issue func(ctx context.Context, user int64) (string, error),
	attempt func(bot int64, try int, rng *rand.Rand) string,
	check func(ctx context.Context, c counter, user int64, address string) (bool, error)) (Finding, error) {
	if err := a.people.Set(ctx, a.Key("stock"), addressUnits, lab.KeyLife).Err(); err != nil {
		return Finding{}, err
	}
	before := a.bots.commands.Load()
	var letIn, bots, people atomic.Int64
	figures := func() map[string]float64 {
		return map[string]float64{"let_in": float64(letIn.Load()), "redis": float64(a.bots.commands.Load() - before),
			"bots": float64(bots.Load()), "people": float64(people.Load())}
	}
	show(ctx, figures)
	var all errgroup.Group
	rng := rand.New(rand.NewPCG(a.seed, 10))
	for i := range int64(addressPeople) {
		user, reads := addressBots+1+i, peopleRead+time.Duration(rng.Int64N(int64(peopleApart)))
		all.Go(func() error {
			lab.Pause(ctx, reads)
			address, err := issue(ctx, user)
			if err != nil {
				return err
			}
			in, err := check(ctx, a.people, user, address)
			if err != nil {
				return err
			}
			if !in {
				return fmt.Errorf("user %d was not let in at their own address", user)
			}
			got, err := a.people.sell(ctx, a.Key("stock"))
			if got {
				people.Add(1)
			}
			return err
		})
	}
	for bot := int64(1); bot <= addressBots; bot++ {
		all.Go(func() error {
			rng := rand.New(rand.NewPCG(a.seed, uint64(100+bot)))
			for try := range addressTries {
				in, err := check(ctx, a.bots, bot, attempt(bot, try, rng))
				if err != nil {
					return err
				}
				if !in {
					continue
				}
				letIn.Add(1)
				got, err := a.bots.sell(ctx, a.Key("stock"))
				if err != nil {
					return err
				}
				if got {
					bots.Add(1)
				}
			}
			return nil
		})
	}
	err := all.Wait()
	f := figures()
	f["tries"] = addressBots * addressTries
	return Finding{Verdict: verdict(letIn.Load() == 0, Wrong), Figures: f}, err
}

// fixedAddress sells at one address for all.
func (a addressRush) fixedAddress(ctx context.Context) (Finding, error) {
	return a.rush(ctx, func(context.Context, int64) (string, error) { return "buy", nil },
		func(int64, int, *rand.Rand) string { return "buy" },
		func(_ context.Context, _ counter, _ int64, address string) (bool, error) {
			return address == "buy", nil
		})
}

// storedAddress sells at addresses that Redis stores.
func (a addressRush) storedAddress(ctx context.Context) (Finding, error) {
	made := func(rng *rand.Rand) string { return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()) }
	victim := made(rand.New(rand.NewPCG(a.seed, 11)))
	return a.rush(ctx, func(ctx context.Context, user int64) (string, error) {
		address := made(rand.New(rand.NewPCG(a.seed, uint64(1000+user))))
		return address, a.people.Set(ctx, a.addressKey(user), address, time.Minute).Err()
	}, a.forgeries(victim), func(ctx context.Context, c counter, user int64, address string) (bool, error) {
		//lab:here
		kept, err := c.read(ctx, a.addressKey(user))
		return err == nil && kept != "" && kept == address, err
		//lab:end
	})
}

// signedAddress sells at the shop's signed addresses, signed and checked by the shop's code.
func (a addressRush) signedAddress(ctx context.Context) (Finding, error) {
	issue := func(_ context.Context, user int64) (string, error) {
		return address.New(a.secret).Sign(user, a.Number, token(user), a.Now().Add(time.Minute)), nil
	}
	victim, _ := issue(ctx, addressBots+1)
	rdb, err := lab.OpenRedis(lab.Stores{Redis: a.redis})
	if err != nil {
		return Finding{}, err
	}
	defer rdb.Close()
	checker, err := seckill.New(a.config, seckill.Deps{Redis: rdb, Secret: a.secret}) // it only checks addresses
	if err != nil {
		return Finding{}, err
	}
	row, err := a.rush(ctx, issue, a.forgeries(victim),
		func(_ context.Context, _ counter, user int64, address string) (bool, error) {
			//lab:here
			owner, err := checker.CheckAddress(a.Number, token(user), address)
			if err != nil && !errors.Is(err, seckill.ErrBadAddress) {
				return false, err
			}
			return err == nil && owner == user, nil
			//lab:end
		})
	if err == nil {
		asked := rdb.PoolStats() // each command takes a connection: an open one, or a new one
		row.Figures["redis"] += float64(asked.Hits + asked.Misses)
	}
	return row, err
}

// forgeries returns the addresses that bots try in turn: a random one, another user's, one of another
// sale, an expired one, and one with a flipped bit.
func (a addressRush) forgeries(victim string) func(int64, int, *rand.Rand) string {
	return func(bot int64, try int, rng *rand.Rand) string {
		now := a.Now()
		switch try % 5 {
		case 0:
			b := make([]byte, 48)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return base64.RawURLEncoding.EncodeToString(b)
		case 1:
			return victim
		case 2:
			return address.New(a.secret).Sign(bot, a.Number+1, token(bot), now.Add(time.Minute))
		case 3:
			return address.New(a.secret).Sign(bot, a.Number, token(bot), now.Add(-time.Minute))
		}
		own, _ := base64.RawURLEncoding.DecodeString(
			address.New(a.secret).Sign(bot, a.Number, token(bot), now.Add(-time.Minute)))
		bit := rng.IntN(8 * len(own)) // may be in the expiry
		own[bit/8] ^= 1 << (bit % 8)
		return base64.RawURLEncoding.EncodeToString(own)
	}
}

// retriedCaptcha is the sum of two small numbers, as many shops ask it. A wrong answer may be followed
// by another.
func (a addressRush) retriedCaptcha(ctx context.Context) (Finding, error) {
	rng := rand.New(rand.NewPCG(a.seed, 12))
	before, tries, letIn := a.bots.commands.Load(), 0, 0
	for bot := int64(1); bot <= addressBots; bot++ {
		answer := 2 + rng.IntN(9) + rng.IntN(9)
		if err := a.people.Set(ctx, a.addressKey(bot), answer, time.Minute).Err(); err != nil {
			return Finding{}, err
		}
		for guess := 2; guess <= 18; guess++ {
			tries++
			want, err := a.bots.read(ctx, a.addressKey(bot))
			if err != nil {
				return Finding{}, err
			}
			if strconv.Itoa(guess) == want {
				letIn++
				break
			}
		}
	}
	return Finding{Verdict: verdict(letIn == 0, Wrong),
		Figures: map[string]float64{"tries": float64(tries), "let_in": float64(letIn),
			"redis": float64(a.bots.commands.Load() - before)}}, nil
}

// oneTryCaptcha is the shop's captcha, checked by the shop's code. A bot sends a wrong answer and then
// the right one. A person sends the right answer; more answers to the same captcha count as tries.
func (a addressRush) oneTryCaptcha(ctx context.Context) (Finding, error) {
	var tries, letIn, people int
	answer := func(user int64, given string) (in bool, err error) {
		switch _, err = a.address(ctx, user, token(user), given); {
		case errors.Is(err, captcha.ErrWrong):
			return false, nil
		case errors.Is(err, goods.ErrSoldOut): // the answer was right
			return true, nil
		}
		return err == nil, err
	}
	for user := int64(1); user <= addressBots+captchaPeople; user++ {
		right, err := a.captchaAnswer(ctx, user, token(user))
		if err != nil {
			return Finding{}, err
		}
		if user > addressBots {
			in, err := answer(user, right)
			if err != nil {
				return Finding{}, err
			}
			if in {
				people++
			}
		}
		for _, given := range []string{"1", right} { // "1" is never right: the result has at least four digits
			tries++
			in, err := answer(user, given)
			if err != nil {
				return Finding{}, err
			}
			if in {
				letIn++
			}
		}
	}
	return Finding{Verdict: verdict(letIn == 0 && people == captchaPeople, Wrong),
		Figures: map[string]float64{"tries": float64(tries),
			"let_in": float64(letIn), "people": float64(people)}}, nil
}

// cleanUp removes the keys of addressKey, which keysOf does not list. Captchas expire after a minute.
func (a addressRush) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.CleanupTimeout)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(32)
	for user := int64(1); user <= addressBots+addressPeople; user++ {
		all.Go(func() error { return a.people.Del(ctx, a.addressKey(user)).Err() })
	}
	return all.Wait()
}
