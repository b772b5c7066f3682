package seckill_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/captcha"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/seckill/trace"
)

// startTraced is start for an Engine whose steps are traced. The Witness of its process does not run yet.
func (s *shop) startTraced(change func(*seckill.Config, *seckill.Deps)) (*process, *trace.Trace, *trace.Witness) {
	s.Helper()
	steps, secret := trace.New(), s.secret()
	e := s.start(func(cfg *seckill.Config, d *seckill.Deps) {
		if d.Trace = steps; change != nil {
			change(cfg, d)
		}
		secret = d.Secret
	})
	return e, steps, trace.NewWitness(steps, e.Shared(), secret, slog.New(slog.NewTextHandler(s.log, nil)))
}

// answers lets a process answer questions until the test ends, or stop is called.
func (s *shop) answers(w *trace.Witness) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var answering sync.WaitGroup
	answering.Go(func() { w.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); answering.Wait() })
	s.Cleanup(stop)
	return stop
}

// awaitProcesses waits until so many processes have shown themselves.
func (s *shop) awaitProcesses(g *gate.Gate, n int) {
	s.Helper()
	sandboxtest.Until(s, "the processes show themselves", func() bool {
		seen, _, err := g.Processes(s.Context(), time.Now().Add(-time.Hour))
		return err == nil && len(seen) == n
	})
}

// Of one purchase, each step is remembered in its order, with a time between the two around it.
func TestAPurchaseIsWitnessed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e, steps, witness := s.startTraced(nil)
	_, _, idle := s.startTraced(nil)
	s.awaitGate()
	stop := s.answers(witness)
	s.answers(idle)
	g := gate.New(s.rdb, "test", time.Second)
	s.awaitProcesses(g, 2)

	sums := captcha.New(captcha.Config{Kind: "math", Answers: true}, goods.NewCache(s.sales), steps, e.Shared())
	began := time.Now()
	_, answer, err := sums.Draw(t.Context(), s.sale, 7, "token")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Address(t.Context(), s.sale, 7, "token", sums.Answer(s.sale, 7, "token", answer)); err != nil {
		t.Fatal(err)
	}
	b, err := e.Buy(t.Context(), s.sale, 7)
	if err != nil {
		t.Fatal(err)
	}
	s.awaitFinal(e, 7)
	var w trace.Witnessed
	sandboxtest.Until(t, "the batch is told", func() bool {
		w, err = trace.Ask(t.Context(), g, trace.Question{Ticket: b.Ticket, Sale: s.sale, User: 7}, began)
		return err == nil && len(w.Steps) > 0 && w.Steps[len(w.Steps)-1].Name == "told"
	})
	var names []string
	last := began
	for _, step := range w.Steps {
		names = append(names, step.Name)
		if step.At.Before(last) || step.At.After(time.Now()) || step.Process == "" || step.TookMS < 0 {
			t.Errorf("%+v is not between the steps around it", step)
		}
		last = step.At
	}
	want := []string{"sum_drawn", "sum_solved", "address", "click", "batch", "granted", "journaled", "queued", "settled", "acknowledged", "told"}
	if !slices.Equal(names, want) || w.Sale != s.sale || len(w.Missing) != 0 {
		t.Errorf("sale %d, missing %v, steps %v, want %v", w.Sale, w.Missing, names, want)
	}

	stop()
	sandboxtest.Until(t, "the other process answers", func() bool {
		w, err = trace.Ask(t.Context(), g, trace.Question{Ticket: b.Ticket, Sale: s.sale, User: 7}, began)
		return err == nil && len(w.Missing) < 2
	})
	if len(w.Steps) != 0 || len(w.Missing) != 1 || w.Missing[0].LastSeen.Before(w.Missing[0].Started) {
		t.Errorf("of a process that has ended: %+v", w)
	}
	if w, err = trace.Ask(t.Context(), g, trace.Question{Ticket: b.Ticket}, time.Now().Add(time.Hour)); err != nil || len(w.Missing) != 0 {
		t.Errorf("of processes that were not seen since: %+v, %v", w, err)
	}
	sandboxtest.Until(t, "no question is left", func() bool { return s.rdb.Exists(t.Context(), "ms:asks").Val() == 0 })
}

