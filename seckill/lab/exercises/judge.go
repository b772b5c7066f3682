package exercises

import (
	"context"
	"fmt"
	"slices"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/boundary"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
)

// Result is the outcome of a program at an exercise.
type Result struct {
	Exercise      string        `json:"exercise"`
	Solved        bool          `json:"solved"`
	Checks        []CheckResult `json:"checks"`        // up to the first that failed; the others are not run
	SQLPerOrder   float64       `json:"sql_per_order"` // of the exercise's own first check
	RedisPerOrder float64       `json:"redis_per_order"`
	Ratio         float64       `json:"ratio"` // clicks per second, divided by those of the baseline; 0 without one
}

// CheckResult is the outcome of one check.
type CheckResult struct {
	Exercise string     `json:"exercise"` // to which the check belongs
	Name     string     `json:"name"`
	Passed   bool       `json:"passed"`
	Kind     string     `json:"kind"`    // as in Verdict.Kind, TooManyStatements or Unfair; "" if it passed
	Message  Text       `json:"message"` // what is missed, with the number; empty if it passed
	Result   lab.Result `json:"result"`
}

// Kinds of programs that are exact and miss a target, beside TooSlow.
const (
	TooManyStatements = "too_many_statements"
	NoSeat            = "no_seat"  // an order has no seat, or a seat no order
	NoPrice           = "no_price" // buyers have orders, and think was not called for them
)

const (
	// paceTries is how often a program and its baseline are run, one after the other, until the ratio is reached; twice
	// at least. A busy machine may slow down either. After hopelessAfter of them a program that has not reached half of
	// the ratio is too slow.
	paceTries, hopelessAfter = 8, 3

	// lineTries is how often a line of buyers is tried: a busy machine may mix it up.
	lineTries = 3
)

// Judge runs the checks of an exercise with a program, each with this seed, until one fails. The schedules of the
// exercise's own checks are searched; the checks of earlier exercises are crowds only. It calls report as Run does;
// report may be nil. An error comes from the stores or from ctx.
func Judge(
	ctx context.Context, s lab.Stores, e Exercise, p program.Program, seed uint64, report func(lab.Progress),
) (Result, error) {
	return judge(ctx, s, e, p, seed, true, report)
}

func judge(ctx context.Context, s lab.Stores, e Exercise, p program.Program, seed uint64, search bool,
	report func(lab.Progress)) (Result, error) {
	result := Result{Exercise: e.Name, Checks: []CheckResult{}}
	checks := slices.Clone(e.Checks)
	for i := range checks {
		plan := &checks[i].Plan
		plan.Seed, plan.CrowdOnly = seed, plan.CrowdOnly || !search || checks[i].Exercise != e.Name
	}
	for len(result.Checks) < len(checks) {
		rest := checks[len(result.Checks):]
		group := rest[:1]
		for len(group) < len(rest) && rest[len(group)].together(group[0]) {
			group = rest[:len(group)+1]
		}
		results, err := runChecks(ctx, s, p, group, report)
		if err != nil {
			return result, fmt.Errorf("%s, %s: %w", group[0].Exercise, group[0].Name, err)
		}
		for i, check := range group {
			one := check.judge(results[i])
			for try := 1; one.Kind == lab.Unfair && try < lineTries; try++ {
				check.Plan.CrowdOnly = true
				again, err := runChecks(ctx, s, p, []Check{check}, report)
				if err != nil {
					return result, fmt.Errorf("%s, %s: %w", check.Exercise, check.Name, err)
				}
				one = check.judge(again[0])
			}
			if one.Passed && check.Baseline != "" {
				if one, result.Ratio, err = check.compare(ctx, s, p, one, report); err != nil {
					return result, fmt.Errorf("%s, %s: %w", check.Exercise, check.Name, err)
				}
			}
			if len(result.Checks) == 0 {
				result.SQLPerOrder, result.RedisPerOrder = one.Result.SQLPerOrder, one.Result.RedisPerOrder
			}
			result.Checks = append(result.Checks, one)
			if !one.Passed {
				return result, nil
			}
		}
	}
	result.Solved = true
	return result, nil
}

// together reports whether both checks are run in one process of a program: that costs less, but if the first one
// fails, the others were run for nothing.
func (c Check) together(first Check) bool {
	return c.Plan.CrowdOnly && first.Plan.CrowdOnly && c.Baseline == "" && first.Baseline == ""
}

