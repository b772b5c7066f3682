package lab

import (
	"context"
	"fmt"
	"strings"
)

// ExerciseResult is the outcome of a program at an exercise.
type ExerciseResult struct {
	Exercise      string        `json:"exercise"`
	Solved        bool          `json:"solved"`
	Checks        []CheckResult `json:"checks"`        // up to the first that failed; the others are not run
	SQLPerOrder   float64       `json:"sql_per_order"` // of the exercise's own first check
	RedisPerOrder float64       `json:"redis_per_order"`
	Ratio         float64       `json:"ratio"` // clicks per second, divided by those of the baseline; 0 without one
}

// CheckResult is the outcome of one check.
type CheckResult struct {
	Exercise string `json:"exercise"` // to which the check belongs
	Name     string `json:"name"`
	Passed   bool   `json:"passed"`
	Kind     string `json:"kind"`    // as in Verdict.Kind, and too_many_statements; "" if it passed
	Message  Text   `json:"message"` // what is missed, with the number; empty if it passed
	Result   Result `json:"result"`
}

// TooManyStatements is the kind of a program that is exact, and needs more statements than the target.
const TooManyStatements = "too_many_statements"

// rateTries is how often a program and its baseline are run, one after the other, until the ratio is reached. A busy
// machine may slow down either.
const rateTries = 3

// JudgeExercise runs the checks of an exercise with a program, each with this seed, until one fails. The schedules of the
// exercise's own checks are searched; the checks of earlier exercises are crowds only. It calls report as Run does; report
// may be nil. An error comes from the stores or from ctx.
func JudgeExercise(ctx context.Context, s Stores, e Exercise, p Program, seed uint64, report func(Progress)) (ExerciseResult, error) {
	return judgeExercise(ctx, s, e, p, seed, true, report)
}

func judgeExercise(ctx context.Context, s Stores, e Exercise, p Program, seed uint64, search bool, report func(Progress)) (ExerciseResult, error) {
	result := ExerciseResult{Exercise: e.Name, Solved: true, Checks: []CheckResult{}}
	for i, check := range e.Checks {
		check.Plan.Seed, check.Plan.CrowdOnly = seed, !search || check.Exercise != e.Name
		one, ratio, err := check.judge(ctx, s, p, report)
		if err != nil {
			return result, fmt.Errorf("%s, %s: %w", check.Exercise, check.Name, err)
		}
		if i == 0 {
			result.SQLPerOrder, result.RedisPerOrder, result.Ratio = one.Result.SQLPerOrder, one.Result.RedisPerOrder, ratio
		}
		result.Checks = append(result.Checks, one)
		if !one.Passed {
			result.Solved = false
			break
		}
	}
	return result, nil
}

// judge runs one check. It compares counts, and the speed only with a program that runs in the same minute.
func (c Check) judge(ctx context.Context, s Stores, p Program, report func(Progress)) (one CheckResult, ratio float64, err error) {
	one = CheckResult{Exercise: c.Exercise, Name: c.Name}
	if one.Result, err = c.run(ctx, s, p, report); err != nil {
		return one, 0, err
	}
	r := one.Result
	switch {
	case !r.Right:
		one.Kind, one.Message = r.Kind, wrongText(r)
	case c.SQLPerOrder > 0 && r.SQLPerOrder > c.SQLPerOrder:
		one.Kind = TooManyStatements
		one.Message = Text{
			fmt.Sprintf("exact, but %.2f statements for an order; at most %g", r.SQLPerOrder, c.SQLPerOrder),
			fmt.Sprintf("结果正确，但每个订单用了 %.2f 条语句，最多 %g 条", r.SQLPerOrder, c.SQLPerOrder)}
	case c.Baseline != "":
		if one, ratio, err = c.compare(ctx, s, p, one, report); err != nil {
			return one, 0, err
		}
	}
	one.Passed = one.Kind == ""
	return one, ratio, nil
}

