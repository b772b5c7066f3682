package live

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var nan = float32(math.NaN())

func sold(perSecond, left, waits float32) point {
	p := point{}
	for i := range p {
		p[i] = nan
	}
	p[rateOrders], p[unitsLeft], p[oldestMS] = perSecond, left, waits
	return p
}

// A day of seconds is kept in three steps: the last ten minutes, two hours and a day, each time once and in order.
func TestHistoryIsCompacted(t *testing.T) {
	t.Parallel()
	var s series
	begin := time.Unix(1_800_000_000/60*60, 0)
	const day = 26 * 3600
	for i := range day {
		s.add(begin.Add(time.Duration(i)*time.Second), sold(float32(i%10), float32(day-i), float32(i%60)))
	}
	points := s.all()
	if n := 600 + (7200-600)/10 + (86400-7200)/60; len(points) < n || len(points) > n+2 {
		t.Errorf("%d points, want %d, and those that are not full", len(points), n)
	}
	if !slices.IsSortedFunc(points, func(a, b timedPoint) int { return int(a.at - b.at) }) {
		t.Error("the points are not in order")
	}
	steps := map[int64]int{}
	for i := 1; i < len(points); i++ {
		steps[points[i].at-points[i-1].at]++
	}
	if len(steps) > 5 || steps[0] > 0 || steps[1] < 599 || steps[10] < 600 || steps[60] < 1300 {
		t.Errorf("steps in seconds, and how often: %v", steps)
	}
	first, last := points[0], points[len(points)-1]
	if last.at != begin.Unix()+day-1 || last.point[rateOrders] != (day-1)%10 || last.point[unitsLeft] != 1 {
		t.Errorf("the last point is %v at %d", last.point, last.at-begin.Unix())
	}
	minute := day - float32(first.at-begin.Unix()) - 59 // the units left at the end of the first minute that is kept
	if first.point[rateOrders] != 4.5 || first.point[oldestMS] != 59 || first.point[unitsLeft] != minute {
		t.Errorf("the first point is %v, want the mean 4.5, %v left, and the highest wait 59", first.point, minute)
	}
}

// What was not known is null, in a second and in a step; a step in which something was known has that.
func TestHistoryHasGapsAndNoZeros(t *testing.T) {
	t.Parallel()
	var s series
	begin := time.Unix(1_800_000_000, 0)
	for i := range 30 {
		p := sold(nan, nan, nan)
		if i < 5 {
			p = sold(6, 100, 1)
		}
		s.add(begin.Add(time.Duration(i)*time.Second), p)
	}
	ten := s.levels[1].points
	if len(ten) != 2 || ten[0].point[rateOrders] != 6 || ten[0].point[unitsLeft] != 100 || ten[1].point[rateOrders] == ten[1].point[rateOrders] {
		t.Errorf("ten seconds have %v, want a mean of 6 and then nothing known", ten)
	}
	b, err := json.Marshal(s.history())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); !strings.Contains(text, `"orders":[6,6,6,6,6,null,`) || strings.Contains(text, "[0") {
		t.Errorf("the history is %s", text)
	}
}

// However many pages come in a second, the history is encoded once; those of the next second get a new one.
func TestHistoryIsEncodedOnceASecond(t *testing.T) {
	t.Parallel()
	s := &scope{peaks: map[string]Peak{}}
	m := &Monitor{scopes: map[int64]*scope{shop: s}}
	history := func() []byte {
		b, err := m.History(shop)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := time.Unix(1_800_000_000, 0)
	for second := range 3 {
		at := now.Add(time.Duration(second) * time.Second)
		m.scopeView(shop, s, at, at, common{}, true)
		first := history()
		if again := history(); &first[0] != &again[0] {
			t.Error("it is encoded for each page")
		}
		var shown struct{ At []int64 }
		if err := json.Unmarshal(first, &shown); err != nil || len(shown.At) != second+1 {
			t.Errorf("in second %d it has %d points, %v", second, len(shown.At), err)
		}
	}
}
