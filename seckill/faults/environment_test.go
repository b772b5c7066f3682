//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/sandbox/sandboxtest"
)

// setup describes an environment. The zero value is two shops on a Redis that syncs each second.
type setup struct {
	shops                int           // 0 for 2
	env                  []string      // of every shop
	failpoints           string        // MIAOSHA_FAILPOINTS of the first shop, until it is restarted
	failpointsEverywhere bool          // every shop has the failpoints
	fsync                string        // appendfsync of Redis; "" for everysec
	postgres             []string      // settings, as name=value
	nginx                bool          // the crowd speaks to nginx only: see behindNginx
	pgBouncer            bool          // between the shops, and their commands, and Postgres
	standby              bool          // Postgres has a synchronous standby, and the shops have both addresses
	asynchronous         bool          // its primary does not wait for it
	separateSessions     bool          // sessions have a Redis of their own, so FLUSHALL logs no user out
	cluster              bool          // Redis is a Cluster: see redisGroup. Sessions have a Redis of their own
	sentinel             bool          // Redis is a master and a replica, which sentinels promote: see redisGroup. Likewise
	ahead                bool          // the clock of the replica is redisAhead ahead
	oneProcessor         bool          // the last shop runs on one processor
	draft                bool          // the sale is a draft until it is published
	machines             bool          // no process can prove the death of another, as if each ran on a machine of its own
	startsIn             time.Duration // see openSale
	payWithin            time.Duration // 0 for the default of the shop
	clockAhead           bool          // the first shop's clock is five minutes ahead
	edits                []edit        // of the source of the shop: a mutant
	former               bool          // the first shop is of the former version; the scenario starts the others, of this version
	sql                  []string      // run in the database before the buyers arrive
}

// Environment has the shops and the stores of one scenario. No other scenario uses them.
type Environment struct {
	T       testing.TB
	DB      *Postgres
	Standby *Standby // nil without setup.standby
	Redis   *Redis   // nil where there is a group
	Shops   []*Shop
	Nginx   *Nginx // nil for none
	Sale    int64

	sc        scenario
	dir       string
	binary    string
	group     *redisGroup // in the place of Redis; nil where there is one
	sessions  *Redis
	pgBouncer *PgBouncer    // nil for none
	pool      *pgxpool.Pool // of the suite itself, past the proxies
	rdb       redis.UniversalClient
	rng       *rand.Rand // of the goroutine that creates the environment
	watches   sync.WaitGroup
	staff     []*administrator // of the scenarios that have some
	closing   time.Time        // when they began to close the sale while the crowd buys; zero if they did not

	mu       sync.Mutex
	found    verdict
	reported map[string]int // number of findings by format
	faults   []fault
	killed   map[string]bool
	counters map[string]map[string]float64 // by run of a shop, by metric
}

