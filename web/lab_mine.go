package web

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
)

func (s *laboratory) programRows() []row {
	programmers := onlyIf(s.sandbox, s.inLab())
	const program = labQueue + ", and has 32 places of an address"
	return []row{
		route(GET, "/api/lab/programs", programmers, ahead(labReads), answerLimit, s.showPrograms),
		route(POST, "/api/lab/mine", programmers, at(program, programs), answerLimit, s.judgeProgram),
		route(GET, "/api/lab/exercises", programmers, ahead(labReads), answerLimit, s.showExercises),
		route(POST, "/api/lab/exercises/{name}", programmers, at(program, programs), answerLimit, s.judgeExercise),
	}
}

// showPrograms lists the programs with which a student can begin, and what a plan may have. Only a sandbox runs
// programs of its visitors.
func (s *laboratory) showPrograms(w http.ResponseWriter, r *http.Request, _ labCaller) error {
	type bounds struct {
		Buyers  int `json:"buyers"`
		Stock   int `json:"stock"`
		Seconds int `json:"seconds"`
		Nodes   int `json:"nodes"`
	}
	return s.prepareLab(w, r, "programs", struct {
		Programs []strategies.ProgramInfo `json:"programs"`
		Faults   []string                 `json:"faults"`
		Max      bounds                   `json:"max"`
	}{strategies.Programs(), lab.ProgramFaults(), bounds{lab.MaxBuyers, lab.MaxStock, lab.MaxSeconds, lab.MaxNodes}})
}

// judgeProgram runs a program of a student against a crowd. Only a sandbox does.
func (s *laboratory) judgeProgram(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	var program program.Program
	var in struct {
		lab.Plan
		Nodes  int  `json:"nodes"`  // a run of the shop's own strategies has two, always
		Closes bool `json:"closes"` // only a program's sale can end in the middle
	}
	if err := programBody(w, r, &program, &in); err != nil {
		return err
	}
	plan := in.Plan
	plan.Nodes, plan.Closes = in.Nodes, in.Closes
	if err := errors.Join(program.Validate(), plan.ValidateForProgram()); err != nil {
		return err
	}
	work := func(ctx context.Context, change func(func(*labRun))) error {
		results, err := s.lab.judge(ctx, s.lab.stores, program, []lab.Plan{plan}, func(now lab.Progress) {
			change(func(run *labRun) { run.Now = &now })
		})
		change(func(run *labRun) {
			for _, r := range results {
				err = cmp.Or(err, run.add(r, labProgramResult/len(results)))
			}
		})
		return err
	}
	job, err := s.lab.addJob(r.Context(), s.known(w, r, caller), "lab.program", "lab", plan,
		func(c labCaller) (*labJob, error) {
			return s.lab.add(c, true, labRun{}, work)
		})
	if err != nil {
		return err
	}
	return answerBegun(w, job)
}

// showExercises lists the exercises with their texts in both languages.
func (s *laboratory) showExercises(w http.ResponseWriter, r *http.Request, _ labCaller) error {
	return s.prepareLab(w, r, "exercises", exercises.All())
}

// exerciseLimit is how long the checks of an exercise may take together.
const exerciseLimit = 3 * time.Minute

// judgeExercise runs a program of a student against the checks of an exercise, with a seed of its own each time. If the
// browser has a seat in a class, the board of the class shows the outcome of an exercise of the ladder.
func (s *laboratory) judgeExercise(w http.ResponseWriter, r *http.Request, caller labCaller) error {
	all := exercises.All()
	i := slices.IndexFunc(all, func(e exercises.Exercise) bool { return e.Name == chi.URLParam(r, "name") })
	if i < 0 {
		return errNoPage
	}
	exercise, seat := all[i], s.desk.secret(r, seatCookie)
	var program program.Program
	if err := programBody(w, r, &program, nil); err != nil {
		return err
	}
	if err := program.Validate(); err != nil {
		return err
	}
	work := func(ctx context.Context, change func(func(*labRun))) error {
		limited, cancel := context.WithTimeout(ctx, exerciseLimit)
		defer cancel()
		result, err := s.lab.exercise(limited, s.lab.stores, exercise, program, rand.Uint64N(1_000_000_000),
			func(now lab.Progress) {
				change(func(run *labRun) { run.Now = &now })
			})
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return errLabTooLong
		}
		if err != nil {
			return err
		}
		cost := exerciseCost{SQLPerOrder: result.SQLPerOrder}
		if len(result.Checks) > 0 {
			cost.PerSecond = result.Checks[0].Result.PerSecond
		}
		lost := exercise.By == "" && s.classes.judged(seat, exercise.Name, result.Solved, cost)
		change(func(run *labRun) {
			run.SeatLost = lost
			err = run.setData(result, labProgramResult)
		})
		return err
	}
	job, err := s.lab.addJob(r.Context(), s.known(w, r, caller), "lab.exercise", "lab",
		map[string]string{"exercise": exercise.Name}, func(c labCaller) (*labJob, error) {
			return s.lab.add(c, true, labRun{}, work)
		})
	if err != nil {
		return err
	}
	return answerBegun(w, job)
}
