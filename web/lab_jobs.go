package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/boundary"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
)

const (
	labLimit   = 20 * time.Second // of a race and of an experiment, without its wait; a run has a limit of its own
	labRoom    = 40               // jobs that wait: a class
	labKept    = 60               // ended jobs whose results can still be read
	labKeptOwn = 10               // those of one caller

	// Bytes of JSON.
	labProgramResult = 64 << 10  // of what a program of a visitor has shown, see lab.Bounded
	labOwnResult     = 256 << 10 // of what the lab itself has shown, such as a recorded race
	labKeptBytes     = 8 << 20   // of all results together
)

// Lab does one job at a time: a run, a race or an experiment, in the order in which they were asked for.
// A job continues when its caller has gone, unless the caller waits for its result. Nothing starts
// before Run is called.
type Lab struct {
	log        *slog.Logger
	strategies []strategies.Info

	stores     lab.Stores
	runPlan    func(context.Context, lab.Stores, lab.Plan, func(lab.Progress)) ([]lab.Result, error)
	race       func(ctx context.Context, s lab.Stores, strategy string, seed uint64) (lab.Recording, error)
	experiment func(ctx context.Context, s lab.Stores, name string, seed uint64,
		report func(experiments.Progress)) (experiments.Result, error)
	judge    func(context.Context, lab.Stores, program.Program, []lab.Plan, func(lab.Progress)) ([]lab.Result, error)
	exercise func(ctx context.Context, s lab.Stores, e exercises.Exercise, p program.Program, seed uint64,
		report func(lab.Progress)) (exercises.Result, error)
	without func(ctx context.Context, s lab.Stores, without string) (experiments.WithoutResult, error)

	added  chan struct{} // has a token when a job was added
	mu     sync.Mutex
	jobs   []*labJob // ended ones first, then the one at work, then those that wait
	closed bool      // Run has ended
}

// labRun is the state of a job. Plan, Now and Results belong to a run, Trial to an experiment.
type labRun struct {
	State   string                `json:"state"` // idle, waiting, running, done or failed
	ID      string                `json:"run,omitempty"`
	Yours   bool                  `json:"yours,omitempty"` // the caller may stop it
	Ahead   int                   `json:"ahead,omitempty"` // jobs before it, while waiting
	Plan    *lab.Plan             `json:"plan,omitempty"`
	Now     *lab.Progress         `json:"now,omitempty"`   // while running
	Trial   *experiments.Progress `json:"trial,omitempty"` // while running
	Results []json.RawMessage     `json:"results"`
	Data    json.RawMessage       `json:"data,omitempty"` // of a race or an experiment that is done
	Cut     bool                  `json:"cut,omitempty"`  // the results are not whole, see lab.Bounded
	// The browser's seat in a class was taken away before its exercise was judged: the board does not show it.
	SeatLost bool   `json:"seat_lost,omitempty"`
	Code     string `json:"code,omitempty"` // of err
	Msg      string `json:"msg,omitempty"`
	err      error  // failed
}

// add adds the result of a run, in at most size bytes.
func (run *labRun) add(r lab.Result, size int) error {
	raw, cut, err := lab.Bounded(r, size)
	if err == nil {
		run.Results, run.Cut = append(run.Results, raw), run.Cut || cut
	}
	return err
}

// setData sets the outcome of another job, in at most size bytes.
func (run *labRun) setData(v any, size int) (err error) {
	run.Data, run.Cut, err = lab.Bounded(v, size)
	return err
}

// size returns the bytes of the results.
func (run *labRun) size() (n int) {
	for _, r := range run.Results {
		n += len(r)
	}
	return n + len(run.Data)
}

// labCaller is who asks the lab for something: a logged-in user, or a browser.
type labCaller struct {
	user    int64  // 0: not logged in
	browser string // "" for a user
	admin   bool
	from    netip.Addr // see clientNetwork: a browser without its cookie is a new one each time
	address string     // of the request, for the log of the staff
	key     uuid.UUID  // of the request; uuid.Nil: none
	noted   bool       // the job begins after its line in that log
}

// owns reports whether other is the same user or the same browser.
func (c labCaller) owns(other labCaller) bool {
	return c.user == other.user && c.browser == other.browser && (c.user != 0 || c.browser != "")
}

