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
)

// setup says what a world is made of. The zero value is two shops on a Redis that syncs each second.
type setup struct {
	shops         int      // 2 if not said
	env           []string // of every shop
	points        string   // failpoints of the first shop, until it is started again
	pointsOfAll   bool     // they are every shop's
	fsync         string   // of Redis; everysec if not said
	postgres      []string // settings, as name=value
	sessionsApart bool     // sessions have a Redis of their own: what wipes the gate's logs nobody out
	startsIn      time.Duration
	payWithin     time.Duration // 0 for the shop's default
	clockAhead    bool          // the first shop's clock is five minutes ahead
	edits         []edit        // of the shop's source: a mutant
	sql           []string      // done to the database before anybody comes
}

// World is the shops and stores of one scenario, all its own.
type World struct {
	T     testing.TB
	DB    *Postgres
	Redis *Redis
	Shops []*Shop
	Sale  int64

	begins   time.Time // the sale
	sc       scenario
	dir      string
	binary   string
	sessions *Redis
	pool     *pgxpool.Pool // the harness's own, past the wires
	rdb      *redis.Client
	rng      *rand.Rand // of the goroutine that makes the world
	work     sync.WaitGroup

	mu         sync.Mutex
	violations []string
	said       map[string]int // violations by format
	strikes    []strike
	fired      map[string]bool
	counters   map[string]map[string]float64 // by life of a shop, by metric
}

// newWorld starts everything; it ends with the test.
func newWorld(t testing.TB, sc scenario, binary string, seed uint64) *World {
	t.Helper()
	w := &World{T: t, sc: sc, binary: binary, rng: rand.New(rand.NewPCG(seed, 0)), fired: map[string]bool{}, said: map[string]int{},
		counters: map[string]map[string]float64{}}
	var err error
	if w.dir, err = os.MkdirTemp(ground.dir, "world-"); err == nil {
		err = os.Chmod(w.dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *World) open() (err error) {
	if w.DB, err = newPostgres(filepath.Join(w.dir, "postgres"), w.sc.setup.postgres...); err != nil {
		return err
	}
	fsync := w.sc.setup.fsync
	if fsync == "" {
		fsync = "everysec"
	}
	if w.Redis, err = newRedis(filepath.Join(w.dir, "redis"), fsync); err != nil {
		return err
	}
	if w.sc.setup.sessionsApart {
		if w.sessions, err = newRedis(filepath.Join(w.dir, "sessions"), "no"); err != nil {
			return err
		}
	}
	cfg, err := pgxpool.ParseConfig(w.DB.URL())
	if err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "faults" // the shop's are miaosha
	cfg.ConnConfig.ConnectTimeout = time.Second
	if w.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return err
	}
	w.rdb = w.Redis.client()
	n := w.sc.setup.shops
	if n == 0 {
		n = 2
	}
	var shops errgroup.Group
	for i := range n {
		s, err := newShop(w, i)
		if err != nil {
			return err
		}
		if i == 0 && w.sc.setup.clockAhead {
			s.binary = build(w.T, overlay(w.T, "clock ahead "+w.sc.name, append(slices.Clone(w.sc.setup.edits), clockAhead)...))
		}
		w.Shops = append(w.Shops, s)
		points := ""
		if i == 0 || w.sc.setup.pointsOfAll {
			points = w.sc.setup.points
		}
		shops.Go(func() error { return s.Start(points) })
	}
	if err := shops.Wait(); err != nil {
		return err
	}
	out, err := w.command("sale", "--title", "T", "--price", "990", "--stock", strconv.Itoa(w.sc.crowd.units),
		"--start", w.startsIn(), "--end", "1h")
	if err != nil {
		return err
	}
	w.begins = time.Now().Add(w.sc.setup.startsIn)
	if w.Sale, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64); err != nil {
		return err
	}
	for _, s := range w.sc.setup.sql {
		if _, err := w.pool.Exec(context.Background(), s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (w *World) startsIn() string {
	if d := w.sc.setup.startsIn; d > 0 {
		return d.String()
	}
	return "now"
}

// env is what every shop's environment has, and that of commands.
func (w *World) env() []string {
	env := append([]string{"MIAOSHA_SECRET=" + secret, "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off"}, w.sc.setup.env...)
	if w.sessions != nil {
		env = append(env, "SESSION_REDIS_URL="+w.sessions.URL())
	}
	if d := w.sc.setup.payWithin; d > 0 {
		env = append(env, "MIAOSHA_PAY_WITHIN="+d.String())
	}
	return env
}

// command runs one of the shop's commands on the stores themselves, and gives what it prints.
func (w *World) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Env = append([]string{"DATABASE_URL=" + w.DB.URL(), "REDIS_URL=" + w.Redis.URL(), "HOME=" + w.dir}, w.env()...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("miaosha %s: %w: %s", args[0], err, errs.String())
	}
	return string(out), nil
}

func (w *World) salePath() string { return "/api/sales/" + strconv.FormatInt(w.Sale, 10) }

// anyShop gives the nth of the shops that are open, or of all if none is.
func (w *World) anyShop(n int) *Shop {
	open := make([]*Shop, 0, len(w.Shops))
	for _, s := range w.Shops {
		if s.isOpen() {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		open = w.Shops
	}
	return open[n%len(open)]
}

// close ends all that was started, and shows what the servers said where the test has failed.
func (w *World) close() {
	for _, s := range w.Shops {
		s.end(syscall.SIGKILL)
		s.ToRedis.Cut()
		s.ToPostgres.Cut()
	}
	w.work.Wait()
	if w.pool != nil {
		w.pool.Close()
	}
	if w.rdb != nil {
		w.rdb.Close()
	}
	for _, r := range []*Redis{w.Redis, w.sessions} {
		if r != nil {
			r.close()
		}
	}
	if w.DB != nil && w.DB.process != nil {
		w.DB.End(syscall.SIGQUIT)
	}
	if w.T.Failed() {
		for _, s := range w.Shops {
			w.T.Logf("shop %d said:\n%s", s.n, tail(s.Log.String(), 60))
		}
	}
	if err := os.RemoveAll(w.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.T.Error(err)
	}
}

// tail is the last lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
