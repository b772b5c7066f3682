package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/lab/program"
	"miaosha/user"
)

// labServer is a sandbox's server with a lab, whose jobs are what each test says.
type labServer struct {
	t       *testing.T
	s       *Server
	lab     *Lab
	log     *bytes.Buffer
	browser *string // the cookie of the browser that asks, "" at first
	address string  // its own
}

// sandboxServer returns the server of a sandbox without a lab. Its caches clean up in goroutines
// without an end, so create it outside of a synctest bubble.
func sandboxServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{Sandbox: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serveLab adds a lab to the server, with the jobs of another lab.
func serveLab(t *testing.T, s *Server, jobs *Lab) labServer {
	t.Helper()
	log := &bytes.Buffer{}
	s.desk.log = slog.New(slog.NewTextHandler(log, nil))
	l := NewLab(lab.Stores{}, s.desk.log)
	l.runPlan, l.race, l.experiment = jobs.runPlan, jobs.race, jobs.experiment
	s.handlers.laboratory.lab.Lab = l
	return labServer{t, s, l, log, new(string), "192.0.2.1"}
}

// works runs the lab until the end of the test.
func (l labServer) works() {
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error)
	go func() { ended <- l.lab.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
}

type labReply struct {
	Status     int
	RetryAfter string
	Code       string
	Fields     []struct{ Field, Msg string }
	Msg        string
	Data       json.RawMessage
}

func (l labServer) request(ctx context.Context, method, path, body, language string) (a labReply) {
	l.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.RemoteAddr = l.address + ":1234"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Language", language)
	if *l.browser != "" {
		r.AddCookie(&http.Cookie{Name: "lab", Value: *l.browser})
	}
	w := httptest.NewRecorder()
	l.s.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		*l.browser = c.Value
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		l.t.Errorf("%s %s: %q", method, path, w.Body)
	}
	a.Status, a.RetryAfter = w.Code, w.Header().Get("Retry-After")
	return a
}

// another returns the lab as another browser sees it.
func (l labServer) another() labServer {
	l.browser = new(string)
	return l
}

func (l labServer) post(path, body string) labReply {
	l.t.Helper()
	return l.request(l.t.Context(), "POST", path, body, "en")
}

// state returns the state of the run, as any client reads it.
func (l labServer) state(language string) (s labState) {
	l.t.Helper()
	if err := json.Unmarshal(l.request(l.t.Context(), "GET", "/api/lab/run", "", language).Data, &s); err != nil {
		l.t.Fatal(err)
	}
	return s
}

type labState struct {
	State, Run, Code, Msg string
	Yours                 bool
	Ahead                 int
	Plan                  *lab.Plan
	Now                   *lab.Progress
	Results               []lab.Result
}

const (
	aRun  = `{"strategies":["guard"],"buyers":3,"stock":1,"seconds":1,"faults":[]}`
	aRace = `{"strategy":"guard","seed":7}`
	aTry  = `{"experiment":"cache","seed":7}`
)

// reported is how the lab reports a result.
func reported(r lab.Result) lab.Progress { return lab.Progress{Strategy: r.Strategy, Done: &r} }

