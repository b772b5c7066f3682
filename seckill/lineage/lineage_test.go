package lineage_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/gate"
	"miaosha/seckill/lineage"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// shop is a Postgres and a Redis.
type shop struct {
	t   *testing.T
	db  *pgxpool.Pool
	rdb redis.UniversalClient

	mu    sync.Mutex
	said  []string
	ended []error
}

func newShop(t *testing.T) *shop {
	return &shop{t: t, db: sandboxtest.DB(t), rdb: sandboxtest.Redis(t)}
}

func (s *shop) deps() lineage.Deps {
	return lineage.Deps{DB: s.db, Postgres: "--database-url (DATABASE_URL)", Redis: []lineage.Redis{{Setting: "--redis-url (REDIS_URL)", Client: s.rdb}}, Log: slog.New(slog.DiscardHandler),
		Say: func(what string) { s.mu.Lock(); s.said = append(s.said, what); s.mu.Unlock() },
		End: func(why error) { s.mu.Lock(); s.ended = append(s.ended, why); s.mu.Unlock() }}
}

func (s *shop) open() *lineage.Lineage {
	s.t.Helper()
	l, err := lineage.Open(s.t.Context(), s.deps())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *shop) do(sql string) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *shop) text(sql string) (text string) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), sql).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func (s *shop) incarnation() string { return s.text(`select incarnation::text from shop`) }

// write writes something, and waits until a process has marked it.
func (s *shop) write(l *lineage.Lineage) {
	s.t.Helper()
	before := s.text(`select beat::text from shop`)
	s.do(`insert into goods (title) values ('T')`)
	sandboxtest.Until(s.t, "the shop has beaten", func() bool {
		l.Round(s.t.Context())
		return s.text(`select beat::text from shop`) != before
	})
}

// leave makes the processes of the shop long gone.
func (s *shop) leave() { s.rdb.Del(s.t.Context(), lineage.ProcessesKey) }

func (s *shop) lines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

func TestAShopThatHasLostNothingKeepsItsIncarnation(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	was := s.incarnation()
	s.write(s.open())
	s.rdb.Set(t.Context(), "ms:session:x", "1", 0)
	s.open()
	if s.incarnation() != was || s.lines() != "" || s.rdb.Exists(t.Context(), "ms:session:x").Val() != 1 {
		t.Errorf("the incarnation was %s and is %s; it said %q", was, s.incarnation(), s.lines())
	}
}

// An idle shop writes nothing, so a dump of it is whole for as long as nothing is written. A command beats whenever
// there is something, so one that does not beat has found nothing.
func TestAnIdleShopDoesNotBeat(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(s.open())
	command, err := lineage.Look(t.Context(), s.deps())
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "a round without a beat, between what other tests write", func() bool {
		before := s.text(`select beat::text from shop`)
		command.Mark(t.Context())
		return s.text(`select beat::text from shop`) == before
	})
}

// Of several processes that start at once, one draws; Redis is taken over, and no id is given twice.
func TestAPostgresThatHasGoneBackGetsOneNewIncarnation(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.do(`insert into users (phone) select '1380000' || lpad(n::text, 4, '0') from generate_series(1, 40) n`)
	was := s.incarnation()
	s.write(s.open())
	s.leave()
	ctx := t.Context()
	s.rdb.Set(ctx, "ms:session:x", "1", 0)
	s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: gate.JournalKey(1), Values: []string{"epoch", "1"}})
	s.rdb.Set(ctx, "other", "1", 0)
	// What a restore does: the rows and the sequences of before.
	s.do(`delete from users where id > 5; update shop set beat = 0; alter sequence users_id_seq restart with 6; alter sequence goods_id_seq restart with 1; delete from goods`)
	var starts sync.WaitGroup
	for i := range 3 {
		starts.Go(func() {
			if _, err := lineage.Open(ctx, s.deps()); err != nil {
				t.Error(err)
			}
			s.rdb.Set(ctx, fmt.Sprintf("ms:session:new%d", i), "1", 0)
		})
	}
	starts.Wait()
	if n := s.rdb.Exists(ctx, "ms:session:new0", "ms:session:new1", "ms:session:new2").Val(); n != 3 {
		t.Errorf("%d of 3 sessions of the new incarnation are left", n)
	}
	if s.incarnation() == was || s.text(`select former::text from shop`) != was {
		t.Errorf("the incarnation was %s and is %s", was, s.incarnation())
	}
	if n := strings.Count(s.lines(), "a new incarnation"); n != 1 {
		t.Errorf("%d incarnations were drawn:\n%s", n, s.lines())
	}
	if !strings.Contains(s.lines(), "with 1 journal entries") {
		t.Errorf("it said\n%s", s.lines())
	}
	if left := s.rdb.Exists(ctx, "ms:session:x", gate.JournalKey(1)).Val(); left != 0 || s.rdb.Exists(ctx, "other").Val() != 1 {
		t.Errorf("%d keys of the former incarnation are left, or one of another program is not", left)
	}
	s.do(`insert into users (phone) values ('13911110000'); insert into goods (title) values ('T')`)
	if got := s.text(`select (min(u.id) > 40 and min(g.id) > 1)::text from users u, goods g where phone = '13911110000'`); got != "true" {
		t.Error("an id was given twice")
	}
	s.mu.Lock()
	s.said = nil
	s.mu.Unlock()
	if s.open(); s.lines() != "" {
		t.Errorf("the next start said %q", s.lines())
	}
}

