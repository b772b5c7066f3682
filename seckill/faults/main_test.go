//go:build faults && linux

package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

// seed draws everything that the harness draws; MIAOSHA_SEED repeats a run as far as processes repeat.
var seed = func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("MIAOSHA_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}()

func TestMain(m *testing.M) {
	go starter()
	redis.SetLogger(silence{}) // it would write of every refused connection
	var err error
	if ground.dir, err = makeDir(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("MIAOSHA_SEED=%d\n", seed)
	code := m.Run()
	os.RemoveAll(ground.dir)
	os.Exit(code)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func makeDir() (string, error) {
	dir, err := os.MkdirTemp("", "miaosha-faults-")
	if err != nil {
		return "", err
	}
	// Ours, and so Postgres can run there though root can't run it.
	return dir, os.Chmod(dir, 0o711)
}

// scenario is one line of the matrix.
type scenario struct {
	name      string // the line of the matrix
	detail    string
	long      bool // not in the short run
	realRedis bool // it kills, stops or restarts the process: skipped on the embedded Redis
	mayLose   bool // Redis loses data: a ticket may vanish, and then asking again is safe
	gateless  bool // there is no gate to look at
	poison    bool // there are tickets that can't be settled
	alone     bool // its times count, so nothing else runs beside it
	settles   bool // goroutines and memory are looked at 10 s after the end
	setup     setup
	crowd     plan
	run       func(*World, *Crowd) // breaks things while the crowd buys; nil breaks nothing
	after     func(*World, *Crowd) // holds what only this one knows, at rest
}

// TestFaults runs the matrix.
func TestFaults(t *testing.T) {
	atOnce := min(2, int64(runtime.GOMAXPROCS(0)))
	slots := semaphore.NewWeighted(atOnce)
	t.Run("all", func(t *testing.T) {
		for i, sc := range scenarios() {
			t.Run(sc.name, func(t *testing.T) {
				if sc.long && testing.Short() {
					t.Skip("in the long run only")
				}
				t.Parallel()
				takes := int64(1)
				if sc.alone {
					takes = atOnce
				}
				if err := slots.Acquire(t.Context(), takes); err != nil {
					t.Fatal(err)
				}
				defer slots.Release(takes)
				for _, broken := range play(t, sc, build(t, ""), seed+uint64(i)) {
					t.Error(broken)
				}
			})
		}
	})
	whole := !testing.Short() && flag.Lookup("test.run").Value.String() == ""
	if whole && !t.Failed() {
		if zero := never(); len(zero) > 0 {
			t.Errorf("counters that never moved, so that the run proved nothing of them: %v", zero)
		}
		if err := writeTable(); err != nil {
			t.Error(err)
		}
	}
	printTable(t)
}

// play runs one scenario from end to end and reports what it broke.
func play(t testing.TB, sc scenario, binary string, seed uint64) []string {
	t.Helper()
	if sc.realRedis {
		needRealRedis(t)
	}
	began := time.Now()
	w := newWorld(t, sc, binary, seed)
	ready := time.Since(began)
	c, err := newCrowd(w, sc.crowd)
	if err != nil {
		t.Fatal(err)
	}
	level := w.level()
	o := &watcher{w: w, c: c, calm: make(chan struct{})}
	stop := make(chan struct{})
	c.looks.Go(func() { o.run(stop) })
	c.start()
	if sc.run != nil {
		sc.run(w, c)
	}
	back := w.recover()
	close(o.calm)
	c.all.Wait()
	tr := w.atRest(c)
	if all := time.Since(w.ready(c)); all > finalBound {
		w.Violate("I4: the last outcome was final only %v after the shop was ready again", all.Round(time.Millisecond))
	}
	close(c.stop)
	close(stop)
	c.looks.Wait()
	w.judge(c, o.samples)
	if o.audits == 0 {
		t.Error("safety was never looked at")
	}
	if sc.crowd.units < sc.crowd.buyers && sc.setup.payWithin == 0 && tr.stock > 0 {
		w.Violate("I5: %d units are left and somebody went without", tr.stock)
	}
	if sc.after != nil {
		sc.after(w, c)
	}
	if sc.settles {
		w.comesBack(c, level)
	}
	w.scrape()
	w.addUp(tr.refunds)
	addRow(w, c, back)
	t.Logf("ready in %v, all in %v, seed %d", ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), seed)
	return w.Broken()
}