// A run continues by itself and shows its progress until it ends or is stopped.
func TestLabRunsAPlan(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		half, first, second := lab.Progress{Strategy: "guard", Sold: 2}, lab.Result{Strategy: "guard", Sold: 4}, lab.Result{Strategy: "lua", Sold: 5}
		next := make(chan bool)
		l := serveLab(t, s, &Lab{runPlan: func(ctx context.Context, _ lab.Stores, _ lab.Plan, report func(lab.Progress)) ([]lab.Result, error) {
			report(reported(first))
			report(half)
			select {
			case <-next:
				report(reported(second))
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, experiment: func(_ context.Context, _ lab.Stores, name string, _ uint64, _ func(experiments.Progress)) (experiments.Result, error) {
			return experiments.Result{Experiment: name}, nil
		}})
		if diff := cmp.Diff(labState{State: "idle", Results: []lab.Result{}}, l.state("en")); diff != "" {
			t.Errorf("before the first run (-want +got): %s", diff)
		}
		l.works()
		for _, ends := range []string{"done", "failed"} {
			a := l.post("/api/lab/run", aRun)
			var begun struct{ Run string }
			if json.Unmarshal(a.Data, &begun); a.Status != 202 || begun.Run == "" {
				t.Fatalf("a run: %+v", a)
			}
			synctest.Wait()
			want := labState{State: "running", Run: begun.Run, Yours: true, Now: &half, Results: []lab.Result{first},
				Plan: &lab.Plan{Strategies: []string{"guard"}, Buyers: 3, Stock: 1, Seconds: 1, Faults: []string{}}}
			if diff := cmp.Diff(want, l.state("en")); diff != "" {
				t.Errorf("during a run (-want +got): %s", diff)
			}
			want.State, want.Now = ends, nil
			if ends == "done" {
				next <- true
				want.Results = append(want.Results, second)
			} else if a := l.post("/api/lab/run/stop", ""); a.Status != 200 {
				t.Errorf("stop: %+v", a)
			} else {
				want.Code = "stopped"
			}
			synctest.Wait()
			got := l.state("en")
			want.Msg = got.Msg
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after a run that is %s (-want +got): %s", ends, diff)
			}
			if a := l.post("/api/lab/try", aTry); a.Status != 200 || string(a.Data) != `{"experiment":"cache","rows":null}` {
				t.Errorf("an experiment after a run: %+v", a)
			}
			if diff := cmp.Diff(want, l.state("en")); diff != "" {
				t.Errorf("an experiment changed the results of the run (-want +got): %s", diff)
			}
		}
		if l.log.Len() > 0 {
			t.Errorf("logged: %s", l.log)
		}
	})
}

// The lab does one job at a time. The others wait in line and see their place; a caller who has too many, or comes when the line
// is full, is refused.
func TestLabJobsWaitInLine(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		next, working := make(chan bool), 0
		l := serveLab(t, s, &Lab{runPlan: func(ctx context.Context, _ lab.Stores, _ lab.Plan, _ func(lab.Progress)) ([]lab.Result, error) {
			if working++; working > 1 {
				t.Error("two runs at a time")
			}
			<-next
			working--
			return nil, nil
		}, experiment: func(_ context.Context, _ lab.Stores, name string, _ uint64, report func(experiments.Progress)) (experiments.Result, error) {
			report(experiments.Progress{Variants: []string{"a", "b"}})
			<-next
			return experiments.Result{Experiment: name}, nil
		}})
		l.works()
		job := func(l labServer, path, body string) (id string) {
			t.Helper()
			a := l.post(path, body)
			var begun struct{ Run string }
			if json.Unmarshal(a.Data, &begun); a.Status != 202 || begun.Run == "" {
				t.Fatalf("%s: %+v", path, a)
			}
			synctest.Wait()
			return begun.Run
		}
		of := func(l labServer, id string) string {
			t.Helper()
			return string(l.request(t.Context(), "GET", "/api/lab/run?run="+id, "", "en").Data)
		}
		other := l.another()
		first := job(l, "/api/lab/run", aRun)
		second := job(other, "/api/lab/try", `{"experiment":"cache","async":true}`)
		third := job(l, "/api/lab/run", aRun)
		if got, want := of(other, second), `{"state":"waiting","run":"`+second+`","yours":true,"ahead":1,"results":[]}`; got != want {
			t.Errorf("the second job: %s, want %s", got, want)
		}
		if got := of(other, third); !strings.HasPrefix(got, `{"state":"waiting","run":"`+third+`","ahead":2,"plan":`) {
			t.Errorf("the third job, for another caller: %s", got)
		}
		job(l, "/api/lab/run", aRun)
		if a := l.post("/api/lab/run", aRun); a.Status != 503 || a.Code != "busy" || a.RetryAfter == "" || a.Msg != "3 of your runs are already in the queue; start another when one has finished" {
			t.Errorf("a fourth job of one caller: %+v", a)
		}
		next <- true
		synctest.Wait()
		if got, want := of(other, second), `{"state":"running","run":"`+second+`","yours":true,"trial":{"ways":["a","b"],"rows":null,"figures":null,"elapsed_ms":0},"results":[]}`; got != want {
			t.Errorf("an experiment at work: %s, want %s", got, want)
		}
		next <- true
		synctest.Wait()
		if got, want := of(other, second), `{"state":"done","run":"`+second+`","yours":true,"results":[],"data":{"experiment":"cache","rows":null}}`; got != want {
			t.Errorf("an experiment that is done: %s, want %s", got, want)
		}
		if got := of(l, first); !strings.HasPrefix(got, `{"state":"done"`) {
			t.Errorf("the first job, after the next one began: %s", got)
		}
		if a := l.request(t.Context(), "GET", "/api/lab/run?run=none", "", "en"); a.Status != 404 {
			t.Errorf("a job that is not there: %+v", a)
		}
		for n := range labRoom - 1 {
			far := l.another()
			far.address = fmt.Sprint("192.0.2.", 10+n)
			job(far, "/api/lab/run", aRun)
			if n == labRoom-2 {
				if a := l.another().post("/api/lab/run", aRun); a.Status != 503 || a.Code != "busy" {
					t.Errorf("a job beyond the line: %+v", a)
				}
			}
		}
		for range labRoom + 1 {
			next <- true
			synctest.Wait()
		}
	})
}

