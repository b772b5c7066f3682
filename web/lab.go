package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/user"
)

// Refusals of the lab.
var (
	errLabBusy    = errors.New("web: the lab is in use")
	errLabNoRight = errors.New("web: the database's role may not make the lab's schema")
	errLabStopped = errors.New("web: the run was stopped")
	errLabTooLong = errors.New("web: the lab's work took too long")
)

// labLimit is the time that a race and an experiment have. A run has a limit of its own.
const labLimit = 20 * time.Second

// LabPlan is a run, as it is asked for.
type LabPlan struct {
	Strategies   []string `json:"strategies"`
	Buyers       int      `json:"buyers"`
	Stock        int      `json:"stock"`
	DoubleClicks int      `json:"double_clicks"` // percent of the buyers
	Faults       []string `json:"faults"`
	Seed         uint64   `json:"seed"`
	Seconds      int      `json:"seconds"` // limit of one strategy's run
}

// LabMax is the most that a LabPlan may ask for.
type LabMax struct {
	Buyers  int `json:"buyers"`
	Stock   int `json:"stock"`
	Seconds int `json:"seconds"`
}

// LabWork is what the lab can do. The face passes on what it tells, as JSON, and knows nothing of what it means.
type LabWork struct {
	Ways        any // a list
	Strategies  []string
	Experiments []string
	Faults      []string
	Max         LabMax

	Check func(LabPlan) (field, reason string)                                        // "" for a plan that can be
	Run   func(ctx context.Context, p LabPlan, now func(any), result func(any)) error // result is called for each strategy
	Race  func(ctx context.Context, strategy string, seed uint64) (recording any, err error)
	Try   func(ctx context.Context, experiment string, seed uint64) (tried any, err error)
}

// Lab does one thing at a time: a run, which goes on when its caller has gone, a race or an experiment. It is idle until its
// Run is called. What a run has given is kept until the next.
type Lab struct {
	LabWork
	log  *slog.Logger
	jobs chan func(context.Context) // has room for the one that there can be

	mu   sync.Mutex
	stop context.CancelFunc // ends what is going on; nil: nothing is
	run  labRun
}

// labRun is a run as it stands.
type labRun struct {
	id      string
	plan    LabPlan
	state   string // idle, running, done, failed
	now     any    // while running
	results []any
	err     error // failed
}

// NewLab gives a Lab for what work does.
func NewLab(work LabWork, log *slog.Logger) *Lab {
	return &Lab{LabWork: work, log: log, jobs: make(chan func(context.Context), 1), run: labRun{state: "idle"}}
}

// Run does what the lab is asked for until ctx ends, and then ends what is going on.
func (l *Lab) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case job := <-l.jobs:
			job(ctx)
		}
	}
}

// begin hands a job to Run, or answers errLabBusy if there is one. first is done before anybody can see the job, and what do
// gives in the same moment in which the lab is free again: who sees an end can begin the next.
func (l *Lab) begin(first func(), do func(context.Context) (last func())) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		return errLabBusy
	}
	stopped, stop := context.WithCancel(context.Background())
	l.stop = stop
	first()
	l.jobs <- func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		last := do(ctx)
		l.locked(func() {
			l.stop = nil
			last()
		})
		stop()
	}
	return nil
}