// newEnvironment starts everything. It is closed at the end of the test.
func newEnvironment(t testing.TB, sc scenario, binary string, seed uint64) *Environment {
	t.Helper()
	env := &Environment{T: t, sc: sc, binary: binary, rng: rand.New(rand.NewPCG(seed, 0)), killed: map[string]bool{}, reported: map[string]int{},
		counters: map[string]map[string]float64{}}
	var err error
	if env.dir, err = os.MkdirTemp(shared.dir, "environment-"); err == nil {
		err = os.Chmod(env.dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.close)
	if err := env.open(); err != nil {
		t.Fatal(err)
	}
	return env
}

func (env *Environment) open() (err error) {
	set := env.sc.setup.postgres
	if env.sc.setup.standby && !env.sc.setup.asynchronous {
		set = append(slices.Clone(set), "synchronous_standby_names="+standbyName)
	}
	if env.DB, err = newPostgres(filepath.Join(env.dir, "postgres"), set...); err != nil {
		return err
	}
	if env.sc.setup.standby {
		if env.Standby, err = newStandby(env.DB, filepath.Join(env.dir, "standby"), env.sc.setup.asynchronous); err != nil {
			return err
		}
	}
	fsync := env.sc.setup.fsync
	if fsync == "" {
		fsync = "everysec"
	}
	grouped := env.sc.setup.cluster || env.sc.setup.sentinel
	if grouped {
		err = env.openGroup(fsync)
	} else {
		env.Redis, err = newRedis(filepath.Join(env.dir, "redis"), fsync)
	}
	if err != nil {
		return err
	}
	if env.sc.setup.separateSessions || grouped {
		if env.sessions, err = newRedis(filepath.Join(env.dir, "sessions"), "no"); err != nil {
			return err
		}
	}
	cfg, err := pgxpool.ParseConfig(env.postgresURL(env.DB.Addr()))
	if err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "faults" // the shops have miaosha
	cfg.ConnConfig.ConnectTimeout = time.Second
	if env.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return err
	}
	if !grouped {
		env.rdb = env.Redis.client()
	}
	if env.sc.setup.pgBouncer {
		if env.pgBouncer, err = newPgBouncer(env); err != nil {
			return err
		}
	}
	if env.sc.setup.former {
		if err = env.useFormer(); err != nil {
			return err
		}
	}
	n := env.sc.setup.shops
	if n == 0 {
		n = 2
	}
	var shops errgroup.Group
	for i := range n {
		s, err := newShop(env, i)
		if err != nil {
			return err
		}
		if i == 0 && env.sc.setup.clockAhead {
			s.binary = build(env.T, overlay(env.T, "clock ahead "+env.sc.name, append(slices.Clone(env.sc.setup.edits), clockAhead)...))
		}
		env.Shops = append(env.Shops, s)
		if i > 0 && env.sc.setup.former {
			s.binary = build(env.T, "")
			continue
		}
		points := ""
		if i == 0 || env.sc.setup.failpointsEverywhere {
			points = env.sc.setup.failpoints
		}
		shops.Go(func() error { return s.Start(points) })
	}
	if err := shops.Wait(); err != nil {
		return err
	}
	if env.sc.setup.nginx {
		if err := env.openNginx(); err != nil {
			return err
		}
	}
	add := []string{"sale"}
	if env.sc.setup.draft {
		add = append(add, "draft")
	}
	out, err := env.command(append(add, "--title", "T", "--price", "990", "--stock", strconv.Itoa(env.sc.crowd.units),
		"--start", env.startsIn(), "--end", "1h")...)
	if err != nil {
		return err
	}
	if env.Sale, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64); err != nil {
		return err
	}
	for _, s := range env.sc.setup.sql {
		if _, err := env.pool.Exec(context.Background(), s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (env *Environment) startsIn() string {
	if d := env.sc.setup.startsIn; d > 0 {
		return d.String()
	}
	return "now"
}

// openSale lets a sale that would start later start in a second. So buyers have come before the start on any machine.
func (env *Environment) openSale() {
	if _, err := env.command("sale", "window", strconv.FormatInt(env.Sale, 10), "--start", "1s"); err != nil {
		env.T.Error(err)
	}
}

// variables returns the environment variables of every shop and of commands.
func (env *Environment) variables() []string {
	vars := append([]string{"MIAOSHA_SECRET=" + secret, "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off"}, env.sc.setup.env...)
	if env.sessions != nil {
		vars = append(vars, "SESSION_REDIS_URL="+env.sessions.URL())
	}
	if d := env.sc.setup.payWithin; d > 0 {
		vars = append(vars, "MIAOSHA_PAY_WITHIN="+d.String())
	}
	return vars
}

// command runs a command of the shop, past the proxies, and returns what it prints.
func (env *Environment) command(args ...string) (string, error) {
	out, _, err := env.commandSays(args...)
	return out, err
}

// commandSays is command that also returns what the command says on standard error.
func (env *Environment) commandSays(args ...string) (out, says string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, env.binary, args...)
	cmd.Env = append([]string{"DATABASE_URL=" + env.postgresURL(env.postgresAddr()), "REDIS_URL=" + env.redisURL(), "HOME=" + env.dir}, env.variables()...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	printed, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("miaosha %s: %w: %s", args[0], err, errs.String())
	}
	return string(printed), errs.String(), err
}

// redisURL returns the address of Redis, without a proxy.
func (env *Environment) redisURL() string {
	if env.group != nil {
		return env.group.url
	}
	return env.Redis.URL()
}

func (env *Environment) salePath() string { return "/api/sales/" + strconv.FormatInt(env.Sale, 10) }

// anyShop returns the nth open shop, or the nth of all shops if none is open.
func (env *Environment) anyShop(n int) *Shop {
	open := make([]*Shop, 0, len(env.Shops))
	for _, s := range env.Shops {
		if s.isOpen() {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		open = env.Shops
	}
	return open[n%len(open)]
}

// close stops everything, and shows the logs of the shops if the test has failed.
func (env *Environment) close() {
	if env.Nginx != nil {
		env.Nginx.Kill()
	}
	for _, s := range env.Shops {
		s.end(syscall.SIGKILL)
		if s.ToRedis != nil {
			s.ToRedis.Cut()
		}
		s.ToPostgres.Cut()
	}
	env.watches.Wait()
	if env.pool != nil {
		env.pool.Close()
	}
	if env.rdb != nil {
		env.rdb.Close()
	}
	for _, r := range []*Redis{env.Redis, env.sessions} {
		if r != nil {
			r.close()
		}
	}
	if env.group != nil {
		env.group.close()
	}
	if env.pgBouncer != nil {
		env.pgBouncer.Kill()
	}
	if env.DB != nil && env.DB.process != nil {
		env.DB.End(syscall.SIGQUIT)
	}
	if env.Standby != nil {
		env.Standby.close()
	}
	if env.T.Failed() {
		faults, _ := env.injected()
		for _, f := range faults {
			env.T.Logf("fault: %s, from %v to %v", f.name, f.begin, f.end)
		}
		for _, s := range env.Shops {
			env.T.Logf("log of shop %d:\n%s", s.n, tail(s.Log.String(), 60))
		}
		if env.Nginx != nil {
			env.T.Logf("log of nginx:\n%s", tail(env.Nginx.errors(), 40))
		}
	}
	if err := os.RemoveAll(env.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		env.T.Error(err)
	}
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
