package user

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// newBans returns the bans of one more process.
func (s testShop) newBans(t *testing.T, most string, life time.Duration) *Bans {
	t.Helper()
	b, err := NewBans(s.rdb, BanConfig{Ban: most, BanFor: life}, slog.New(slog.NewTextHandler(s.logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Bans) refuse(n int, userID int64) {
	for range n {
		b.Refused(userID)
	}
}

// looks lets processes look, one after the other.
func looks(t *testing.T, processes ...*Bans) {
	t.Helper()
	for _, b := range processes {
		if err := b.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Refusals by all processes count together. The ban is known everywhere, logged once, and ends when Redis says so.
func TestAUserWhoIsRefusedTooOftenIsBanned(t *testing.T) {
	const life = time.Hour
	s := newShop(t)
	one, two := s.newBans(t, "20/hour", life), s.newBans(t, "20/hour", life)
	one.refuse(12, 7)
	two.refuse(8, 7)
	one.refuse(20, 8)
	looks(t, one, two, one)
	for _, id := range []int64{7, 8, 9} {
		if err := errors.Join(one.Check(id), two.Check(id)); err != nil {
			t.Errorf("user %d, who was refused 20 times at most: %v", id, err)
		}
	}
	two.refuse(1, 7)
	looks(t, two)
	if life := s.rdb.PTTL(t.Context(), bansKey).Val(); life <= 99*time.Hour || life > 100*time.Hour {
		t.Errorf("the bans are kept for %v, want 100 h", life)
	}
	looks(t, one)
	for i, b := range []*Bans{one, two} {
		refused, banned := errors.AsType[BannedError](b.Check(7))
		if !banned || refused.RetryAfter > life {
			t.Errorf("process %d: banned %v for another %v, want up to %v", i+1, banned, refused.RetryAfter, life)
		}
		if err := b.Check(8); err != nil {
			t.Errorf("process %d, the other user: %v", i+1, err)
		}
	}
	two.refuse(25, 7) // a banned user who goes on keeps the ban that there is
	looks(t, two, one)
	if log := s.logged.String(); strings.Count(log, "user banned") != 1 || !strings.Contains(log, "user=7") {
		t.Errorf("the log has %q, want one ban of user 7", log)
	}
	if got := testutil.ToFloat64(one.begun) + testutil.ToFloat64(two.begun); got != 1 {
		t.Errorf("%v bans are counted, want 1", got)
	}
	if err := s.rdb.ZAdd(t.Context(), bansKey, redis.Z{Score: 1, Member: 7}).Err(); err != nil { // its end is long ago
		t.Fatal(err)
	}
	looks(t, one, two)
	if err := errors.Join(one.Check(7), two.Check(7)); err != nil {
		t.Errorf("after the ban: %v", err)
	}
}

// A process that does not look again, because Redis is down, ends a ban in its time.
func TestABanEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBans(nil, BanConfig{Ban: "5/hour", BanFor: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.until.Store(&map[int64]time.Time{7: time.Now().Add(time.Minute)})
		time.Sleep(time.Minute - 1)
		if err := b.Check(7); !errors.Is(err, BannedError{1}) {
			t.Errorf("just before its end: %v, want BannedError", err)
		}
		time.Sleep(time.Nanosecond)
		if err := b.Check(7); err != nil {
			t.Errorf("at its end: %v", err)
		}
	})
}

// A process looks at once, and then each second. It can be told to look now.
func TestBansAreLookedAtNow(t *testing.T) {
	s := newShop(t)
	b, other := s.newBans(t, "5/hour", time.Hour), s.newBans(t, "5/hour", time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	defer running.Wait()
	defer stop()
	other.refuse(6, 7)
	looks(t, other)
	if err := b.looks.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(7); !errors.As(err, &BannedError{}) {
		t.Errorf("after a look: %v, want BannedError", err)
	}
}

// The count begins from zero with a ban, so one more refusal after it bans no one.
func TestABanForgetsTheRefusals(t *testing.T) {
	s := newShop(t)
	b := s.newBans(t, "5/hour", time.Millisecond)
	b.refuse(6, 7)
	looks(t, b)
	if got := testutil.ToFloat64(b.begun); got != 1 {
		t.Fatalf("%v bans, want 1", got)
	}
	sandboxtest.Until(t, "the ban is over", func() bool {
		_, left, err := runBans(t.Context(), s.rdb, 0)
		return err == nil && len(left) == 0
	})
	b.refuse(5, 7)
	looks(t, b)
	b.refuse(1, 7)
	looks(t, b)
	if got := testutil.ToFloat64(b.begun); got != 2 {
		t.Errorf("after 5 refusals and one more there are %v bans, want 2", got)
	}
}

func TestABanIsLifted(t *testing.T) {
	s := newShop(t)
	u, other := s.register(t, phone, "correct horse"), s.register(t, "13800000002", "correct horse")
	one, two := s.newBans(t, "5/hour", time.Hour), s.newBans(t, "5/hour", time.Hour)
	one.refuse(6, u.ID)
	one.refuse(6, other.ID)
	looks(t, one, two)
	bans, err := s.Bans(t.Context())
	if err != nil || len(bans) != 2 || bans[0].UserID != u.ID || bans[0].Phone != phone || bans[0].Left <= 0 || bans[0].Left > time.Hour {
		t.Errorf("bans %+v, %v", bans, err)
	}
	for _, want := range []bool{true, false} {
		if lifted, err := s.LiftBan(t.Context(), phone); err != nil || lifted != want {
			t.Errorf("lifted %v, %v; want %v", lifted, err, want)
		}
	}
	var lines int
	if err := s.db.QueryRow(t.Context(), `select count(*) from admin_log where action = 'user.unban' and subject = 'user ' || $1::bigint`, u.ID).Scan(&lines); err != nil || lines != 1 {
		t.Errorf("the ban that was lifted has %d lines in the log, %v", lines, err)
	}
	looks(t, one, two)
	if err := errors.Join(one.Check(u.ID), two.Check(u.ID)); err != nil {
		t.Errorf("after the ban was lifted: %v", err)
	}
	one.refuse(5, u.ID)
	looks(t, one)
	if err := one.Check(u.ID); err != nil {
		t.Errorf("five refusals after that: %v", err)
	}
	if err := one.Check(other.ID); !errors.As(err, &BannedError{}) {
		t.Errorf("the other user: %v, want BannedError", err)
	}
	if _, err := s.LiftBan(t.Context(), "13800009999"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a phone without an account: %v, want ErrNotFound", err)
	}
}

// While Redis is down, the bans that a process knows go on, and there are no new ones.
func TestBansWithoutRedis(t *testing.T) {
	s := newShop(t)
	b := s.newBans(t, "5/hour", time.Hour)
	b.refuse(6, 7)
	looks(t, b)
	s.rdb.Close()
	b.refuse(6, 8)
	if err := b.look(t.Context()); err == nil {
		t.Error("a look without Redis is no fault")
	}
	if err := b.Check(7); !errors.As(err, &BannedError{}) {
		t.Errorf("the banned user: %v, want BannedError", err)
	}
	if err := b.Check(8); err != nil {
		t.Errorf("a user who was refused meanwhile: %v", err)
	}
}

// Refusals of a crowd take bounded memory.
func TestRefusalsAreBounded(t *testing.T) {
	s := newShop(t)
	b := s.newBans(t, "5/hour", time.Hour)
	for id := range int64(2 * maxRefused) {
		b.refuse(6, id)
	}
	looks(t, b)
	if got := testutil.ToFloat64(b.begun); got != maxRefused {
		t.Errorf("%v users are banned at one look, want %d", got, maxRefused)
	}
}

func TestBanSettings(t *testing.T) {
	for _, c := range []struct {
		ban    string
		life   time.Duration
		banned bool
		want   string
	}{
		{"300/10min", 10 * time.Minute, true, ""}, {"off", time.Minute, false, ""},
		{"0", time.Minute, false, "--ban: "}, {"2000/s", time.Minute, false, "--ban: "}, {"", time.Minute, false, "--ban: "},
		{"off", 0, false, "--ban-for: "}, {"5/s", -time.Second, false, "--ban-for: "}, {"5/s", 101 * time.Hour, false, "--ban-for: "},
	} {
		b, err := NewBans(nil, BanConfig{c.ban, c.life}, nil)
		if got := fmt.Sprint(err); (b != nil) != c.banned || (err == nil) != (c.want == "") || !strings.HasPrefix(got, c.want) && err != nil {
			t.Errorf("%+v: %v, %v", c, b != nil, err)
		}
	}
	var none *Bans
	none.Refused(7)
	if err := none.Check(7); err != nil || none.Collectors() != nil || none.Run(t.Context()) != nil {
		t.Errorf("switched off: %v", err)
	}
}
