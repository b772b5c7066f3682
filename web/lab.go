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

	"miaosha/seckill/lab"
	"miaosha/user"
)

// Refusals of the lab.
var (
	errLabBusy    = errors.New("the lab is in use")
	errLabNoRight = errors.New("the database's role may not create the lab's schema")
	errLabStopped = errors.New("the run was stopped")
	errLabTooLong = errors.New("the lab's job took too long")
)

// labLimit is the time limit of a race and of an experiment. A run has a limit of its own.
const labLimit = 20 * time.Second

// Lab does one job at a time: a run, a race or an experiment. A run continues when its caller has
// gone, and its results are kept until the next run. Nothing starts before Run is called.
type Lab struct {
	log        *slog.Logger
	jobs       chan func(context.Context) // has room for the one job
	strategies []lab.StrategyInfo

	stores     lab.Stores
	runPlan    func(context.Context, lab.Stores, lab.Plan, func(lab.Progress)) ([]lab.Result, error)
	race       func(ctx context.Context, s lab.Stores, strategy string, seed uint64) (lab.Recording, error)
	experiment func(ctx context.Context, s lab.Stores, name string, seed uint64) (lab.ExperimentResult, error)

	mu   sync.Mutex
	stop context.CancelFunc // ends the current job; nil if there is none
	run  labRun
}

// labRun is the state of a run.
type labRun struct {
	State   string        `json:"state"` // idle, running, done or failed
	ID      string        `json:"run,omitempty"`
	Plan    *lab.Plan     `json:"plan,omitempty"`
	Now     *lab.Progress `json:"now,omitempty"` // while running
	Results []lab.Result  `json:"results"`
	Code    string        `json:"code,omitempty"` // of err
	Msg     string        `json:"msg,omitempty"`
	err     error         // failed
}

// NewLab returns an idle Lab on these stores.
func NewLab(stores lab.Stores, log *slog.Logger) *Lab {
	return &Lab{log: log, jobs: make(chan func(context.Context), 1), strategies: lab.Strategies(), stores: stores,
		runPlan: lab.Run, race: lab.Race, experiment: lab.RunExperiment, run: labRun{State: "idle", Results: []lab.Result{}}}
}

// Run does the lab's jobs until ctx ends, and then stops the current one.
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

// begin hands a job to Run, or returns errLabBusy if there is one. It calls first before the job is
// visible. It calls the function that do returns in the moment in which the lab becomes free, so that
// a caller who sees the end of a job can begin the next.
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

// start begins a run and returns its id.
func (l *Lab) start(p lab.Plan) (id string, err error) {
	id = uuid.NewString()
	begun := labRun{State: "running", ID: id, Plan: &p, Results: []lab.Result{}}
	return id, l.begin(func() { l.run = begun }, func(ctx context.Context) func() {
		_, err := l.runPlan(ctx, l.stores, p, func(now lab.Progress) {
			l.locked(func() {
				l.run.Now = &now
				if now.Done != nil {
					l.run.Results = append(l.run.Results, *now.Done)
				}
			})
		})
		if err = labError(err); err != nil && ctx.Err() != nil {
			err = errLabStopped
		}
		if err != nil && refusalOf(err) == nil {
			l.log.Error("a run of the lab failed", "id", id, "err", err)
		}
		return func() {
			l.run.State, l.run.Now, l.run.err = "done", nil, err
			if err != nil {
				l.run.State = "failed"
			}
		}
	})
}

// wait begins a short job and waits for it. The job ends when ctx ends, and after labLimit.
func (l *Lab) wait(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, labLimit)
	defer cancel()
	var jobErr error
	done := make(chan struct{})
	err := l.begin(func() {}, func(job context.Context) func() {
		job, cancel := context.WithCancel(job)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		if jobErr = do(job); jobErr != nil && job.Err() != nil && ctx.Err() == nil {
			jobErr = errLabStopped
		}
		return func() { close(done) }
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		if jobErr == nil || ctx.Err() == nil {
			return labError(jobErr)
		}
	case <-ctx.Done(): // the job ends in a moment, and then the lab is free
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errLabTooLong
	}
	return ctx.Err()
}

