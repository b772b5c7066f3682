package user

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bucketModel is a model of one bucket. Its clock moves only when the test moves it.
type bucketModel struct {
	Limit
	debt time.Duration // until the bucket is full; more than that of an empty one after the clock was set back
}

func (m *bucketModel) take(tokens int) (wait time.Duration) {
	empty := time.Duration(m.Burst) * m.Refill()
	after := max(0, min(m.debt, empty)+time.Duration(tokens)*m.Refill())
	if after > empty {
		return after - empty
	}
	m.debt = after
	return 0
}

// The script follows its model, while time passes, while the server's clock is set back, and when the
// key is lost or damaged.
//
// The test cannot move the server's clock, so it moves the stored time. Tokens refill in ten minutes
// or more and the clock moves by halves of that time, so the seconds that really pass add no token.
func TestABucketFollowsItsModel(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const key = "ms:limit:model"
	rapid.Check(t, func(r *rapid.T) {
		s.rdb.Del(t.Context(), key)
		m := bucketModel{Limit: Limit{Rate{1, rapid.SampledFrom([]time.Duration{10 * time.Minute, 72 * time.Hour}).Draw(r, "refill")}, rapid.IntRange(1, 5).Draw(r, "size")}}
		began := time.Now()
		near := func(got, want time.Duration) bool { // real time has passed, too; the embedded Redis counts it in seconds
			return got <= want && got >= want-time.Since(began)-3*time.Second
		}
		run := func(r *rapid.T, tokens int) {
			ms, err := limitTake.Run(t.Context(), s.rdb, []string{key}, m.Refill().Milliseconds(), m.Burst, tokens).Int64()
			if err != nil {
				r.Fatal(err)
			}
			if got, want := time.Duration(ms)*time.Millisecond, m.take(tokens); (got > 0) != (want > 0) || !near(got, want) {
				r.Fatalf("%d tokens: wait %v, want %v", tokens, got, want)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"take":      func(r *rapid.T) { run(r, 1) },
			"take some": func(r *rapid.T) { run(r, rapid.IntRange(2, 6).Draw(r, "tokens")) },
			"put back":  func(r *rapid.T) { run(r, -1) },
			"pass": func(r *rapid.T) {
				d := time.Duration(rapid.IntRange(-4, 8).Draw(r, "half tokens")) * m.Refill() / 2
				full, err := s.rdb.Get(t.Context(), key).Int64()
				if err != nil { // a full bucket has no key, and the clock does not matter to it
					return
				}
				if ttl := s.rdb.PTTL(t.Context(), key).Val() - d; ttl <= 0 {
					s.rdb.Del(t.Context(), key)
				} else {
					s.rdb.Set(t.Context(), key, full-d.Milliseconds(), ttl)
				}
				m.debt = max(0, m.debt-d)
			},
			"lose":   func(*rapid.T) { s.rdb.Del(t.Context(), key); m.debt = 0 },
			"damage": func(*rapid.T) { s.rdb.Set(t.Context(), key, "x", time.Hour); m.debt = 0; run(r, 1) },
			"": func(r *rapid.T) { // the key lives until the bucket is full, and no longer
				got := max(0, s.rdb.PTTL(t.Context(), key).Val())
				if !near(got, m.debt) {
					r.Fatalf("the key lives %v, want %v", got, m.debt)
				}
			},
		})
	})
}

// A server whose clock was set back by a day, such as another one after a failover, refuses no one
// for longer than an empty bucket does.
func TestAClockThatWasSetBackLocksNobodyOut(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tomorrow := time.Now().Add(24 * time.Hour).UnixMilli()
	if err := s.rdb.Set(t.Context(), limitRegister+address, tomorrow, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if allowed, wait := tries(t, 1, func(int) error { return s.limits.register(t.Context(), address) }); allowed == 0 && wait > TriesPerAddress.Refill() {
		t.Errorf("the next try is in %v, want at most %v", wait, TriesPerAddress.Refill())
	}
}
