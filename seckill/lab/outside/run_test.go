package outside

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
)

// fakeShop stands for an outside shop. Its processes are in this one, and have only what their environment names.
type fakeShop struct {
	buy     func(ctx context.Context, p *fakeProcess, user int64) (bool, error)
	refuses error // of the start of a third process
	stopErr error // of the first one's end

	mu  sync.Mutex
	all []*fakeProcess
}

// fakeProcess is such a process.
type fakeProcess struct {
	shop   *fakeShop
	env    map[string]string
	db     *pgxpool.Pool
	rdb    *redis.Client
	life   context.Context
	end    context.CancelFunc
	killed bool

	mu       sync.Mutex
	promised []int64 // orders that are not written yet
}

func (s *fakeShop) start(ctx context.Context, env []string) (process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 2 && s.refuses != nil {
		return nil, s.refuses
	}
	p := &fakeProcess{shop: s, env: map[string]string{}}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		p.env[name] = value
	}
	cfg, err := pgxpool.ParseConfig(p.env["DATABASE_URL"] + "&pool_max_conns=" + p.env["DATABASE_CONNECTIONS"])
	if err != nil {
		return nil, err
	}
	at, err := redis.ParseURL(p.env["REDIS_URL"])
	if err != nil {
		return nil, err
	}
	p.life, p.end = context.WithCancel(context.WithoutCancel(ctx))
	if p.db, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	p.rdb = redis.NewClient(at)
	s.all = append(s.all, p)
	return p, p.rdb.SetNX(ctx, p.env["KEY_PREFIX"]+"a name of its own", 1, 0).Err()
}

func (p *fakeProcess) Buy(ctx context.Context, user int64) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	return p.shop.buy(ctx, p, user)
}

func (p *fakeProcess) Kill() {
	p.end()
	p.killed = true
	p.rdb.Close()
	p.db.Close()
}

// Stop writes the orders that the process has promised.
func (p *fakeProcess) Stop(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, user := range p.promised {
		_, insertErr := p.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		err = errors.Join(err, insertErr)
	}
	p.rdb.Close()
	p.db.Close()
	if p == p.shop.all[0] {
		err = errors.Join(err, p.shop.stopErr)
	}
	return err
}

// The ways to sell of the tests.
func naively(ctx context.Context, p *fakeProcess, user int64) (bool, error) {
	var stock int
	if err := p.db.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil || stock <= 0 {
		return false, err
	}
	if _, err := p.db.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	_, err := p.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}

