package lab

import (
	"strings"
	"testing"
)

// A check compares the counts with its target, the worst failure first.
func TestChecksJudgeCounts(t *testing.T) {
	t.Parallel()
	check := Check{Exercise: "e", Name: "n", SQLPerOrder: 3, MostLate: 2}
	right := Result{Right: true, Stock: 20, Sold: 20, SQLPerOrder: 3}
	for name, c := range map[string]struct {
		spoil func(*Result, *Verdict)
		kind  string
		says  string // part of the message
	}{
		"right":            {func(*Result, *Verdict) {}, "", ""},
		"a statement more": {func(r *Result, _ *Verdict) { r.SQLPerOrder = 3.01 }, TooManyStatements, "3.01"},
		"two came late":    {func(_ *Result, v *Verdict) { v.Late = 2 }, "", ""},
		"three came late":  {func(_ *Result, v *Verdict) { v.Late = 3 }, Unfair, "3 of 20"},
		"oversold, and more": {func(r *Result, v *Verdict) {
			r.Right, r.Oversold, r.Sold, r.Unsold, v.Kind = false, 1, 21, 1, LostUpdate
		}, LostUpdate, "21 orders"},
		"lost":                {func(r *Result, v *Verdict) { r.Right, r.Lost, v.Kind = false, 4, LostPromise }, LostPromise, "4 buyers"},
		"twice":               {func(r *Result, v *Verdict) { r.Right, r.Duplicates, v.Kind = false, 5, DoubleDelivery }, DoubleDelivery, "5 orders"},
		"after the end":       {func(r *Result, v *Verdict) { r.Right, v.AfterEnd, v.Kind = false, 6, CheckThenAct }, CheckThenAct, "6 units"},
		"denied":              {func(r *Result, v *Verdict) { r.Right, r.Denied, v.Kind = false, 3, DeniedOrder }, DeniedOrder, "3 buyers"},
		"unsold":              {func(r *Result, v *Verdict) { r.Right, r.Unsold, v.Kind = false, 7, StaysUnsold }, StaysUnsold, "7 units"},
		"an error":            {func(r *Result, v *Verdict) { r.Right, r.Error, v.Kind = false, "line 3", Failed }, Failed, "line 3"},
		"a schedule, no more": {func(r *Result, v *Verdict) { r.Right, v.Kind = false, UnknownOutcome }, UnknownOutcome, "schedule"},
	} {
		r, v := right, Verdict{}
		c.spoil(&r, &v)
		r.Verdict = &v
		one := check.judge(r)
		if one.Kind != c.kind || one.Passed != (c.kind == "") || !strings.Contains(one.Message.En, c.says) || (one.Message.Zh == "") != (c.kind == "") {
			t.Errorf("%s: %+v", name, one)
		}
	}
}
