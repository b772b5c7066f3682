package user

import (
	"context"
	_ "embed"
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The limits of log-in, codes and registering. The row of a route in web says which of them it has.
var (
	LoginsPerAccount  = MustLimit("10/min", 0)
	CodesPerPhone     = MustLimit("3/10min", 0)
	CodesPerPhoneHour = MustLimit("10/hour", 0)
	// a whole class may share one address; each try may hash a password, which takes most of a tenth of a second
	TriesPerAddress  = MustLimit("60/min", 200)
	TriesPerNetwork  = MustLimit("600/min", 0) // a /24, or a /48 of IPv6
	TriesPerDevice   = MustLimit("10/min", 0)  // counted in this process
	PasswordsPerUser = MustLimit("10/min", 0)
	PasswordsPerHour = MustLimit("30/hour", 0) // a thief who has the session guesses no faster

	// Budgets of the whole shop. When one is used up, visitors solve a sum and go on. No one is refused: otherwise a
	// crowd could close the registration for all others.
	CodesOfAll = MustLimit("300/min", 600)
	WrongOfAll = MustLimit("6/min", 100) // 8,640 a day: of a million codes for each phone
)

//go:embed limit_take.lua
var limitTakeSource string
var limitTake = redis.NewScript(limitTakeSource)

// limits keeps its counts in Redis: all processes count together.
//
// Strangers share one bucket for an account, so a hundred addresses guess no faster than one. They can
// keep it empty, but they cannot lock the owner out: an address that has logged in to the account
// before has a bucket of its own for it.
type limits struct{ rdb redis.UniversalClient }

// login counts a try to log in to an account from an address. The address's bucket comes first: a
// refusal there takes nothing from the account's bucket.
func (l *limits) login(ctx context.Context, phone, addr string) error {
	addr = network(addr)
	if err := l.take(ctx, limitLoginAddress+addr, TriesPerAddress); err != nil {
		return err
	}
	known, err := l.rdb.Exists(ctx, knownKey(phone, addr)).Result()
	if err != nil {
		return fault(err, "find a known address")
	}
	if known > 0 {
		return l.take(ctx, limitLoginKnown+short(phone)+":"+addr, LoginsPerAccount)
	}
	return l.take(ctx, limitLogin+short(phone), LoginsPerAccount)
}

// loggedIn makes the address known for the account: it has a bucket of its own from now on.
func (l *limits) loggedIn(ctx context.Context, phone, addr string) error {
	if err := l.rdb.Set(ctx, knownKey(phone, network(addr)), "", knownFor).Err(); err != nil {
		return fault(err, "remember an address")
	}
	return nil
}

// password counts a logged-in user's try to enter their password. Tries of strangers do not count.
func (l *limits) password(ctx context.Context, userID int64) error {
	id := strconv.FormatInt(userID, 10)
	if err := l.take(ctx, limitPassword+id, PasswordsPerUser); err != nil {
		return err
	}
	return l.take(ctx, limitPasswordHour+id, PasswordsPerHour)
}

// code counts a code that is sent to a phone at the request of an address and of its network, and, unless a
// sum was solved for it, in the shop's budget.
func (l *limits) code(ctx context.Context, phone string, from From) error {
	if err := l.take(ctx, limitCodeAddress+network(from.Addr), TriesPerAddress); err != nil {
		return err
	}
	if err := l.take(ctx, limitCodeNetwork+Site(from.Addr), TriesPerNetwork); err != nil {
		return err
	}
	if err := l.spend(ctx, limitCodesOfAll, CodesOfAll, from); err != nil {
		return err
	}
	err := l.take(ctx, limitCode+short(phone), CodesPerPhone)
	if err == nil {
		err = l.take(ctx, limitCodeHour+short(phone), CodesPerPhoneHour)
	}
	if _, refused := errors.AsType[TooManyError](err); refused { // no code is sent
		return errors.Join(err, l.putBack(ctx, limitCodesOfAll, CodesOfAll, from))
	}
	return err
}

// register counts a try to register, to set a new password by code or to change the phone, from an address and its
// network. The tries of a code are counted with the code.
func (l *limits) register(ctx context.Context, addr string) error {
	if err := l.take(ctx, limitRegister+network(addr), TriesPerAddress); err != nil {
		return err
	}
	return l.take(ctx, limitRegisterNet+Site(addr), TriesPerNetwork)
}

// spend takes a token from a budget of the whole shop, unless a sum was solved. ErrSolveFirst if it is used up.
func (l *limits) spend(ctx context.Context, key string, budget Limit, from From) error {
	if from.Solved {
		return nil
	}
	err := l.take(ctx, key, budget)
	if _, usedUp := errors.AsType[TooManyError](err); usedUp {
		return ErrSolveFirst
	}
	return err
}

// putBack puts back what spend took.
func (l *limits) putBack(ctx context.Context, key string, budget Limit, from From) error {
	if from.Solved {
		return nil
	}
	return l.run(ctx, key, budget, -1)
}

// take takes a token from the bucket in key, or returns a TooManyError with the time until the next.
func (l *limits) take(ctx context.Context, key string, b Limit) error { return l.run(ctx, key, b, 1) }

func (l *limits) run(ctx context.Context, key string, b Limit, tokens int) error {
	wait, err := limitTake.Run(ctx, l.rdb, []string{key}, b.Refill().Milliseconds(), b.Burst, tokens).Int64()
	switch {
	case err != nil:
		return fault(err, "count a try")
	case wait > 0:
		return TooManyError{time.Duration(wait) * time.Millisecond}
	}
	return nil
}

// network returns an IPv4 address, or the /64 of an IPv6 address, which is one household's.
func network(addr string) string { return prefix(addr, 32, 64) }

// Site returns the /24 of an IPv4 address, or the /48 of an IPv6 address: what one customer of a
// provider can have many addresses in.
func Site(addr string) string { return prefix(addr, 24, 48) }

func prefix(addr string, v4, v6 int) string {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	a = a.Unmap().WithZone("")
	bits := v4
	if a.Is6() {
		bits = v6
	}
	if bits == a.BitLen() {
		return a.String()
	}
	p, _ := a.Prefix(bits) // the bits fit
	return p.String()
}