// judge compares the counts of a result with the target.
func (c Check) judge(r lab.Result) CheckResult {
	one := CheckResult{Exercise: c.Exercise, Name: c.Name, Result: r}
	switch {
	case !r.Right:
		one.Kind, one.Message = r.Kind, wrongText(r)
	case r.Seatless > 0:
		one.Kind = NoSeat
		one.Message = Text{
			fmt.Sprintf("as many orders as seats, but %d of them do not belong to one buyer", r.Seatless),
			fmt.Sprintf("订单数和座位数一样，但有 %d 个对不上同一个买家", r.Seatless)}
	case r.Unpriced > 0:
		one.Kind = NoPrice
		one.Message = Text{
			fmt.Sprintf("exact, but %d of %d orders were made without think(): the shop has not looked up their price",
				r.Unpriced, r.Sold),
			fmt.Sprintf("结果正确，但 %d 个订单里有 %d 个没有调用 think()：店铺没有查它们的价格", r.Sold, r.Unpriced)}
	case c.SQLPerOrder > 0 && r.SQLPerOrder > c.SQLPerOrder:
		one.Kind = TooManyStatements
		one.Message = Text{
			fmt.Sprintf("exact, but %.2f statements per order; at most %g", r.SQLPerOrder, c.SQLPerOrder),
			fmt.Sprintf("结果正确，但每个订单用了 %.2f 条语句，最多 %g 条", r.SQLPerOrder, c.SQLPerOrder)}
	case c.MostLate >= 0 && r.Late > c.MostLate:
		one.Kind = lab.Unfair
		one.Message = Text{
			fmt.Sprintf("exact, but %d of %d orders went to buyers who came late; at most %d", r.Late,
				r.Sold, c.MostLate),
			fmt.Sprintf("结果正确，但 %d 个订单里有 %d 个给了晚到的买家，最多 %d 个", r.Sold, r.Late, c.MostLate)}
	}
	one.Passed = one.Kind == ""
	return one
}

// compare runs the baseline and the program in turn until the program reaches the ratio. The fastest run of each
// counts: what slows a run down is the machine.
func (c Check) compare(
	ctx context.Context, s lab.Stores, p program.Program, one CheckResult, report func(lab.Progress),
) (CheckResult, float64, error) {
	source, err := strategies.Program(c.Baseline)
	if err != nil {
		return one, 0, err
	}
	c.Plan.CrowdOnly = true
	var fastest, base, ratio float64
	for try := range paceTries {
		beside, err := runChecks(ctx, s, program.Program{Language: program.Lua, Source: source}, []Check{c}, nil)
		if err != nil {
			return one, 0, err
		}
		if base = max(base, beside[0].PerSecond); base <= 0 {
			return one, 0, fmt.Errorf("the baseline %s served no click: %s", c.Baseline, beside[0].Error)
		}
		results, err := runChecks(ctx, s, p, []Check{c}, report)
		if err != nil {
			return one, 0, err
		}
		if one = c.judge(results[0]); !one.Passed {
			return one, ratio, nil
		}
		fastest = max(fastest, one.Result.PerSecond)
		if ratio = lab.Round(fastest/base, 2); try > 0 && ratio >= c.Ratio {
			return one, ratio, nil
		}
		if try+1 >= hopelessAfter && ratio < c.Ratio/2 {
			break
		}
	}
	one.Passed, one.Kind = false, lab.TooSlow
	one.Message = Text{
		fmt.Sprintf("exact, but %.2f times as fast as %s on this machine; at least %g", ratio, c.Baseline, c.Ratio),
		fmt.Sprintf("结果正确，但速度只有本机 %s 的 %.2f 倍，至少要 %g 倍", c.Baseline, ratio, c.Ratio)}
	return one, ratio, nil
}

// runChecks runs the crowds of some checks, and returns a result of each.
func runChecks(
	ctx context.Context, s lab.Stores, p program.Program, checks []Check, report func(lab.Progress),
) ([]lab.Result, error) {
	var plans []lab.Plan
	for _, c := range checks {
		plans = append(plans, c.Plan)
	}
	results, err := boundary.Judge(ctx, s, p, plans, report)
	if err == nil && len(results) != len(plans) {
		err = fmt.Errorf("%d results of %d plans", len(results), len(plans))
	}
	return results, err
}

// wrongText says what a result has wrong, the worst first.
func wrongText(r lab.Result) Text {
	switch {
	case r.Verdict != nil && r.Kind == lab.Tampered:
		return Text{"the program has changed what belongs to the judge, or has written orders that no buyer asked for",
			"程序改动了属于裁判的东西，或者写了没有买家要的订单"}
	case r.Error != "":
		return Text{"the run did not finish: " + r.Error, "运行没有结束：" + r.Error}
	case r.Oversold > 0:
		return Text{fmt.Sprintf("%d orders for %d units", r.Sold, r.Stock),
			fmt.Sprintf("%d 件商品有 %d 个订单", r.Stock, r.Sold)}
	case r.Lost > 0:
		return Text{fmt.Sprintf("%d buyers were promised a unit and have no order", r.Lost),
			fmt.Sprintf("%d 个买家被告知抢到了，却没有订单", r.Lost)}
	case r.Duplicates > 0:
		return Text{fmt.Sprintf("%d orders are a second one by the same buyer", r.Duplicates),
			fmt.Sprintf("%d 个订单是同一买家的第二个", r.Duplicates)}
	case r.AfterEnd > 0:
		return Text{fmt.Sprintf("%d units were sold after the end of the sale", r.AfterEnd),
			fmt.Sprintf("秒杀结束之后还卖出了 %d 件", r.AfterEnd)}
	case r.Denied > 0:
		return Text{fmt.Sprintf("%d buyers have an order but were refused", r.Denied),
			fmt.Sprintf("%d 个买家有订单，却被告知没抢到", r.Denied)}
	case r.Unsold > 0:
		return Text{fmt.Sprintf("%d units are unsold although buyers were refused", r.Unsold),
			fmt.Sprintf("有买家被拒绝，却有 %d 件没有卖出", r.Unsold)}
	}
	return Text{"the crowd was served, but the search found a schedule that fails", "这群买家没有出错，但搜索找到了会失败的顺序"}
}