type labJob struct {
	labRun
	owner   labCaller
	line    labLine
	async   bool // the caller does not wait for the end
	do      func(ctx context.Context, change func(func(*labRun))) error
	stopped context.Context
	stop    context.CancelFunc
	ended   chan struct{}
}

// labLine is how far the line of a job in the log of the staff is.
type labLine int

const (
	lineWritten labLine = iota // or none is needed
	lineDue
	lineAsked
)

// NewLab returns an idle Lab on these stores.
func NewLab(stores lab.Stores, log *slog.Logger) *Lab {
	return &Lab{log: log, added: make(chan struct{}, 1), strategies: strategies.All(), stores: stores,
		runPlan: strategies.Run, race: strategies.Race,
		experiment: experiments.Run, judge: boundary.Judge, exercise: exercises.Judge, without: experiments.RunWithout}
}

// Run does the lab's jobs until ctx ends, and then stops the current one and those that wait.
func (l *Lab) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if job := l.next(); job != nil {
			l.work(ctx, job)
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.added:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, job := range l.jobs {
		if job.State == "waiting" {
			l.end(job, errLabStopped)
		}
	}
	return nil
}

// next returns the next job, which is then running; nil if none waits.
func (l *Lab) next() *labJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, job := range l.jobs {
		if job.State == "waiting" && job.line == lineWritten {
			job.State = "running"
			return job
		}
	}
	return nil
}

func (l *Lab) work(ctx context.Context, job *labJob) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(job.stopped, cancel)()
	err := job.do(ctx, func(change func(*labRun)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		change(&job.labRun)
	})
	if err = labError(err); err != nil && ctx.Err() != nil {
		err = errLabStopped
	}
	if err != nil && job.async && refusalOf(err) == nil {
		l.log.Error("a job of the lab failed", "id", job.ID, "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(job, err)
}

// end makes a job's end visible. The caller has locked l.
func (l *Lab) end(job *labJob, err error) {
	job.State, job.Now, job.Trial, job.err = "done", nil, nil, err
	if err != nil {
		job.State = "failed"
	}
	job.stop()
	close(job.ended)
	l.forget()
}

// forget drops ended jobs beyond labKept, labKeptOwn and labKeptBytes. Of a caller with too many the oldest goes; else
// the oldest of the address that has the most bytes, so that no stranger's results take the place of others. The caller
// has locked l.
func (l *Lab) forget() {
	for {
		kept, bytes, of := 0, 0, map[netip.Addr]int{}
		for _, job := range l.jobs {
			if !job.open() {
				size := job.size() + 1 // a small one counts, too
				kept, bytes, of[job.owner.from] = kept+1, bytes+size, of[job.owner.from]+size
			}
		}
		i := slices.IndexFunc(l.jobs, func(job *labJob) bool {
			own := 0
			for _, other := range l.jobs {
				if !other.open() && other.owner.owns(job.owner) {
					own++
				}
			}
			return !job.open() && own > labKeptOwn
		})
		if i < 0 && (kept > labKept || bytes > labKeptBytes) {
			i = slices.IndexFunc(l.jobs, func(job *labJob) bool {
				return !job.open() && of[job.owner.from] == slices.Max(slices.Collect(maps.Values(of)))
			})
		}
		if i < 0 {
			return
		}
		l.jobs = slices.Delete(l.jobs, i, i+1)
	}
}

// open reports whether a job waits or works.
func (j *labJob) open() bool { return j.State == "waiting" || j.State == "running" }

// add puts a job behind the others. If a request with the caller's key has added one before, whose answer was lost, add
// returns that job, which is the caller's then: the cookie may have been lost, too. It returns errLabBusy if there is
// no room, and errLabOwn or errLabAddress if there is none for this caller or address.
func (l *Lab) add(
	owner labCaller, async bool, view labRun, do func(context.Context, func(func(*labRun))) error,
) (*labJob, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.jobs, func(job *labJob) bool {
		return owner.key != uuid.Nil && job.owner.key == owner.key && job.owner.user == owner.user
	})
	if i >= 0 {
		l.jobs[i].owner = owner
		return l.jobs[i], nil
	}
	waiting, own, near := 0, 0, 0
	for _, job := range l.jobs {
		if job.State == "waiting" {
			waiting++
		}
		if job.open() && owner.owns(job.owner) {
			own++
		}
		if job.open() && owner.from == job.owner.from {
			near++
		}
	}
	full := waiting >= labRoom && !owner.admin // the teacher is not kept out by a class
	switch {
	case own >= labOwn:
		return nil, errLabOwn
	case full || l.closed:
		return nil, errLabBusy
	case near >= labAddress && !owner.admin:
		return nil, errLabAddress
	}
	job := &labJob{labRun: view, owner: owner, async: async, do: do, ended: make(chan struct{})}
	if owner.noted {
		job.line = lineDue
	}
	job.State, job.ID, job.Results = "waiting", uuid.NewString(), []json.RawMessage{}
	job.stopped, job.stop = context.WithCancel(context.Background())
	l.jobs = append(l.jobs, job)
	l.wake()
	return job, nil
}

