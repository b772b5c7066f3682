package exercises

import (
	"strings"
	"testing"

	"miaosha/seckill/lab"
)

// A check compares the counts with its target, the worst failure first.
func TestChecksJudgeCounts(t *testing.T) {
	t.Parallel()
	check := Check{Exercise: "e", Name: "n", SQLPerOrder: 3, MostLate: 2}
	right := lab.Result{Right: true, Stock: 20, Sold: 20, SQLPerOrder: 3}
	for name, c := range map[string]struct {
		spoil func(*lab.Result, *lab.Verdict)
		kind  string
		says  string // part of the message
	}{
		"right":            {func(*lab.Result, *lab.Verdict) {}, "", ""},
		"a statement more": {func(r *lab.Result, _ *lab.Verdict) { r.SQLPerOrder = 3.01 }, TooManyStatements, "3.01"},
		"two came late":    {func(_ *lab.Result, v *lab.Verdict) { v.Late = 2 }, "", ""},
		"three came late":  {func(_ *lab.Result, v *lab.Verdict) { v.Late = 3 }, lab.Unfair, "3 of 20"},
		"oversold, and more": {func(r *lab.Result, v *lab.Verdict) {
			r.Right, r.Oversold, r.Sold, r.Unsold, v.Kind = false, 1, 21, 1, lab.LostUpdate
		}, lab.LostUpdate, "21 orders"},
		"lost":                {func(r *lab.Result, v *lab.Verdict) { r.Right, r.Lost, v.Kind = false, 4, lab.LostPromise }, lab.LostPromise, "4 buyers"},
		"twice":               {func(r *lab.Result, v *lab.Verdict) { r.Right, r.Duplicates, v.Kind = false, 5, lab.DoubleDelivery }, lab.DoubleDelivery, "5 orders"},
		"after the end":       {func(r *lab.Result, v *lab.Verdict) { r.Right, v.AfterEnd, v.Kind = false, 6, lab.CheckThenAct }, lab.CheckThenAct, "6 units"},
		"denied":              {func(r *lab.Result, v *lab.Verdict) { r.Right, r.Denied, v.Kind = false, 3, lab.DeniedOrder }, lab.DeniedOrder, "3 buyers"},
		"unsold":              {func(r *lab.Result, v *lab.Verdict) { r.Right, r.Unsold, v.Kind = false, 7, lab.StaysUnsold }, lab.StaysUnsold, "7 units"},
		"an error":            {func(r *lab.Result, v *lab.Verdict) { r.Right, r.Error, v.Kind = false, "line 3", lab.Failed }, lab.Failed, "line 3"},
		"a schedule, no more": {func(r *lab.Result, v *lab.Verdict) { r.Right, v.Kind = false, lab.UnknownOutcome }, lab.UnknownOutcome, "schedule"},
	} {
		r, v := right, lab.Verdict{}
		c.spoil(&r, &v)
		r.Verdict = &v
		one := check.judge(r)
		if one.Kind != c.kind || one.Passed != (c.kind == "") || !strings.Contains(one.Message.En, c.says) || (one.Message.Zh == "") != (c.kind == "") {
			t.Errorf("%s: %+v", name, one)
		}
	}
}
