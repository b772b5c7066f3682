package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Register makes an account for a phone whose code is right. ErrWrongCode, InvalidError, ErrBusy; TooManyError after 200
// tries a minute from an address; and ErrPhoneTaken, which only who holds the phone gets to hear. The code is used up unless
// we failed: after a fault or ErrBusy it is good for another try.
func (s *Store) Register(ctx context.Context, phone, code, password, nickname string, from From) (User, error) {
	if err := errors.Join(checkPhone(phone), checkPassword(password), checkNickname(nickname)); err != nil {
		return User{}, err
	}
	if err := s.limits.register(ctx, from.Addr); err != nil {
		return User{}, err
	}
	giveBack, err := s.codes.use(ctx, phone, code, from.Browser)
	if err != nil {
		return User{}, err
	}
	u, err := s.insert(ctx, phone, password, nickname)
	if err == nil {
		return u, s.limits.loggedIn(ctx, phone, from.Addr)
	}
	if !errors.Is(err, ErrPhoneTaken) {
		// The caller may be gone; the code is his all the same.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, giveBack(after))
	}
	return User{}, err
}

// insert adds a buyer, or returns ErrPhoneTaken: of two at one moment one gets the phone.
func (s *Store) insert(ctx context.Context, phone, password, nickname string) (User, error) {
	hash, err := s.hashes.hash(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("hash a new password: %w", err)
	}
	rows, err := s.db.Query(ctx, `
		insert into users (phone, nickname, password_hash)
		values ($1, $2, $3)
		on conflict (phone) do nothing
		returning id, phone, nickname, role`, phone, nickname, hash)
	if err != nil {
		return User{}, fault(err, "register %s", masked(phone))
	}
	u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[User])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrPhoneTaken
	case err != nil:
		return User{}, fault(err, "register %s", masked(phone))
	}
	return u, nil
}
