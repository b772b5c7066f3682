package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/lab/strategies"
	"miaosha/user"
)

type labHandler = func(http.ResponseWriter, *http.Request, labCaller) error

// laboratory is the lab: its strategies, its experiments, and the programs of students.
type laboratory struct {
	desk       *desk
	lab        *notedLab
	classes    *classes
	sandbox    bool
	compressor *compressor
	answers    responseCache[string, encoded] // what the lab has, by kind; it never changes
}

// notedLab is a lab of which the log of the staff has what administrators ask for.
type notedLab struct {
	*Lab
	admin *admin.Store
	log   *slog.Logger
}

const labQueue = "before the body; then the lab does one job at a time"

func (s *laboratory) rows() []row {
	inLab := s.inLab()
	const results = "the first before all else, and one more for each 4 KB of the answer"
	return []row{
		route(GET, "/api/lab", inLab, ahead(labReads), answerLimit, s.showLab),
		route(GET, "/api/lab/source", inLab, ahead(labReads), answerLimit, s.showLabSource),
		route(GET, "/api/lab/run", inLab, at(results, labReads), answerLimit, s.showLabRun),
		route(POST, "/api/lab/run", inLab, at(labQueue, labRuns), answerLimit, s.startLab),
		route(POST, "/api/lab/run/stop", inLab, at(labQueue, labReads), answerLimit, s.stopLab),
		route(POST, "/api/lab/race", inLab, at(labQueue, labRuns), ownTime, s.raceInLab),
		route(POST, "/api/lab/try", inLab, at(labQueue, labRuns), ownTime, s.tryInLab),
		route(POST, "/api/lab/without", inLab, at(labQueue, labRuns), ownTime, s.leaveOutInLab),
	}
}

// inLab are administrators, and in the sandbox all.
func (s *laboratory) inLab() audience[labHandler] {
	return audience[labHandler]{"lab", func(d *desk, l ruleBuckets, h labHandler) openHandler {
		behind := func(w http.ResponseWriter, r *http.Request, caller labCaller) (err error) {
			if err := d.allow(l, r, caller.user); err != nil {
				return err
			}
			if caller.key, err = readKey(r); err != nil {
				return err
			}
			return h(w, r, caller)
		}
		if s.sandbox {
			return func(w http.ResponseWriter, r *http.Request) error {
				caller, err := s.labVisitor(r)
				if err != nil {
					return err
				}
				return behind(w, r, caller)
			}
		}
		return d.loggedIn(func(w http.ResponseWriter, r *http.Request, who user.Session) error {
			if who.Role != user.RoleAdmin {
				return errForbidden
			}
			return behind(w, r, labCaller{user: who.UserID, admin: true, address: d.clientIP(r)})
		})
	}}
}

// labVisitor returns who asks the lab of a sandbox. A visitor without a session is known by a cookie, so that no other
// one can stop the visitor's runs.
func (s *laboratory) labVisitor(r *http.Request) (labCaller, error) {
	s.classes.attend(s.desk.secret(r, seatCookie), time.Now())
	if token := s.desk.token(r); token != "" {
		who, err := s.desk.session(r, token)
		if err == nil {
			return labCaller{user: who.UserID, admin: who.Role == user.RoleAdmin, from: s.desk.clientNetwork(r),
				address: s.desk.clientIP(r)}, nil
		}
		if err == errOtherUser {
			return labCaller{}, err
		}
	}
	return labCaller{from: s.desk.clientNetwork(r), browser: s.desk.secret(r, "lab")}, nil
}

// addJob adds a job for a caller. What an administrator asks the lab for is a line in the log of the staff, once for
// each job: it has its place in the lab before the line, and begins after it.
func (l *notedLab) addJob(
	ctx context.Context, caller labCaller, action, subject string, after any, add func(labCaller) (*labJob, error),
) (job *labJob, err error) {
	caller.noted = caller.admin
	job, err = add(caller)
	if err != nil || !l.claimLine(job) {
		return job, err
	}
	err = l.admin.Note(ctx, admin.By{UserID: caller.user, From: caller.address}, action, subject, after)
	l.hasLine(job, err == nil)
	return job, err
}