// A class behind one address finds room, and a program there that keeps no cookie does not take the whole line: others come in.
func TestLabLeavesRoomForOtherAddresses(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{})
		const program = `{"language":"lua","source":"x"}`
		for i := range labAddress {
			if a := l.another().post("/api/lab/exercises/one-unit", program); a.Status != 202 {
				t.Fatalf("student %d of a class: %+v", i+1, a)
			}
		}
		a := l.another().post("/api/lab/run", aRun)
		if want := "32 runs from your network are already in the queue; start yours when one of them has finished"; a.Status != 429 || a.Code != "too_many_here" || a.Msg != want || a.RetryAfter == "" {
			t.Errorf("beyond the places of an address: %+v", a)
		}
		for range 60 {
			a = l.another().post("/api/lab/exercises/one-unit", program)
		}
		if a.Status != 429 || a.Code != "too_many" || a.RetryAfter == "" {
			t.Errorf("on and on against refusals: %+v", a)
		}
		far := l.another()
		far.address = "198.51.100.7"
		if a := far.post("/api/lab/exercises/one-unit", program); a.Status != 202 {
			t.Errorf("another address: %+v", a)
		}
		if _, err := s.handlers.laboratory.lab.addPlan(labCaller{user: 7, admin: true, from: netip.MustParseAddr(l.address)}, lab.Plan{}); err != nil {
			t.Errorf("the teacher behind the same address: %v", err)
		}
	})
}

// A run whose answer was lost is asked for again with its key: it waits in the line once, and is its owner's also
// without the cookie.
func TestLabRunOfAKey(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		serveLab(t, s, &Lab{runPlan: untilStopped}).works()
		first, key := labCaller{browser: "lost", key: uuid.New()}, labCaller{browser: "now"}
		key.key = first.key
		job, err := s.handlers.laboratory.lab.addPlan(first, lab.Plan{})
		again, e := s.handlers.laboratory.lab.addPlan(key, lab.Plan{})
		if err != nil || e != nil || job != again || !s.handlers.laboratory.lab.showJob(job, labCaller{browser: "now"}).Yours {
			t.Errorf("two jobs, or one of a browser that is gone: %v %v", err, e)
		}
		if other, err := s.handlers.laboratory.lab.addPlan(labCaller{browser: "now"}, lab.Plan{}); err != nil || other == job {
			t.Errorf("a request without a key finds it: %v", err)
		}
	})
}

// Only the one who has started a run stops it, and an administrator.
func TestLabRunIsStoppedByItsOwner(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{runPlan: untilStopped})
		l.works()
		if a := l.post("/api/lab/run/stop", ""); a.Status != 200 {
			t.Errorf("stop without a job: %+v", a)
		}
		l.post("/api/lab/run", aRun)
		synctest.Wait()
		other := l.another()
		if a := other.post("/api/lab/run/stop", ""); a.Status != 403 || a.Code != "forbidden" {
			t.Errorf("stop by a stranger: %+v", a)
		}
		if s := other.state("en"); s.State != "running" || s.Yours {
			t.Errorf("after that: %+v", s)
		}
		other.post("/api/lab/run", aRun) // it waits
		if a := other.post("/api/lab/run/stop", ""); a.Status != 200 || other.state("en").State != "running" {
			t.Errorf("stop of the stranger's own job: %+v", a)
		}
		if stopped, err := l.lab.halt(labCaller{user: 7, admin: true}); err != nil || !stopped {
			t.Errorf("stop by an administrator: %v, %v", stopped, err)
		}
		synctest.Wait()
		if s := l.state("en"); s.Code != "stopped" {
			t.Errorf("after that: %+v", s)
		}
		l.post("/api/lab/run", aRun)
		synctest.Wait()
		l.post("/api/lab/run/stop", "")
		synctest.Wait()
		if s := l.state("en"); s.Code != "stopped" {
			t.Errorf("after the owner's stop: %+v", s)
		}
	})
}