// wake makes Run look for a job.
func (l *Lab) wake() {
	select {
	case l.added <- struct{}{}:
	default:
	}
}

// claimLine reports, to one caller, that a job needs its line.
func (l *Lab) claimLine(job *labJob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := job.line == lineDue
	if due {
		job.line = lineAsked
	}
	return due
}

// hasLine lets a job begin that has its line now. One that has none ends, and its key finds it no more.
func (l *Lab) hasLine(job *labJob, written bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if written {
		job.line = lineWritten
		l.wake()
		return
	}
	if job.open() {
		l.cancel(job)
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(other *labJob) bool { return other == job })
}

// addPlan puts a run behind the other jobs. It returns the errors of add.
func (l *Lab) addPlan(owner labCaller, plan lab.Plan) (*labJob, error) {
	return l.add(owner, true, labRun{Plan: &plan}, func(ctx context.Context, change func(func(*labRun))) error {
		var wrong error
		_, err := l.runPlan(ctx, l.stores, plan, func(now lab.Progress) {
			change(func(run *labRun) {
				run.Now = &now
				if now.Done != nil {
					wrong = cmp.Or(wrong, run.add(*now.Done, labOwnResult/8))
				}
			})
		})
		return cmp.Or(err, wrong)
	})
}

// showJob returns a job as the caller sees it, also after others have taken its place among the ended ones.
func (l *Lab) showJob(job *labJob, caller labCaller) labRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	view := job.labRun
	view.Yours = caller.admin || caller.owns(job.owner)
	if job.State == "waiting" {
		for _, other := range l.jobs {
			if other == job {
				break
			}
			if other.open() {
				view.Ahead++
			}
		}
	}
	return view
}

// show returns a job as the caller sees it; false if there is none with this id. Without an id it is the run that
// works, or else the last one.
func (l *Lab) show(id string, caller labCaller) (view labRun, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view = labRun{State: "idle", Results: []json.RawMessage{}}
	ahead := 0
	for _, job := range l.jobs {
		if job.ID == id || id == "" && job.Plan != nil && view.State != "running" &&
			(job.State != "waiting" || view.State == "idle") {
			view = job.labRun
			view.Yours = caller.admin || caller.owns(job.owner)
			if job.State == "waiting" {
				view.Ahead = ahead
			}
		}
		if job.open() {
			ahead++
		}
	}
	return view, id == "" || view.ID == id
}

// halt stops the caller's jobs. An administrator who has none stops the one that works. It reports whether there was
// one, and returns errForbidden if only others have jobs.
func (l *Lab) halt(caller labCaller) (stopped bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open, own []*labJob
	for _, job := range l.jobs {
		if job.open() {
			open = append(open, job)
			if caller.owns(job.owner) {
				own = append(own, job)
			}
		}
	}
	switch {
	case len(open) == 0:
		return false, nil
	case len(own) == 0 && !caller.admin:
		return false, errForbidden
	case len(own) == 0:
		own = open[:1]
	}
	for _, job := range own {
		l.cancel(job)
	}
	return true, nil
}

// cancel ends a job that waits, and stops one that works. The caller has locked l.
func (l *Lab) cancel(job *labJob) {
	if job.State == "waiting" {
		l.end(job, errLabStopped)
	}
	job.stop()
}

// wait waits for the end of a job. The job is stopped when ctx ends.
func (l *Lab) wait(ctx context.Context, job *labJob) error {
	select {
	case <-job.ended:
		return job.err
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel(job)
		return ctx.Err()
	}
}

// labError returns errLabNoRight for a missing right to create a schema, and other errors unchanged. A
// shop whose database role has only the rights that it needs has no lab.
func labError(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "42501" {
		return errLabNoRight
	}
	return err
}