// noteDone writes the line of what an administrator has ended or restricted. That is done already and needs no
// Postgres, which may be what ails the shop, so the line waits for it noteLimit at most, and goes to the log of the
// process if it cannot be written.
func (l *notedLab) noteDone(ctx context.Context, by admin.By, action, subject string, after any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if err := l.admin.Note(ctx, by, action, subject, after); err != nil {
		l.log.Warn("the log of the staff may lack a line", "by", by.UserID, "origin", by.From, "action", action,
			"subject", subject, "after", after, "err", err)
	}
}

const noteLimit = time.Second

// known returns the caller of a new job, by a new cookie if need be.
func (s *laboratory) known(w http.ResponseWriter, r *http.Request, caller labCaller) labCaller {
	if caller.user == 0 && caller.browser == "" {
		caller.browser = rand.Text()
		http.SetCookie(w, &http.Cookie{Name: s.desk.cookieName(r, "lab"), Value: caller.browser, Path: "/",
			HttpOnly: true, Secure: s.desk.secure(r), SameSite: http.SameSiteStrictMode})
	}
	return caller
}

func (s *laboratory) showLab(w http.ResponseWriter, r *http.Request, _ labCaller) error {
	type bounds struct {
		Buyers  int `json:"buyers"`
		Stock   int `json:"stock"`
		Seconds int `json:"seconds"`
	}
	return s.prepareLab(w, r, "lab", struct {
		Strategies  []strategies.Info `json:"ways"`
		Experiments []string          `json:"experiments"`
		Defences    []string          `json:"defences"`
		Faults      []string          `json:"faults"`
		Max         bounds            `json:"max"`
	}{s.lab.strategies, experiments.Names(), experiments.Defences(), lab.Faults(), bounds{lab.MaxBuyers, lab.MaxStock,
		lab.MaxSeconds}})
}