// The order that the last acknowledgement told of may be the only thing that another server lacks.
func TestAnOrderThatAnotherServerLacksIsNoticed(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool]bool{false: false, true: true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			s := newShop(t)
			s.do(`insert into goods (title) values ('T');
				insert into sales (goods_id, price, total, stock, state, starts_at, ends_at) values (1, 1, 9, 9, 'published', now(), now() + interval '1 hour')`)
			order := uuid.New()
			if !lost {
				s.do(`insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values ('` + order.String() + `', 1, 1, 't', 'T', 1, now())`)
			}
			was := s.incarnation()
			s.write(s.open())
			s.rdb.HSet(t.Context(), gate.TicketsKey(1), "0", "", "1", "O"+order.String(), "2", "Q1:2-3:x")
			s.rdb.HSet(t.Context(), "ms:{shop}:marks", "server", "another")
			s.leave()
			s.open()
			if got := s.incarnation() != was; got != want {
				t.Errorf("a new incarnation: %v, want %v; it said\n%s", got, want, s.lines())
			}
		})
	}
}

func TestAnotherShopIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(s.open())
	s.rdb.Set(t.Context(), "ms:session:x", "1", 0)
	s.do(`update shop set shop = gen_random_uuid()`)
	for name, start := range map[string]func(context.Context, lineage.Deps) (*lineage.Lineage, error){"a start": lineage.Open, "a command": lineage.Look} {
		if _, err := start(t.Context(), s.deps()); err == nil || !strings.HasPrefix(err.Error(), "--redis-url (REDIS_URL): this Redis is in use by another shop (") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.rdb.Exists(t.Context(), "ms:session:x").Val() != 1 {
		t.Error("a key was deleted")
	}
}

// A process of the incarnation before may still sell.
func TestWhileAProcessOfAnotherIncarnationLivesNoneTakesOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	l := s.open()
	s.write(l)
	s.rdb.ZAdd(t.Context(), lineage.ProcessesKey, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: l.Process()})
	s.rdb.Set(t.Context(), "ms:session:x", "1", 0)
	s.do(`update shop set beat = 0`)
	if _, err := lineage.Open(t.Context(), s.deps()); err == nil || !strings.Contains(err.Error(), "stop that process") {
		t.Errorf("it returned %v", err)
	}
	if s.rdb.Exists(t.Context(), "ms:session:x").Val() != 1 {
		t.Error("a key was deleted")
	}
	if _, err := lineage.Look(t.Context(), s.deps()); err == nil || !strings.Contains(err.Error(), "start the shop") {
		t.Errorf("a command: %v", err)
	}
	s.leave()
	s.open()
	if s.rdb.Exists(t.Context(), "ms:session:x").Val() != 0 {
		t.Error("the next start has deleted nothing")
	}
}