// The fields of the replies are what the pages read.
func TestLabRepliesKeepTheirFields(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{runPlan: func(ctx context.Context, _ lab.Stores, _ lab.Plan, report func(lab.Progress)) ([]lab.Result, error) {
			report(lab.Progress{Strategy: "guard", Left: 1, Sold: 2, Answered: 3, Buyers: 3, Elapsed: 4})
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		l.works()
		idle := l.request(t.Context(), "GET", "/api/lab/run", "", "en")
		if want := `{"state":"idle","results":[]}`; string(idle.Data) != want {
			t.Errorf("an idle lab: %s, want %s", idle.Data, want)
		}
		a := l.post("/api/lab/run", `{"strategies":["guard"],"buyers":3,"stock":1,"seconds":1}`)
		var begun struct{ Run string }
		if err := json.Unmarshal(a.Data, &begun); err != nil {
			t.Fatalf("a run: %+v", a)
		}
		synctest.Wait()
		running := l.request(t.Context(), "GET", "/api/lab/run", "", "en")
		want := `{"state":"running","run":"` + begun.Run + `","yours":true,` +
			`"plan":{"strategies":["guard"],"buyers":3,"stock":1,"double_clicks":0,"faults":[],"seed":0,"seconds":1},` +
			`"now":{"strategy":"guard","left":1,"sold":2,"oversold":0,"asked":3,"buyers":3,"elapsed_ms":4},"results":[]}`
		if string(running.Data) != want {
			t.Errorf("a run: %s, want %s", running.Data, want)
		}
		var bench map[string]json.RawMessage
		if err := json.Unmarshal(l.request(t.Context(), "GET", "/api/lab", "", "en").Data, &bench); err != nil {
			t.Fatal(err)
		}
		for field, prefix := range map[string]string{
			"ways":        `[{"name":"read-then-write","file":"strategy_read_then_write.go","source":"package strategies\n`,
			"experiments": `["address","limits","late-payment","cache","cache-consistency","confirm","hot","load","batch-size","retries","little","fair","hold","failover","backup"]`,
			"faults":      `["kill","redis-pause","slow-postgres"]`,
			"max":         `{"buyers":5000,"stock":1000,"seconds":30}`,
		} {
			if !strings.HasPrefix(string(bench[field]), prefix) {
				t.Errorf("%s: %.200s, want %s", field, bench[field], prefix)
			}
		}
		l.post("/api/lab/run/stop", "")
		synctest.Wait()
	})
}

// A client that sees the end of any job finds the lab free.
func TestLabIsFreeOnceItsEndIsVisible(t *testing.T) {
	l := serveLab(t, sandboxServer(t), &Lab{
		runPlan: func(context.Context, lab.Stores, lab.Plan, func(lab.Progress)) ([]lab.Result, error) { return nil, nil },
		experiment: func(context.Context, lab.Stores, string, uint64, func(experiments.Progress)) (experiments.Result, error) {
			return experiments.Result{}, nil
		},
	})
	l.s.desk.limits.bucket(labReads).most = user.Limit{} // off: no browser asks so often
	l.works()
	for i := range 3000 {
		if a := l.post("/api/lab/try", aTry); a.Status != 200 {
			t.Fatalf("experiment %d after a run: %+v", i, a)
		}
		if a := l.post("/api/lab/run", aRun); a.Status != 202 {
			t.Fatalf("run %d after an experiment: %+v", i, a)
		}
		for l.state("en").State == "running" {
		}
	}
}

// untilStopped is a run without an end of its own.
func untilStopped(ctx context.Context, _ lab.Stores, _ lab.Plan, _ func(lab.Progress)) ([]lab.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A job that is stopped before it begins is stopped all the same.
func TestLabStopsAJobThatHasNotBegun(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{runPlan: untilStopped})
		l.post("/api/lab/run", aRun)
		l.post("/api/lab/run/stop", "")
		l.works()
		synctest.Wait()
		s := l.state("zh")
		if s.State != "failed" || s.Code != "stopped" {
			t.Errorf("%+v", s)
		}
		if s.Msg != "实验已停止" {
			t.Errorf("message %q", s.Msg)
		}
	})
}