func (l *Lab) locked(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// start begins a run and gives its id.
func (l *Lab) start(p LabPlan) (id string, err error) {
	id = uuid.NewString()
	return id, l.begin(func() { l.run = labRun{id: id, plan: p, state: "running"} }, func(ctx context.Context) func() {
		err := l.LabWork.Run(ctx, p,
			func(now any) { l.locked(func() { l.run.now = now }) },
			func(result any) { l.locked(func() { l.run.results = append(l.run.results, result) }) })
		if err = labError(err); err != nil && ctx.Err() != nil {
			err = errLabStopped
		}
		if err != nil && refusalOf(err) == nil {
			l.log.Error("a run of the lab failed", "id", id, "err", err)
		}
		return func() {
			l.run.state, l.run.now, l.run.err = "done", nil, err
			if err != nil {
				l.run.state = "failed"
			}
		}
	})
}

// once does something short and waits for it; it ends when its caller goes.
func (l *Lab) once(ctx context.Context, do func(context.Context) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, labLimit)
	defer cancel()
	var given any
	var fault error
	done := make(chan struct{})
	err := l.begin(func() {}, func(job context.Context) func() {
		job, cancel := context.WithCancel(job)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		if given, fault = do(job); fault != nil && job.Err() != nil && ctx.Err() == nil {
			fault = errLabStopped
		}
		return func() { close(done) }
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-done:
		if fault == nil || ctx.Err() == nil {
			return given, labError(fault)
		}
	case <-ctx.Done(): // it ends in a moment, and then the lab is free
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, errLabTooLong
	}
	return nil, ctx.Err()
}

// labError gives the one fault that is nobody's its name: a shop whose role has no more rights than it needs has no lab.
func labError(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "42501" {
		return errLabNoRight
	}
	return err
}

// inLab lets a handler run for administrators, and in the sandbox for everybody.
func (s *Server) inLab(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	if s.Sandbox {
		return s.handle(h)
	}
	return s.as(func(w http.ResponseWriter, r *http.Request, who user.Session) error {
		if who.Role != user.RoleAdmin {
			return errForbidden
		}
		return h(w, r)
	})
}

func (s *Server) showLab(w http.ResponseWriter, r *http.Request) error {
	return ok(w, 200, struct {
		Ways        any      `json:"ways"`
		Experiments []string `json:"experiments"`
		Faults      []string `json:"faults"`
		Max         LabMax   `json:"max"`
	}{s.Lab.Ways, s.Lab.Experiments, s.Lab.Faults, s.Lab.Max})
}

func (s *Server) startLab(w http.ResponseWriter, r *http.Request) error {
	var in LabPlan
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	if field, reason := s.Lab.Check(in); field != "" {
		return fieldError{field, reason}
	}
	if in.Faults == nil {
		in.Faults = []string{}
	}
	id, err := s.Lab.start(in)
	if err != nil {
		return err
	}
	return ok(w, http.StatusAccepted, struct {
		Run string `json:"run"`
	}{id})
}

func (s *Server) showLabRun(w http.ResponseWriter, r *http.Request) error {
	var run labRun
	s.Lab.locked(func() { run = s.Lab.run; run.results = slices.Clone(run.results) })
	out := struct {
		State   string   `json:"state"`
		Run     string   `json:"run,omitempty"`
		Plan    *LabPlan `json:"plan,omitempty"`
		Now     any      `json:"now,omitempty"`
		Results []any    `json:"results"`
		Code    string   `json:"code,omitempty"`
		Msg     string   `json:"msg,omitempty"`
	}{State: run.state, Run: run.id, Now: run.now, Results: append([]any{}, run.results...)}
	if run.id != "" {
		out.Plan = &run.plan
	}
	if run.err != nil {
		out.Code, out.Msg = tell(r, run.err, run.id)
	}
	return ok(w, 200, out)
}

func (s *Server) stopLab(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(w, r); err != nil {
		return err
	}
	s.Lab.locked(func() {
		if s.Lab.stop != nil {
			s.Lab.stop()
		}
	})
	return ok(w, 200, nil)
}

func (s *Server) raceInLab(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Strategy string `json:"strategy"`
		Seed     uint64 `json:"seed"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	if !slices.Contains(s.Lab.Strategies, in.Strategy) {
		return fieldError{field: "strategy"}
	}
	return s.once(w, r, func(ctx context.Context) (any, error) { return s.Lab.Race(ctx, in.Strategy, in.Seed) })
}

func (s *Server) tryInLab(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Experiment string `json:"experiment"`
		Seed       uint64 `json:"seed"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	if !slices.Contains(s.Lab.Experiments, in.Experiment) {
		return fieldError{field: "experiment"}
	}
	return s.once(w, r, func(ctx context.Context) (any, error) { return s.Lab.Try(ctx, in.Experiment, in.Seed) })
}

func (s *Server) once(w http.ResponseWriter, r *http.Request, do func(context.Context) (any, error)) error {
	given, err := s.Lab.once(r.Context(), do)
	if err != nil {
		return err
	}
	return ok(w, 200, given)
}