func TestAProcessThatMeetsAnotherIncarnationEnds(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(s *shop){
		"drawn by another process": func(s *shop) { s.do(`select new_incarnation(incarnation, incarnation, '{}') from shop`) },
		"a restore":                func(s *shop) { s.do(`update shop set beat = 0`) },
		"Redis is another's":       func(s *shop) { s.rdb.HSet(s.t.Context(), "ms:{shop}:marks", "incarnation", uuid.NewString()) },
		"Redis is of another shop": func(s *shop) { s.rdb.HSet(s.t.Context(), "ms:{shop}:marks", "shop", uuid.NewString()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			l := s.open()
			s.write(l)
			done := make(chan error, 1)
			meet(s)
			go func() { done <- l.Run(t.Context()) }()
			var err error
			select {
			case err = <-done:
			case <-time.After(sandboxtest.Hang):
			}
			if err == nil || !strings.HasSuffix(err.Error(), "; this process sells nothing more and ends") || len(s.ended) != 1 {
				t.Errorf("Run returned %v, and the stores were ended %d times", err, len(s.ended))
			}
		})
	}
}

// A new connection is compared before its first use.
func TestANewConnectionToAPostgresThatHasGoneBackIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	l := s.open()
	s.write(l)
	look := func() error {
		conn, err := s.db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		return l.Connected(t.Context(), conn.Conn())
	}
	if err := look(); err != nil {
		t.Error(err)
	}
	s.do(`update shop set beat = 0`)
	for range 2 {
		if err := look(); err == nil || !strings.Contains(err.Error(), "Postgres has gone back") {
			t.Errorf("it returned %v", err)
		}
	}
	if len(s.ended) != 1 || l.Ended() == nil {
		t.Errorf("the stores were ended %d times", len(s.ended))
	}
}

// A start that was killed between the gates' Redis and that of the sessions is repeated by the next one.
func TestEachRedisIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sessions := sandboxtest.Redis(t)
	deps := s.deps()
	deps.Redis = append(deps.Redis, lineage.Redis{Setting: "--session-redis-url (SESSION_REDIS_URL)", Client: sessions})
	open := func() {
		t.Helper()
		if _, err := lineage.Open(t.Context(), deps); err != nil {
			t.Fatal(err)
		}
	}
	open()
	s.do(`select new_incarnation(incarnation, incarnation, '{}') from shop`)
	s.leave()
	sessions.Del(t.Context(), lineage.ProcessesKey)
	s.open() // the first one alone
	drawn := s.incarnation()
	sessions.Set(t.Context(), "ms:session:x", "1", 0)
	s.rdb.Set(t.Context(), "ms:bans", "1", 0)
	if _, err := lineage.Look(t.Context(), deps); err == nil {
		t.Error("a command uses sessions of before")
	}
	open()
	if s.incarnation() != drawn || sessions.Exists(t.Context(), "ms:session:x").Val() != 0 || s.rdb.Exists(t.Context(), "ms:bans").Val() != 1 {
		t.Errorf("it said\n%s", s.lines())
	}
}

// A Redis of a former version has keys and no marks, and one that has lost its data has neither.
func TestARedisWithoutMarksIsMarked(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.rdb.Set(t.Context(), "ms:session:x", "1", 0)
	l := s.open()
	if !strings.Contains(s.lines(), "has no marks of a shop yet") || s.rdb.Exists(t.Context(), "ms:session:x").Val() != 1 {
		t.Errorf("it said %q", s.lines())
	}
	s.write(l)
	s.rdb.FlushDB(t.Context())
	l.Round(t.Context())
	if got, want := s.rdb.HGet(t.Context(), "ms:{shop}:marks", "beat").Val(), s.text(`select beat::text from shop`); got != want {
		t.Errorf("beat %s is marked, want %s", got, want)
	}
	s.rdb.FlushDB(t.Context())
	command, err := lineage.Look(t.Context(), s.deps())
	if err != nil {
		t.Fatal(err)
	}
	if command.Mark(t.Context()); s.rdb.Exists(t.Context(), "ms:{shop}:marks").Val() != 0 {
		t.Error("a command has marked a Redis that no process uses")
	}
}

// What a command has written is marked too: no process may run.
func TestWhatACommandHasWrittenIsMarked(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(s.open())
	s.leave()
	command, err := lineage.Look(t.Context(), s.deps())
	if err != nil {
		t.Fatal(err)
	}
	s.do(`insert into users (phone) values ('13800001111')`)
	sandboxtest.Until(t, "the user is marked", func() bool {
		command.Mark(t.Context())
		return s.rdb.HGet(t.Context(), "ms:{shop}:marks", "users").Val() == "1"
	})
	if n := s.rdb.ZCard(t.Context(), lineage.ProcessesKey).Val(); n != 0 {
		t.Errorf("%d processes are shown", n)
	}
}
