package seckill_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// witness lets a process answer questions until the test ends, or stop is called.
func (s *shop) witness(e *process) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var answering sync.WaitGroup
	answering.Go(func() { e.Witness(ctx) })
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
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Captcha, cfg.CaptchaAnswers = "math", true })
	idle := s.start(nil)
	s.awaitGate()
	stop := s.witness(e)
	s.witness(idle)
	g := gate.New(s.rdb, "test", time.Second)
	s.awaitProcesses(g, 2)

	began := time.Now()
	_, answer, err := e.Captcha(t.Context(), s.sale, 7, "token")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Path(t.Context(), s.sale, 7, "token", answer); err != nil {
		t.Fatal(err)
	}
	b, err := e.Buy(t.Context(), s.sale, 7)
	if err != nil {
		t.Fatal(err)
	}
	s.awaitFinal(e, 7)
	var w seckill.Witnessed
	sandboxtest.Until(t, "the batch is told", func() bool {
		w, err = seckill.Ask(t.Context(), g, seckill.Question{Ticket: b.Ticket, Sale: s.sale, User: 7}, began)
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
		w, err = seckill.Ask(t.Context(), g, seckill.Question{Ticket: b.Ticket, Sale: s.sale, User: 7}, began)
		return err == nil && len(w.Missing) < 2
	})
	if len(w.Steps) != 0 || len(w.Missing) != 1 || w.Missing[0].LastSeen.Before(w.Missing[0].Started) {
		t.Errorf("of a process that has ended: %+v", w)
	}
	if w, err = seckill.Ask(t.Context(), g, seckill.Question{Ticket: b.Ticket}, time.Now().Add(time.Hour)); err != nil || len(w.Missing) != 0 {
		t.Errorf("of processes that were not seen since: %+v, %v", w, err)
	}
	sandboxtest.Until(t, "no question is left", func() bool { return s.rdb.Exists(t.Context(), "ms:asks").Val() == 0 })
}

// 40 clicks ride in few batches. A process that claims the ticket of another one says so.
func TestABatchOfManyIsWitnessed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	s.reclaimAfter = time.Hour
	e := s.start(nil)
	s.awaitGate()
	s.witness(e)
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
	var w seckill.Witnessed
	var detail map[string]map[string]any
	sandboxtest.Until(t, "the batch is told", func() bool { // a moment after the COMMIT
		if w, err = seckill.Ask(t.Context(), g, seckill.Question{Ticket: ticket}, time.Now().Add(-time.Minute)); err != nil {
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
		w, err = seckill.Ask(t.Context(), g, seckill.Question{Ticket: left}, time.Now().Add(-time.Minute))
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
	withSecret := func(text string) *process {
		return s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Secret = []byte(strings.Repeat(text, 32)) })
	}
	first, same, other := withSecret("a"), withSecret("a"), withSecret("b")
	for name, e := range map[string]*process{"the first": first, "one with the same secret": same} {
		if err := e.Join(t.Context()); err != nil {
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
	stop := s.witness(other)
	sandboxtest.Until(t, "the process shows itself", func() bool {
		return s.rdb.ZCard(t.Context(), "ms:processes").Val() > 0
	})
	stop()
	if left := s.rdb.ZRange(t.Context(), "ms:secrets", 0, -1).Val(); len(left) != 3 {
		t.Errorf("after it has left, %v are shown, want the three of before", left)
	}
}

// Processes with several secrets each are one shop if every two share one.
func TestProcessesThatShareOneOfTheirSecretsAreOneShop(t *testing.T) {
	t.Parallel()
	g, now := gate.New(sandboxtest.Redis(t), "probe", time.Second), time.Now()
	for name, fingerprints := range map[string][]string{"old": {"1"}, "both": {"1", "2"}} {
		if _, err := g.ShowSecrets(t.Context(), name, fingerprints, now, now); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := g.ShowSecrets(t.Context(), "new", []string{"2"}, now, now)
	if want := map[string][]string{"old": {"1"}, "both": {"1", "2"}, "new": {"2"}}; err != nil || !maps.EqualFunc(shown, want, slices.Equal) {
		t.Errorf("%v, %v; want %v", shown, err, want)
	}
}