// A race and an experiment end when their caller goes, or after labLimit, and the lab is free again.
func TestLabEndsAJobWhoseCallerHasGone(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{race: func(ctx context.Context, _ lab.Stores, strategy string, seed uint64) (lab.Recording, error) {
			if strategy != "guard" || seed != 7 {
				t.Errorf("%s with seed %d", strategy, seed)
			}
			<-ctx.Done()
			return lab.Recording{}, ctx.Err()
		}, experiment: func(context.Context, lab.Stores, string, uint64, func(experiments.Progress)) (experiments.Result, error) {
			return experiments.Result{}, nil
		}})
		l.works()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		r := httptest.NewRequestWithContext(ctx, "POST", "/api/lab/race", strings.NewReader(aRace))
		r.Header.Set("Content-Type", "application/json")
		l.s.ServeHTTP(httptest.NewRecorder(), r)
		synctest.Wait()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("a race without a caller went on for %v", waited)
		}
		if a := l.post("/api/lab/try", aTry); a.Status != 200 {
			t.Errorf("the next job: %+v", a)
		}
		if a := l.post("/api/lab/race", aRace); a.Status != 409 || a.Code != "too_long" {
			t.Errorf("a race that hangs: %+v", a)
		}
		if took := time.Since(began); took != time.Second+labLimit {
			t.Errorf("a race that hangs ended after %v", took)
		}
		synctest.Wait()
		time.AfterFunc(time.Second, func() { l.post("/api/lab/run/stop", "") })
		if a := l.post("/api/lab/race", aRace); a.Status != 409 || a.Code != "stopped" {
			t.Errorf("a race that is stopped: %+v", a)
		}
	})
}

// A shop that closes ends the lab's job.
func TestLabEndsWithTheShop(t *testing.T) {
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		ended := false
		l := serveLab(t, s, &Lab{runPlan: func(ctx context.Context, s lab.Stores, p lab.Plan, report func(lab.Progress)) ([]lab.Result, error) {
			_, err := untilStopped(ctx, s, p, report)
			ended = true
			return nil, err
		}})
		l.post("/api/lab/run", aRun)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := l.lab.Run(ctx); err != nil || !ended {
			t.Errorf("%v, ended %t", err, ended)
		}
	})
}

// A role without the right to create a schema has no lab, and the reply says so. Any other fault is
// reported by its number, and the log has both.
func TestLabReportsFaults(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		logged bool
	}{
		{&pgconn.PgError{Code: "42501", Message: "permission denied for database shop"}, 409, "lab_unavailable", false},
		{errors.New("a secret of the server"), 500, "internal", true},
	} {
		s := sandboxServer(t)
		synctest.Test(t, func(t *testing.T) {
			l := serveLab(t, s, &Lab{
				runPlan: func(context.Context, lab.Stores, lab.Plan, func(lab.Progress)) ([]lab.Result, error) {
					return nil, c.err
				},
				race: func(context.Context, lab.Stores, string, uint64) (lab.Recording, error) {
					return lab.Recording{}, c.err
				},
				experiment: func(context.Context, lab.Stores, string, uint64, func(experiments.Progress)) (experiments.Result, error) {
					return experiments.Result{}, c.err
				},
			})
			l.works()
			l.post("/api/lab/run", aRun)
			synctest.Wait()
			en, zh := l.state("en"), l.state("zh")
			if en.State != "failed" || en.Code != c.code {
				t.Errorf("%v: %+v", c.err, en)
			}
			if en.Msg == "" || en.Msg == zh.Msg {
				t.Errorf("%v: the messages are %q and %q", c.err, en.Msg, zh.Msg)
			}
			if strings.Contains(en.Msg, c.err.Error()) {
				t.Errorf("%v: the message %q has the error's text", c.err, en.Msg)
			}
			if c.logged && !strings.Contains(en.Msg, en.Run) {
				t.Errorf("%v: the message %q has no number", c.err, en.Msg)
			}
			if c.logged && strings.Count(l.log.String(), en.Run) != 1 {
				t.Errorf("%v: the number is not logged once: %s", c.err, l.log)
			}
			if !c.logged && l.log.Len() > 0 {
				t.Errorf("%v: logged %s", c.err, l.log)
			}
			for path, body := range map[string]string{"race": aRace, "try": aTry} {
				if a := l.post("/api/lab/"+path, body); a.Status != c.status || a.Code != c.code {
					t.Errorf("%s, %v: %+v", path, c.err, a)
				}
			}
		})
	}
}