// compare runs the baseline and the program in turn until the program reaches the ratio.
func (c Check) compare(ctx context.Context, s Stores, p Program, one CheckResult, report func(Progress)) (CheckResult, float64, error) {
	source, err := programOf(c.Baseline)
	if err != nil {
		return one, 0, err
	}
	best := 0.0
	c.Plan.CrowdOnly = true
	for try := range rateTries {
		if try > 0 {
			if one.Result, err = c.run(ctx, s, p, report); err != nil {
				return one, 0, err
			}
			if !one.Result.Right {
				one.Kind, one.Message = one.Result.Kind, wrongText(one.Result)
				return one, best, nil
			}
		}
		base, err := c.run(ctx, s, Program{Language: Lua, Source: source}, nil)
		if err != nil {
			return one, 0, err
		}
		if base.PerSecond <= 0 {
			return one, 0, fmt.Errorf("the baseline %s served no click: %s", c.Baseline, base.Error)
		}
		if best = max(best, round(one.Result.PerSecond/base.PerSecond, 2)); best >= c.Ratio {
			return one, best, nil
		}
	}
	one.Kind = TooSlow
	one.Message = Text{
		fmt.Sprintf("exact, but %.2f times as fast as %s on this machine; at least %g", best, c.Baseline, c.Ratio),
		fmt.Sprintf("结果正确，但速度只有本机 %s 的 %.2f 倍，至少要 %g 倍", c.Baseline, best, c.Ratio)}
	return one, best, nil
}

func (c Check) run(ctx context.Context, s Stores, p Program, report func(Progress)) (Result, error) {
	p.Source = before(p.Language, p.Source, c.Before)
	results, err := Judge(ctx, s, p, []Plan{c.Plan}, report)
	if err != nil {
		return Result{}, err
	}
	if len(results) != 1 {
		return Result{}, fmt.Errorf("%d results of one plan", len(results))
	}
	return results[0], nil
}

// wrongText says what a result has wrong, the worst first.
func wrongText(r Result) Text {
	switch {
	case r.Error != "":
		return Text{"the run did not finish: " + r.Error, "运行没有结束：" + r.Error}
	case r.Oversold > 0:
		return Text{fmt.Sprintf("%d orders for %d units", r.Sold, r.Stock), fmt.Sprintf("%d 件商品有 %d 个订单", r.Stock, r.Sold)}
	case r.Lost > 0:
		return Text{fmt.Sprintf("%d buyers were told yes and have no order", r.Lost), fmt.Sprintf("%d 个买家听到“是”，却没有订单", r.Lost)}
	case r.Duplicates > 0:
		return Text{fmt.Sprintf("%d orders are the second of a buyer", r.Duplicates), fmt.Sprintf("%d 个订单是同一买家的第二个", r.Duplicates)}
	case r.Unsold > 0:
		return Text{fmt.Sprintf("%d units are unsold although buyers were told no", r.Unsold), fmt.Sprintf("有买家被拒绝，却有 %d 件没有卖出", r.Unsold)}
	}
	return Text{"the crowd was served, but the search found a schedule that fails", "人群中没有出错，但搜索找到了会失败的顺序"}
}

// programOf returns the program of a strategy in Lua.
func programOf(name string) (source string, err error) {
	text, err := programFiles.ReadFile("programs/" + name + ".lua")
	return string(text), err
}

// before returns a program that runs statements before those that it prepares itself.
func before(language, source string, statements []string) string {
	if len(statements) == 0 {
		return source
	}
	if language == SQL {
		first := strings.Join(statements, ";\n") + ";\n"
		if head, rest, found := strings.Cut(source, "-- prepare\n"); found {
			return head + "-- prepare\n" + first + rest
		}
		return "-- prepare\n" + first + "-- buy\n" + source
	}
	var b strings.Builder // behind the source, so that the numbers of its lines stay
	b.WriteString(source + "\ndo local own = prepare\nfunction prepare()\n")
	for _, statement := range statements {
		b.WriteString("sql([==[" + statement + "]==])\n")
	}
	b.WriteString("if own then own() end\nend end\n")
	return b.String()
}