func rightly(ctx context.Context, p *fakeProcess, user int64) (yes bool, err error) {
	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var left bool
		if err := tx.QueryRow(ctx, `select stock > 0 from item for update`).Scan(&left); err != nil {
			return err
		}
		if err = tx.QueryRow(ctx, `select exists (select from orders where user_id = $1)`, user).Scan(&yes); err != nil || yes || !left {
			return err
		}
		yes = true
		_, err := tx.Exec(ctx, `with taken as (update item set stock = stock - 1) insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}

// silently sells, and tells no buyer.
func silently(ctx context.Context, p *fakeProcess, user int64) (bool, error) {
	_, err := rightly(ctx, p, user)
	return false, err
}

// fromMemory promises a unit, and writes the order at its end.
func fromMemory(ctx context.Context, p *fakeProcess, user int64) (bool, error) {
	has, err := p.rdb.SIsMember(ctx, p.env["KEY_PREFIX"]+"users", user).Result()
	if err != nil || has {
		return has, err
	}
	if n, err := p.rdb.Incr(ctx, p.env["KEY_PREFIX"]+"sold").Result(); err != nil || n > 20 {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promised = append(p.promised, user)
	return true, p.rdb.SAdd(ctx, p.env["KEY_PREFIX"]+"users", user).Err()
}

// An outside shop meets the crowd of the strategies and is counted as they are. A kill reaches it, and another process
// comes in place of the killed one. Nothing of it is left.
func TestOutsideIsJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		shop   *fakeShop
		double int
		faults []string
		right  bool
		failed string
		error  string
	}{
		{name: "naive", shop: &fakeShop{buy: naively}, failed: lab.Oversold},
		{name: "always says no", shop: &fakeShop{buy: silently}},
		{name: "right", shop: &fakeShop{buy: rightly}, double: 60, faults: []string{lab.Kill}, right: true},
		{name: "writes at its end", shop: &fakeShop{buy: fromMemory}, right: true},
		{name: "loses its memory", shop: &fakeShop{buy: fromMemory}, faults: []string{lab.Kill}, failed: lab.Lost},
		{name: "is not replaced", shop: &fakeShop{buy: rightly, refuses: errors.New("no such class")}, faults: []string{lab.Kill}, error: "no process in place of the killed one: no such class"},
		{name: "ended by itself", shop: &fakeShop{buy: rightly, stopErr: errors.New("exit 1")}, error: "exit 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			labtest.ParallelRuns <- struct{}{}
			defer func() { <-labtest.ParallelRuns }()
			s := labtest.Stores(t)
			p := labtest.SmallPlan(1, "", c.faults...)
			p.Strategies, p.DoubleClicks = nil, c.double
			reports := 0
			r, err := run(t.Context(), s, p, c.shop.start, func(lab.Progress) { reports++ })
			if err != nil {
				t.Fatal(err)
			}
			if r.Right != c.right || c.failed != "" && labtest.Failures(r)[c.failed] == 0 || r.Error != c.error || r.Strategy != lab.Student || reports == 0 {
				t.Errorf("%d reports, %+v", reports, r)
			}
			started, killed := len(c.shop.all), 0
			for _, p := range c.shop.all {
				if p.killed {
					killed++
				}
			}
			if want := len(c.faults); killed != want || c.error == "" && started != 2+want {
				t.Errorf("%d processes, %d killed; want %d killed", started, killed, want)
			}
			labtest.NothingIsLeft(t, s)
			roleIsGone(t, s, c.shop.all[0].env["DATABASE_URL"])
		})
	}
}

// roleIsGone fails the test if the server still has the role of a run, whose schema has its name.
func roleIsGone(t *testing.T, s lab.Stores, databaseURL string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var left int
	err = db.QueryRow(t.Context(), `select count(*) from pg_roles where rolname = $1`, u.User.Username()).Scan(&left)
	if err != nil || left > 0 || !strings.HasPrefix(u.User.Username(), "lab_7") {
		t.Errorf("%d roles %s are left, %v", left, u.User.Username(), err)
	}
}

// The role of a run has rights in its schema only, and it has its own tables there.
func TestOutsideHasRightsInItsSchemaOnly(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	codes := map[string]string{}
	shop := &fakeShop{buy: func(ctx context.Context, p *fakeProcess, user int64) (bool, error) {
		for _, sql := range []string{`select stock from item`, `alter table orders add unit int`, `create table mine (id int)`,
			`select * from public.users`, `create table public.mine (id int)`, `create role other`, `create schema other`} {
			codes[sql] = ""
			if _, err := p.db.Exec(ctx, sql); err != nil {
				pg := new(pgconn.PgError)
				errors.As(err, &pg)
				codes[sql] = pg.Code
			}
		}
		return false, nil
	}}
	if _, err := run(t.Context(), s, lab.Plan{Buyers: 1, Stock: 1, Seconds: lab.MaxSeconds, Nodes: 1}, shop.start, nil); err != nil {
		t.Fatal(err)
	}
	for sql, code := range codes {
		if foreign := strings.Contains(sql, "public") || strings.Contains(sql, "other"); foreign != (code == "42501") || !foreign && code != "" {
			t.Errorf("%s: %q", sql, code)
		}
	}
	if len(codes) != 7 {
		t.Errorf("%d statements", len(codes))
	}
}

// A plan that cannot reach the shop, and a program that does not start, are errors; the latter leaves nothing behind.
func TestOutsideErrors(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	p := lab.Plan{Buyers: 10, Stock: 1, Seconds: lab.MaxSeconds}
	for _, fault := range []string{lab.RedisPause, lab.SlowPostgres} {
		p.Faults = []string{fault}
		if _, err := run(t.Context(), s, p, nil, nil); !errors.As(err, &lab.InvalidError{}) || !strings.Contains(err.Error(), "only kill does") {
			t.Errorf("%s: %v", fault, err)
		}
	}
	shop, p := &fakeShop{buy: rightly, refuses: errors.New("no such class")}, lab.Plan{Buyers: 10, Stock: 1, Seconds: lab.MaxSeconds, Nodes: 3}
	if _, err := run(t.Context(), s, p, shop.start, nil); !errors.Is(err, shop.refuses) {
		t.Error(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	shop = &fakeShop{buy: func(ctx context.Context, _ *fakeProcess, _ int64) (bool, error) {
		stop()
		<-ctx.Done()
		return false, ctx.Err()
	}}
	if _, err := run(stopped, s, p, shop.start, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	labtest.NothingIsLeft(t, s)
	roleIsGone(t, s, shop.all[0].env["DATABASE_URL"])
}

// The next run removes the role and the keys of a run whose process was killed.
func TestOutsideOfADeadRunIsRemoved(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	n, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
	if err != nil {
		t.Fatal(err)
	}
	at, err := n.OpenRole(t.Context(), s.DatabaseURL, 3)
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer orphan.Close(t.Context())
	if _, err := orphan.Exec(t.Context(), `begin; update item set stock = 1; lock table orders; create table own (id int)`); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Redis.Set(t.Context(), n.Key(fmt.Sprint("own", i)), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	labtest.Die(t, n, db)
	next, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	labtest.NothingIsLeft(t, s)
	roleIsGone(t, s, at)
}

// A process gets the address of a Redis, or of each server of a Cluster.
func TestTheAddressOfARedis(t *testing.T) {
	t.Parallel()
	at, err := redisURL(redis.NewClient(&redis.Options{Addr: "h:6380", Password: "p", DB: 3}))
	if err != nil || at != "redis://:p@h:6380/3" {
		t.Errorf("%s, %v", at, err)
	}
	if at, err = redisURL(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"b:1", "a:1"}})); err != nil || at != "redis://a:1,redis://b:1" {
		t.Errorf("%s, %v", at, err)
	}
	if at, err = redisURL(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})); err == nil {
		t.Error(at)
	}
}