// The reply to a wrong request names the field, and no job begins.
func TestLabNamesTheWrongField(t *testing.T) {
	l := serveLab(t, sandboxServer(t), &Lab{})
	l.works()
	for _, c := range []struct{ path, body, field string }{
		{"run", `{"strategies":["guard"],"buyers":3,"stock":1,"seconds":31}`, "seconds"},
		{"run", `{"strategies":["guard"],"buyers":3,"stock":1,"seconds":1,"faults":["flood"]}`, "faults"},
		{"run", `{"strategies":["guard"],"faults":[["x"]]}`, "faults"},
		{"run", `{"strategies":["guard"],"faults":{"x":1}}`, "faults"},
		{"run", `{"strategies":["a\u0000b"],"faults":["x"]}`, "strategies"},
		{"run", `{"strategies":[],"buyers":3,"stock":1,"seconds":1}`, "strategies"},
		{"run", `{"strategies":["guard"],"buyers":3,"stock":1,"seconds":1,"nodes":1}`, "nodes"},
		{"mine", `{"language":"lua","source":"x","plan":{"buyers":3,"stock":1,"seconds":1,"nodes":9}}`, "nodes"},
		{"mine", `{"language":"lua","source":"x","plan":{"buyers":3,"stock":1,"seconds":1,"faults":["flood"]}}`, "faults"},
		{"mine", `{"language":"lua","source":"x","plan":{"strategies":["guard"],"buyers":3,"stock":1,"seconds":1}}`, "strategies"},
		{"mine", `{"language":"lua","source":"x","plan":{"buyers":{"x":1}}}`, "buyers"},
		{"mine", `{"language":"lua","source":"x","plan":7}`, "plan"},
		{"mine", `{"language":"lua","source":"x"}`, "plan"},
		{"mine", `{"language":"php","source":"x","plan":{"buyers":3,"stock":1,"seconds":1}}`, "language"},
		{"mine", `{"language":"lua","source":" ","plan":{"buyers":3,"stock":1,"seconds":1}}`, "source"},
		{"exercises/one-unit", `{"language":"lua","source":"x","plan":{"buyers":3}}`, "plan"},
		{"exercises/one-unit", `{"language":"lua","source":""}`, "source"},
		{"race", `{"strategy":"none"}`, "strategy"},
		{"try", `{"experiment":"none"}`, "experiment"},
		{"try", `{"experiment":"cache","seed":-1}`, "seed"},
		{"without", `{"without":"luck"}`, "without"},
	} {
		if a := l.post("/api/lab/"+c.path, c.body); a.Status != 400 || len(a.Fields) == 0 || a.Fields[0].Field != c.field {
			t.Errorf("%s %s: %+v", c.path, c.body, a)
		}
	}
	if s := l.state("en"); s.State != "idle" {
		t.Errorf("%+v", s)
	}
	for source, want := range map[string]string{"": "请先写程序", strings.Repeat("x", program.MaxSource+1): "程序最多 64 KB"} {
		a := l.request(t.Context(), "POST", "/api/lab/exercises/one-unit", `{"language":"lua","source":"`+source+`"}`, "zh")
		if a.Status != 400 || len(a.Fields) != 1 || a.Fields[0].Msg != want {
			t.Errorf("a source of %d bytes: %+v, want %q", len(source), a, want)
		}
	}
	long := strings.Repeat("-- 12\\n", 9000) // 63 KB of a source, as JSON
	if a := l.post("/api/lab/exercises/one-unit", `{"language":"php","source":"`+long+`"}`); a.Status != 400 {
		t.Errorf("a long program: %+v", a)
	}
	if a := l.post("/api/lab/mine", `{"language":"lua","source":"`+long+long+long+`"}`); a.Status != 413 {
		t.Errorf("a program that is too long: %+v", a)
	}
}
