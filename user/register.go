package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Register creates an account for a phone if the code is right. ErrWrongCode, InvalidError,
// ErrBusy; ErrSolveFirst, while the whole shop has seen many wrong codes; TooManyError after 200 tries
// from an address, and one more each second; ErrPhoneTaken, which only the owner of the phone can see, since the code
// must be right. After a fault or ErrBusy the code can be used again, unless the account was made: then
// the user logs in. Otherwise it is used up.
func (s *Store) Register(ctx context.Context, phone, code, password, nickname string, from From) (LoggedIn, error) {
	if err := errors.Join(CheckPhone(phone), CheckCode(code), CheckPassword("password", password),
		CheckNickname(nickname)); err != nil {
		return LoggedIn{}, err
	}
	if err := s.limits.register(ctx, from.Addr); err != nil {
		return LoggedIn{}, err
	}
	var u User
	var hash string
	err := s.withCode(ctx, phone, code, from, func() (err error) {
		u, hash, err = s.insert(ctx, phone, password, nickname)
		return err
	})
	if err != nil {
		return LoggedIn{}, err
	}
	return LoggedIn{u, s.devices.issue(phone, hash, time.Now())}, s.limits.loggedIn(ctx, phone, from.Addr)
}

// withCode runs use if the code is right. If use fails, the code can be used again, unless the phone is taken.
func (s *Store) withCode(ctx context.Context, phone, code string, from From, use func() error) error {
	giveBack, err := s.useCode(ctx, phone, code, from)
	if err != nil {
		return err
	}
	if err = use(); err != nil && !errors.Is(err, ErrPhoneTaken) {
		// Give the code back even if the caller has gone.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, giveBack(after))
	}
	return err
}

// useCode takes the code under the shop's budget of wrong ones: codes.use.
func (s *Store) useCode(
	ctx context.Context, phone, code string, from From,
) (giveBack func(context.Context) error, err error) {
	if err := s.limits.spend(ctx, limitWrongOfAll, WrongOfAll, from); err != nil {
		return nil, err
	}
	giveBack, err = s.codes.use(ctx, phone, code, from.Browser)
	if err == nil || errors.Is(err, errNoCode) {
		if err := s.limits.putBack(ctx, limitWrongOfAll, WrongOfAll, from); err != nil {
			// the token comes back later anyway
			s.log.WarnContext(ctx, "a right code was counted as a wrong one", "err", err)
		}
	}
	return giveBack, err
}

// insert adds a buyer and returns the hash of the password too, or ErrPhoneTaken. Of two inserts at once, one gets the
// phone.
func (s *Store) insert(ctx context.Context, phone, password, nickname string) (u User, hash string, err error) {
	hash, err = s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return User{}, "", fmt.Errorf("hash a new password: %w", err)
	}
	rows, _ := s.db.Query(ctx, `
		insert into users (phone, nickname, password_hash)
		values ($1, $2, $3)
		on conflict (phone) do nothing
		returning `+userColumns, phone, nickname, hash)
	u, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[User])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, "", ErrPhoneTaken
	case err != nil:
		return User{}, "", fault(err, "register %s", masked(phone))
	}
	return u, hash, nil
}