// prepareLab answers with what the lab has of one kind, which never changes: it is encoded once, and sent once to each
// browser.
func (s *laboratory) prepareLab(w http.ResponseWriter, r *http.Request, kind string, has any) error {
	all, err := s.answers.get(kind, func(*encoded) bool { return true }, func(*encoded) (*encoded, error) {
		b, err := encode(has)
		if err != nil {
			return nil, err
		}
		return s.compressor.prepare(b), nil
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"] = ownCache, varyEncoding
	all.send(w, r, jsonType)
	return nil
}

func (s *laboratory) startLab(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	plan, err := readPlan(w, r)
	if err != nil {
		return err
	}
	job, err := s.lab.addJob(r.Context(), s.known(w, r, caller), "lab.run", "lab", plan,
		func(c labCaller) (*labJob, error) { return s.lab.addPlan(c, plan) })
	if err != nil {
		return err
	}
	return answerBegun(w, job)
}

// readPlan returns the plan of a run that a request has.
func readPlan(w http.ResponseWriter, r *http.Request) (plan lab.Plan, err error) {
	if err := readBody(w, r, &plan, false); err != nil {
		return plan, err
	}
	err = plan.Validate(strategies.Names())
	if len(plan.Strategies) == 0 {
		err = errors.Join(fieldError{"strategies", "required"}, err)
	}
	if plan.Faults == nil {
		plan.Faults = []string{}
	}
	return plan, err
}

func (s *laboratory) showLabSource(w http.ResponseWriter, r *http.Request, _ labCaller) error {
	q := r.URL.Query()
	files := experiments.Source(q.Get("experiment"))
	for _, info := range s.lab.strategies {
		if info.Name == q.Get("strategy") {
			files = append(files, lab.SourceFile{File: info.File, Source: info.Source, Marks: info.Marks})
		}
	}
	if files == nil {
		return errNoPage
	}
	return ok(w, 200, files)
}

// answerBegun answers with the id of a job whose result is read later.
func answerBegun(w http.ResponseWriter, job *labJob) error {
	return ok(w, http.StatusAccepted, struct {
		Run string `json:"run"`
	}{job.ID})
}

func (s *laboratory) showLabRun(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	run, found := s.lab.show(r.URL.Query().Get("run"), caller)
	if !found {
		return errNoPage
	}
	if run.err != nil {
		run.Code, run.Msg = codeAndMsg(r, run.err, run.ID)
	}
	b, err := encode(run)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(b))
	same := r.Header.Get("If-None-Match") == etag // a job that waits, or that has ended
	if !same {
		if err := s.desk.limits.bucket(labReads).takeN(bucketKey{addr: s.desk.clientNetwork(r)},
			len(b)>>12); err != nil {
			return err
		}
	}
	h := w.Header()
	h["Cache-Control"], h["Content-Type"], h["Etag"] = ownCache, jsonType, []string{etag}
	if same {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Write(b)
	return nil
}

func (s *laboratory) stopLab(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	stopped, err := s.lab.halt(caller)
	if err != nil {
		return err
	}
	if caller.admin && stopped {
		s.lab.noteDone(r.Context(), admin.By{UserID: caller.user, From: caller.address}, "lab.stop", "lab", nil)
	}
	return ok(w, 200, nil)
}

func (s *laboratory) raceInLab(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	var in struct {
		Strategy string `json:"strategy"`
		Seed     uint64 `json:"seed"`
		Async    bool   `json:"async"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if !slices.ContainsFunc(s.lab.strategies, func(info strategies.Info) bool { return info.Name == in.Strategy }) {
		return fieldError{"strategy", "value"}
	}
	return s.short(w, r, caller, in.Async, "lab.race", in,
		func(ctx context.Context, _ func(func(*labRun))) (any, error) {
			return s.lab.race(ctx, s.lab.stores, in.Strategy, in.Seed)
		})
}

func (s *laboratory) tryInLab(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	var in struct {
		Experiment string `json:"experiment"`
		Seed       uint64 `json:"seed"`
		Async      bool   `json:"async"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if !slices.Contains(experiments.Names(), in.Experiment) {
		return fieldError{"experiment", "value"}
	}
	return s.short(w, r, caller, in.Async, "lab.try", in,
		func(ctx context.Context, change func(func(*labRun))) (any, error) {
			return s.lab.experiment(ctx, s.lab.stores, in.Experiment, in.Seed, func(now experiments.Progress) {
				change(func(run *labRun) { run.Trial = &now })
			})
		})
}

func (s *laboratory) leaveOutInLab(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	var in struct {
		Without string `json:"without"`
		Async   bool   `json:"async"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if in.Without != "" && !slices.Contains(experiments.Defences(), in.Without) {
		return fieldError{"without", "value"}
	}
	return s.short(w, r, caller, in.Async, "lab.without", in,
		func(ctx context.Context, _ func(func(*labRun))) (any, error) {
			return s.lab.without(ctx, s.lab.stores, in.Without)
		})
}

// short adds a job that takes labLimit at most; in is what the request asks for. It answers with the job's result, or
// with its id if async.
func (s *laboratory) short(w http.ResponseWriter, r *http.Request, caller labCaller, async bool, action string, in any,
	do func(context.Context, func(func(*labRun))) (any, error)) error {
	var result json.RawMessage
	if !async {
		caller.key = uuid.Nil // a job ends with the request that waits for it
	}
	work := func(ctx context.Context, change func(func(*labRun))) (err error) {
		limited, cancel := context.WithTimeout(ctx, labLimit)
		defer cancel()
		shown, err := do(limited, change)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return errLabTooLong
		}
		if err == nil {
			change(func(run *labRun) {
				err = run.setData(shown, labOwnResult)
				result = run.Data
			})
		}
		return err
	}
	job, err := s.lab.addJob(r.Context(), s.known(w, r, caller), action, "lab", in, func(c labCaller) (*labJob, error) {
		return s.lab.add(c, async, labRun{}, work)
	})
	if err != nil {
		return err
	}
	if async {
		return answerBegun(w, job)
	}
	if err := s.lab.wait(r.Context(), job); err != nil {
		return err
	}
	return ok(w, 200, result)
}
