package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// bench is a lab in a sandbox, whose work does as each test says.
type bench struct {
	t   *testing.T
	s   *Server
	lab *Lab
	log *bytes.Buffer
}

// sandboxFace is the face of a sandbox without a lab. Its caches clean up in goroutines without an end, so it is made outside
// of a bubble.
func sandboxFace(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{Sandbox: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openBench(t *testing.T, s *Server, work LabWork) bench {
	t.Helper()
	work.Ways, work.Strategies, work.Experiments = []string{"guard"}, []string{"guard"}, []string{"cache"}
	if work.Check == nil {
		work.Check = func(LabPlan) (field, reason string) { return "", "" }
	}
	log := &bytes.Buffer{}
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	s.Lab = NewLab(work, s.Log)
	return bench{t, s, s.Lab, log}
}

// works lets the lab run until the end of the test.
func (b bench) works() {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error)
	go func() { ended <- b.lab.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

type labAnswer struct {
	Status      int
	RetryAfter  string
	Code, Field string
	Msg         string
	Data        json.RawMessage
}

func (b bench) ask(ctx context.Context, method, path, body, language string) (a labAnswer) {
	b.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Language", language)
	w := httptest.NewRecorder()
	b.s.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		b.t.Errorf("%s %s: %q", method, path, w.Body)
	}
	a.Status, a.RetryAfter = w.Code, w.Header().Get("Retry-After")
	return a
}

func (b bench) post(path, body string) labAnswer {
	b.t.Helper()
	return b.ask(b.t.Context(), "POST", path, body, "en")
}

type labState struct {
	State, Run, Code, Msg string
	Plan                  LabPlan
	Now                   any
	Results               []any
}

func (b bench) state(language string) (s labState) {
	b.t.Helper()
	if err := json.Unmarshal(b.ask(b.t.Context(), "GET", "/api/lab/run", "", language).Data, &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

const aRun, aRace, aTry = `{"strategies":["guard"],"buyers":3,"faults":[]}`, `{"strategy":"guard","seed":7}`, `{"experiment":"cache","seed":7}`

// A run goes on by itself, shows how far it is, and keeps all else out until it ends or is stopped.
func TestLabDoesOneThingAtATime(t *testing.T) {
	s := sandboxFace(t)
	synctest.Test(t, func(t *testing.T) {
		next := make(chan bool)
		b := openBench(t, s, LabWork{Run: func(ctx context.Context, p LabPlan, now, result func(any)) error {
			now("half")
			result("first")
			select {
			case <-next:
				result("second")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, Try: func(context.Context, string, uint64) (any, error) { return "tried", nil }})
		if s := b.state("en"); s.State != "idle" || s.Run != "" || s.Results == nil || len(s.Results) != 0 {
			t.Errorf("before the first run: %+v", s)
		}
		b.works()
		for _, ends := range []string{"done", "failed"} {
			a := b.post("/api/lab/run", aRun)
			var begun struct{ Run string }
			if json.Unmarshal(a.Data, &begun); a.Status != 202 || begun.Run == "" {
				t.Fatalf("a run: %+v", a)
			}
			synctest.Wait()
			for path, body := range map[string]string{"run": aRun, "race": aRace, "try": aTry} {
				if a := b.post("/api/lab/"+path, body); a.Status != 503 || a.Code != "busy" || a.RetryAfter == "" {
					t.Errorf("%s during a run: %+v", path, a)
				}
			}
			s := b.state("en")
			if s.State != "running" || s.Run != begun.Run || s.Now != "half" || !slices.Equal(s.Results, []any{"first"}) || s.Plan.Buyers != 3 {
				t.Errorf("during a run: %+v", s)
			}
			want := []any{"first"}
			if ends == "done" {
				next <- true
				want = append(want, "second")
			} else if a := b.post("/api/lab/run/stop", ""); a.Status != 200 {
				t.Errorf("stop: %+v", a)
			}
			synctest.Wait()
			s = b.state("en")
			if s.State != ends || s.Run != begun.Run || s.Now != nil || !slices.Equal(s.Results, want) || (s.Code == "stopped") != (ends == "failed") {
				t.Errorf("after a run that is %s: %+v", ends, s)
			}
			if a := b.post("/api/lab/try", aTry); a.Status != 200 || string(a.Data) != `"tried"` {
				t.Errorf("an experiment after it: %+v", a)
			}
			if now := b.state("en"); now.Run != begun.Run || len(now.Results) != len(want) {
				t.Errorf("an experiment changed what the run gave: %+v", now)
			}
		}
		if b.log.Len() > 0 {
			t.Errorf("logged: %s", b.log)
		}
	})
}

// Who has been told of an end, of whatever kind, finds the lab free.
func TestLabIsFreeOnceItsEndIsTold(t *testing.T) {
	s := sandboxFace(t)
	b := openBench(t, s, LabWork{
		Run: func(context.Context, LabPlan, func(any), func(any)) error { return nil },
		Try: func(context.Context, string, uint64) (any, error) { return 1, nil },
	})
	b.works()
	for i := range 3000 {
		if a := b.post("/api/lab/try", aTry); a.Status != 200 {
			t.Fatalf("experiment %d after a run: %+v", i, a)
		}
		if a := b.post("/api/lab/run", aRun); a.Status != 202 {
			t.Fatalf("run %d after an experiment: %+v", i, a)
		}
		for b.state("en").State == "running" {
		}
	}
}

// What is stopped before it has begun is stopped all the same.
func TestLabStopsWhatHasNotBegun(t *testing.T) {
	s := sandboxFace(t)
	synctest.Test(t, func(t *testing.T) {
		b := openBench(t, s, LabWork{Run: func(ctx context.Context, _ LabPlan, _, _ func(any)) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		b.post("/api/lab/run", aRun)
		b.post("/api/lab/run/stop", "")
		b.works()
		synctest.Wait()
		if s := b.state("zh"); s.State != "failed" || s.Code != "stopped" || s.Msg != "实验已停止" {
			t.Errorf("%+v", s)
		}
	})
}

// What is done for a caller ends when he goes, or after its time, and the lab is free again.
func TestLabWaitsForNobodyWhoHasGone(t *testing.T) {
	s := sandboxFace(t)
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, name string, seed uint64) (any, error) {
			if seed != 7 {
				t.Errorf("%s with seed %d", name, seed)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b := openBench(t, s, LabWork{Race: hang, Try: func(context.Context, string, uint64) (any, error) { return 1, nil }})
		b.works()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		r := httptest.NewRequestWithContext(ctx, "POST", "/api/lab/race", strings.NewReader(aRace))
		r.Header.Set("Content-Type", "application/json")
		b.s.ServeHTTP(httptest.NewRecorder(), r)
		synctest.Wait()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it went on for %v", waited)
		}
		if a := b.post("/api/lab/try", aTry); a.Status != 200 {
			t.Errorf("the next: %+v", a)
		}
		if a := b.post("/api/lab/race", aRace); a.Status != 409 || a.Code != "too_long" || time.Since(began) != time.Second+labLimit {
			t.Errorf("one that hangs: %+v after %v", a, time.Since(began))
		}
		synctest.Wait()
		time.AfterFunc(time.Second, func() { b.post("/api/lab/run/stop", "") })
		if a := b.post("/api/lab/race", aRace); a.Status != 409 || a.Code != "stopped" {
			t.Errorf("one that is stopped: %+v", a)
		}
	})
}

// A shop that closes ends what the lab does.
func TestLabEndsWithTheShop(t *testing.T) {
	s := sandboxFace(t)
	synctest.Test(t, func(t *testing.T) {
		ended := false
		b := openBench(t, s, LabWork{Run: func(ctx context.Context, _ LabPlan, _, _ func(any)) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}})
		b.post("/api/lab/run", aRun)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := b.lab.Run(ctx); err != nil || !ended {
			t.Errorf("%v, ended %t", err, ended)
		}
	})
}

// A role that may make no schema has no lab, and is told so; a fault is told by its number, which the log has.
func TestLabFaultsAreTold(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		logged bool
	}{
		{&pgconn.PgError{Code: "42501", Message: "permission denied for database shop"}, 409, "lab_unavailable", false},
		{errors.New("a secret of the house"), 500, "internal", true},
	} {
		s := sandboxFace(t)
		synctest.Test(t, func(t *testing.T) {
			fail := func(context.Context, string, uint64) (any, error) { return nil, c.err }
			b := openBench(t, s, LabWork{Run: func(context.Context, LabPlan, func(any), func(any)) error { return c.err }, Race: fail, Try: fail})
			b.works()
			b.post("/api/lab/run", aRun)
			synctest.Wait()
			en, zh := b.state("en"), b.state("zh")
			if en.State != "failed" || en.Code != c.code || en.Msg == "" || en.Msg == zh.Msg || strings.Contains(en.Msg, c.err.Error()) {
				t.Errorf("%v: %+v", c.err, en)
			}
			if c.logged && (!strings.Contains(en.Msg, en.Run) || strings.Count(b.log.String(), en.Run) != 1) || !c.logged && b.log.Len() > 0 {
				t.Errorf("%v: told %+v, logged %s", c.err, en, b.log)
			}
			for path, body := range map[string]string{"race": aRace, "try": aTry} {
				if a := b.post("/api/lab/"+path, body); a.Status != c.status || a.Code != c.code {
					t.Errorf("%s, %v: %+v", path, c.err, a)
				}
			}
		})
	}
}

// What is wrong in a request is named, and nothing begins.
func TestLabNamesTheWrongField(t *testing.T) {
	b := openBench(t, sandboxFace(t), LabWork{Check: func(p LabPlan) (field, reason string) { return p.Faults[0], "because" }})
	b.works()
	for _, c := range []struct{ path, body, field string }{
		{"run", `{"strategies":["guard"],"faults":["seconds"]}`, "seconds"},
		{"run", `{"strategies":["guard"],"faults":[["x"]]}`, "faults"},
		{"run", `{"strategies":["guard"],"faults":{"x":1}}`, "faults"},
		{"run", `{"strategies":["a\u0000b"],"faults":["x"]}`, "strategies"},
		{"race", `{"strategy":"none"}`, "strategy"},
		{"try", `{"experiment":"none"}`, "experiment"},
		{"try", `{"experiment":"cache","seed":-1}`, "seed"},
	} {
		if a := b.post("/api/lab/"+c.path, c.body); a.Status != 400 || a.Field != c.field {
			t.Errorf("%s %s: %+v", c.path, c.body, a)
		}
	}
	if s := b.state("en"); s.State != "idle" {
		t.Errorf("%+v", s)
	}
}