// labError returns errLabNoRight for a missing right to create a schema, and other errors unchanged. A
// shop whose database role has only the rights that it needs has no lab.
func labError(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "42501" {
		return errLabNoRight
	}
	return err
}

// inLab allows a handler to administrators, and in the sandbox to all.
func (s *Server) inLab(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	if s.Sandbox {
		return s.handle(h)
	}
	return s.loggedIn(func(w http.ResponseWriter, r *http.Request, who user.Session) error {
		if who.Role != user.RoleAdmin {
			return errForbidden
		}
		return h(w, r)
	})
}

func (s *Server) showLab(w http.ResponseWriter, r *http.Request) error {
	type bounds struct {
		Buyers  int `json:"buyers"`
		Stock   int `json:"stock"`
		Seconds int `json:"seconds"`
	}
	all, err := s.prepared.lab.get(struct{}{}, func(*encoded) bool { return true }, func(*encoded) (*encoded, error) {
		b, err := encode(struct {
			Strategies  []lab.StrategyInfo `json:"ways"`
			Experiments []string           `json:"experiments"`
			Faults      []string           `json:"faults"`
			Max         bounds             `json:"max"`
		}{s.Lab.strategies, lab.Experiments(), lab.Faults(), bounds{lab.MaxBuyers, lab.MaxStock, lab.MaxSeconds}})
		if err != nil {
			return nil, err
		}
		return s.prepared.compressor.compress(b)
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"] = ownCache, varyEncoding
	all.send(w, r, jsonType)
	return nil
}

func (s *Server) startLab(w http.ResponseWriter, r *http.Request) error {
	var plan lab.Plan
	if err := body(w, r, &plan, false); err != nil {
		return err
	}
	err := plan.Validate()
	if len(plan.Strategies) == 0 {
		err = errors.Join(fieldError{"strategies", "required"}, err)
	}
	if err != nil {
		return err
	}
	if plan.Faults == nil {
		plan.Faults = []string{}
	}
	id, err := s.Lab.start(plan)
	if err != nil {
		return err
	}
	return ok(w, http.StatusAccepted, struct {
		Run string `json:"run"`
	}{id})
}

func (s *Server) showLabRun(w http.ResponseWriter, r *http.Request) error {
	var run labRun
	s.Lab.locked(func() { run = s.Lab.run })
	if run.err != nil {
		run.Code, run.Msg = codeAndMsg(r, run.err, run.ID)
	}
	return ok(w, 200, run)
}

func (s *Server) stopLab(w http.ResponseWriter, r *http.Request) error {
	if err := refuseBody(w, r); err != nil {
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
	if !slices.ContainsFunc(s.Lab.strategies, func(info lab.StrategyInfo) bool { return info.Name == in.Strategy }) {
		return fieldError{"strategy", "value"}
	}
	var recording lab.Recording
	err := s.Lab.wait(r.Context(), func(ctx context.Context) (err error) {
		recording, err = s.Lab.race(ctx, s.Lab.stores, in.Strategy, in.Seed)
		return err
	})
	if err != nil {
		return err
	}
	return ok(w, 200, recording)
}

func (s *Server) tryInLab(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Experiment string `json:"experiment"`
		Seed       uint64 `json:"seed"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	if !slices.Contains(lab.Experiments(), in.Experiment) {
		return fieldError{"experiment", "value"}
	}
	var result lab.ExperimentResult
	err := s.Lab.wait(r.Context(), func(ctx context.Context) (err error) {
		result, err = s.Lab.experiment(ctx, s.Lab.stores, in.Experiment, in.Seed)
		return err
	})
	if err != nil {
		return err
	}
	return ok(w, 200, result)
}
