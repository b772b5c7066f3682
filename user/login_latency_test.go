//go:build latency

package user

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A stranger without a password or a code cannot find out from the time of an answer which phones have
// accounts. The time of a kind is that of its quickest try, because other work on the machine only adds to it.
func TestLatencyDoesNotRevealAccounts(t *testing.T) {
	const rounds = 15
	for _, c := range guesses {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			s.hashes.memory = argonMemory
			slack := time.Duration(0)
			if !errors.Is(c.want, ErrWrongPassword) {
				slack = 2 * time.Millisecond // for a very short try, which another process may interrupt
			}
			kinds, took := s.kinds(t, rounds), map[string]time.Duration{} // a phone for each try, or the rate limits would refuse
			within := func(d time.Duration) bool {
				return (d - took["no account"]).Abs() <= max(took["no account"]/4, slack)
			}
			// More tries come closer to the quickest one; a difference in the work would stay.
			for batch := range 3 {
				for i := range rounds { // one of each in turn, so that a disturbance hits all kinds
					for kind, phones := range kinds {
						began := time.Now()
						if err := c.try(t, s, phones[i], fmt.Sprint("192.0.2.", i)); !errors.Is(err, c.want) {
							t.Errorf("%s: %v, want %v", kind, err, c.want)
						}
						if d := time.Since(began); took[kind] == 0 || d < took[kind] {
							took[kind] = d
						}
					}
				}
				t.Logf("after %d tries of each: %v", (batch+1)*rounds, took)
				if within(took["account"]) && within(took["account of the older systems"]) {
					return
				}
			}
			t.Errorf("%v; want all within a quarter of \"no account\"", took)
		})
	}
}

// A log-in without Postgres takes no longer than one with it, or the time of a silence.
func TestLatencyOfALogInWithoutPostgres(t *testing.T) {
	s, proxy := newShopBehind(t)
	s.register(t, phone, "correct horse")
	s.silence = lookupLimit
	logIn := func() (time.Duration, error) {
		began := time.Now()
		_, err := s.Login(t.Context(), phone, "correct horse", from)
		return time.Since(began), err
	}
	baseline, err := logIn()
	if err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	refused, err := logIn()
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("connections are refused: %v, want ErrUnavailable", err)
	}
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "a log-in works", func() bool { _, err := logIn(); return err == nil })
	proxy.Delay(time.Hour)
	silent, err := logIn()
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("Postgres is silent: %v, want ErrUnavailable", err)
	}
	next, err := logIn()
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("the next log-in: %v, want ErrUnavailable", err)
	}
	proxy.Heal()
	t.Logf("a log-in takes %v, %v if connections are refused, %v if Postgres is silent, the next one %v", baseline, refused, silent, next)
	if refused > 10*baseline || next > 10*baseline || silent < lookupLimit || silent > 2*lookupLimit {
		t.Errorf("want at most 10 times that of a log-in, and %v for a silent Postgres", lookupLimit)
	}
}

// To make many buyers takes no more time for each than to make a few.
func TestLatencyOfMinting(t *testing.T) {
	s := newShop(t)
	sessions := s.sessions(t)
	each := func(n int) time.Duration {
		began := time.Now()
		if err := s.Mint(t.Context(), sessions, n, func(int64, string, string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return time.Since(began) / time.Duration(n)
	}
	baseline, many := each(1000), each(20_000)
	t.Logf("%v for each of 1,000 buyers, %v for each of 20,000", baseline, many)
	if many > 3*baseline {
		t.Error("want at most three times as much")
	}
}
