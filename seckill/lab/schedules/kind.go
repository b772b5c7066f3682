package schedules

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"miaosha/seckill/lab"
)

// counts compares what the buyers of a trial were told with the orders.
func (t *trial) counts() (oversold, duplicates, lost, denied, unsold int) {
	sold := t.orders
	owners := slices.Compact(slices.Sorted(slices.Values(sold)))
	oversold, duplicates = max(0, len(sold)-t.stock), len(sold)-len(owners)
	told := map[int64]string{} // one yes of a buyer is enough
	kept := 0                  // orders whose buyer has cancelled
	for _, a := range t.actors {
		if a.returned {
			if slices.Contains(owners, strconv.FormatInt(a.user, 10)) {
				kept++
			}
		} else if a.told == "yes" || a.promised {
			told[a.user] = "yes"
		} else if a.told == "no" && told[a.user] == "" {
			told[a.user] = "no"
		}
	}
	refused := 0
	for user, answer := range told {
		has := slices.Contains(owners, strconv.FormatInt(user, 10))
		if answer == "yes" && !has {
			lost++
		}
		if answer == "no" && has {
			denied++
		}
		if answer == "no" && !has {
			refused++
		}
	}
	unsold = max(0, min(t.stock-len(sold)+kept, refused))
	return oversold, duplicates, lost, denied, unsold
}

// verdict returns the kind of what went wrong; "" if nothing did.
func (t *trial) verdict() string {
	if t.kind == "" {
		t.kind = t.judge()
	}
	return t.kind
}

func (t *trial) judge() string {
	if t.failure != "" {
		return lab.Failed
	}
	oversold, duplicates, lost, denied, unsold := t.counts()
	wrong := oversold+duplicates+lost > 0
	switch {
	case wrong && slices.Contains(t.faults, lab.LostReply):
		return lab.UnknownOutcome
	case duplicates > 0:
		return lab.DoubleDelivery
	case lost > 0:
		return lab.LostPromise
	case oversold > 0 && t.overwritten() && slices.Contains(t.faults, lab.Kill):
		return lab.PartialWrite // a lost update needs no kill, so a shorter schedule would have shown it
	case oversold > 0 && t.overwritten():
		return lab.LostUpdate
	case oversold > 0:
		return lab.CheckThenAct
	case denied > 0 && len(t.faults) == 0:
		return lab.DeniedOrder
	case unsold > 0:
		return lab.StaysUnsold
	}
	return ""
}

// overwritten reports whether a write was lost: the counter that the program keeps has changed by less than was sold.
// The counter is the item's stock, or else the first key in Redis that is a number and has changed.
func (t *trial) overwritten() bool {
	first, last := t.before, t.steps[len(t.steps)-1].State
	sold := len(strings.Fields(last.Orders))
	if now, err := strconv.Atoi(last.Stock); err == nil && now != t.stock {
		return t.stock-now < sold
	}
	for _, key := range slices.Sorted(maps.Keys(last.Keys)) {
		value := last.Keys[key]
		now, err := strconv.Atoi(value)
		if before, ok := first.Keys[key]; err == nil && ok && before != value {
			if was, err := strconv.Atoi(before); err == nil {
				return max(was-now, now-was) < sold
			}
		}
	}
	return false
}

// explain returns what the trial shows.
func (t *trial) explain() *Found {
	f := &Found{Kind: t.verdict(), Problem: t.problem, Text: t.failure, Steps: []lab.ScheduleStep{}}
	broken, at := t.brokenAt(f.Kind), -1
	for i, step := range t.steps {
		if t.repeats[i] && i != broken {
			continue
		}
		if i == broken {
			at = len(f.Steps)
		}
		f.Steps = append(f.Steps, step)
	}
	if f.Kind == lab.Failed {
		return f
	}
	f.Schedule = &lab.Schedule{Stock: t.stock, Nodes: len(t.processes), Clicks: t.clicks, Users: t.users,
		Before: t.before, Switches: t.switches,
		Tried: t.tried, Broken: at}
	if len(t.faults) > 0 {
		f.Schedule.Fault = t.faults[0]
	}
	return f
}

// brokenAt returns the index of the step at which an invariant broke: the order too many, the answer no while there was
// a unit, or the answer yes that no order follows.
func (t *trial) brokenAt(kind string) int {
	if t.broken >= 0 {
		return t.broken
	}
	last := -1
	for i, s := range t.steps {
		switch {
		case (kind == lab.StaysUnsold || kind == lab.DeniedOrder && slices.Contains(strings.Fields(s.State.Orders),
			strconv.FormatInt(t.users[s.Buyer-1], 10))) && s.Kind == "answer" && s.Text == "no",
			kind == lab.LostPromise && s.Kind == "answer" && s.Text == "yes" && !slices.Contains(
				strings.Fields(t.steps[len(t.steps)-1].State.Orders), strconv.FormatInt(t.users[s.Buyer-1], 10)):
			last = i
		}
	}
	return last
}
