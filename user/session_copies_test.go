package user

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestAReadUnderWayBringsNothingBack(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, clock := newSessions(t, url)
	token := logIn(t, s, buyer)
	fetch := s.copies.reads.fetch
	s.copies.reads.fetch = func(ctx context.Context, keys []string) ([][]byte, error) {
		s.copies.reads.fetch = fetch
		// Redis has answered, and before the answer is kept somebody logs out.
		asked := s.copies.now()
		records, err := s.remote.records(ctx, keys)
		if err != nil {
			return nil, err
		}
		if err := s.EndAll(ctx, buyer.ID, ""); err != nil {
			return nil, err
		}
		s.copies.keep(keys, records, asked)
		return records, nil
	}
	expect(t, "a read that began before the log-out", s, token, User{})
	expect(t, "after it", s, token, User{})
	clock.ahead += freshFor
	expect(t, "once the copy is old", s, token, User{})
}

func TestSessionsInARush(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	users := make([]User, 200)
	for i := range users {
		users[i] = User{ID: int64(i + 1), Role: RoleBuyer}
	}
	tokens, err := s.mint(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	errs := together(8*len(users), func(i int) error {
		i %= len(users)
		who, err := s.Get(t.Context(), tokens[i])
		if err == nil && who.UserID != users[i].ID {
			return fmt.Errorf("token of %d is user %d", users[i].ID, who.UserID)
		}
		if i%4 == 0 {
			err = errors.Join(err, s.End(t.Context(), tokens[i]))
		}
		return err
	})
	if _, _, other := count(errs, ErrNoSession); other != nil {
		t.Error(other)
	}
	for i, token := range tokens {
		want := users[i]
		if i%4 == 0 {
			want = User{}
		}
		expect(t, fmt.Sprint("user ", users[i].ID), s, token, want)
	}
}
