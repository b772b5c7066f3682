// Package boundary runs a student's program, and is the only room of the lab that starts a process for one. Judge runs
// each program in a child process (child.go), with a Postgres of its own (package throwaway). The child has no secret
// of the shop and no address of its stores in its environment, a limit of memory and of time of the processor, and a
// Redis in its own memory. In the parent the guard (guard.go) ends statements that take too long. What the program did
// is counted by the judge of package lab, over a connection that the program's role cannot reach.
package boundary

import (
	"context"
	"errors"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// Judge runs a program under each plan, in a child process with a Postgres and a Redis of its own, and returns a Result
// with a Verdict for each plan. For each plan it first searches the shortest schedule of two or three buyers that shows
// a fault, and then sends the crowd. report may be nil. A program that fails has results of the kind Failed. An error
// comes from the stores or from ctx.
func Judge(
	ctx context.Context, s lab.Stores, p program.Program, plans []lab.Plan, report func(lab.Progress),
) (results []lab.Result, err error) {
	err = p.Validate()
	for _, plan := range plans {
		err = errors.Join(err, plan.ValidateForProgram())
	}
	if err != nil {
		return nil, err
	}
	if report == nil {
		report = func(lab.Progress) {}
	}
	place, err := openPlace(ctx, s, timeOf(ctx, plans))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.close(ctx)) }()
	results, problem, err := place.runChild(ctx, p, plans, report)
	if err != nil {
		return nil, err
	}
	if problem != nil { // the results of the plans before it stand
		for _, plan := range plans[len(results):] {
			results = append(results, failedResult(plan, problem.Problem, problem.Text))
		}
	}
	return results, err
}

func failedResult(p lab.Plan, problem, text string) lab.Result {
	return lab.Result{Strategy: lab.Student, Stock: p.Stock, Buyers: p.Buyers,
		Unsold: min(p.Stock, p.Buyers), Error: text,
		Verdict: &lab.Verdict{Kind: lab.Failed, Problem: problem, Steps: []lab.ScheduleStep{}}}
}