// 40 clicks ride in few batches. A process that claims the ticket of another one says so.
func TestABatchOfManyIsWitnessed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	s.reclaimAfter = time.Hour
	e, _, witness := s.startTraced(nil)
	s.awaitGate()
	s.answers(witness)
	g := gate.New(s.rdb, "test", time.Second)
	s.awaitProcesses(g, 1)
	s.runRush(40, e)
	left, err := seckill.Reserve(t.Context(), s.rdb, "a dead process", s.sale, 99)
	if err != nil {
		t.Fatal(err)
	}
	s.reclaimAll(e)
	var ticket string
	if err := s.db.QueryRow(t.Context(), `select ticket from orders where user_id = 17`).Scan(&ticket); err != nil {
		t.Fatal(err)
	}
	var w trace.Witnessed
	var detail map[string]map[string]any
	sandboxtest.Until(t, "the batch is told", func() bool { // a moment after the COMMIT
		if w, err = trace.Ask(t.Context(), g, trace.Question{Ticket: ticket}, time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		detail = map[string]map[string]any{}
		for _, step := range w.Steps {
			detail[step.Name] = step.Detail
		}
		return detail["told"] != nil
	})
	clicks, _ := detail["batch"]["clicks"].(float64)
	granted, _ := detail["granted"]["granted"].(float64)
	settled, _ := detail["settled"]["tickets"].(float64)
	if clicks < 1 || granted < 1 || granted > clicks || settled < granted || settled > 40 || detail["settled"]["ordered"] != settled {
		t.Errorf("%v clicks, %v granted, %v settled: %+v", clicks, granted, settled, w.Steps)
	}
	if _, told := detail["sum_drawn"]; told {
		t.Error("a sum is told, although the question names no user")
	}
	sandboxtest.Until(t, "the ticket is claimed and settled", func() bool {
		w, err = trace.Ask(t.Context(), g, trace.Question{Ticket: left}, time.Now().Add(-time.Minute))
		return err == nil && len(w.Steps) >= 3
	})
	if w.Steps[0].Name != "claimed" || w.Steps[1].Name != "settled" {
		t.Errorf("the steps of a claimed ticket: %+v", w.Steps)
	}
}

// A process whose secret no living process shares is not let in, and names one that lives. One that has left, or died, keeps
// no one out.
func TestAProcessWithAnotherSecretIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	withSecret := func(text string) *trace.Witness {
		_, _, w := s.startTraced(func(_ *seckill.Config, d *seckill.Deps) { d.Secret = []byte(strings.Repeat(text, 32)) })
		return w
	}
	first, same, other := withSecret("a"), withSecret("a"), withSecret("b")
	for name, w := range map[string]*trace.Witness{"the first": first, "one with the same secret": same} {
		if err := w.Join(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := other.Join(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "--secret (MIAOSHA_SECRET): the process ") || strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), "bbb") {
		t.Errorf("one with another secret: %v", err)
	}
	if err := withSecret("a").Join(t.Context()); err != nil {
		t.Errorf("beside one that was refused: %v", err)
	}
	shown := s.rdb.ZRange(t.Context(), "ms:secrets", 0, -1).Val()
	if text := strings.Join(shown, " "); len(shown) != 3 || strings.Contains(text, "aaa") || strings.Contains(text, "bbb") {
		t.Errorf("shown are %v, want those of three processes, without their secrets", shown)
	}
	// Those of the past are not asked.
	for _, member := range shown {
		s.rdb.ZAdd(t.Context(), "ms:secrets", redis.Z{Score: float64(time.Now().Add(-time.Minute).UnixMilli()), Member: member})
	}
	if err := other.Join(t.Context()); err != nil {
		t.Errorf("beside processes that have died: %v", err)
	}
	stop := s.answers(other)
	sandboxtest.Until(t, "the process shows itself", func() bool {
		return s.rdb.ZCard(t.Context(), "ms:processes").Val() > 0
	})
	stop()
	if left := s.rdb.ZRange(t.Context(), "ms:secrets", 0, -1).Val(); len(left) != 3 {
		t.Errorf("after it has left, %v are shown, want the three of before", left)
	}
}
