package hot

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// A second of clicks on sale 7 beside that many on each of the others, and what the sale is after it.
type second struct {
	clicks, others int64
	hot            bool
}

func TestASaleIsHotByItsClicksAndByThoseOfTheOthers(t *testing.T) {
	t.Parallel()
	many := func(n int, s second) []second { return slices.Repeat([]second{s}, n) }
	for name, c := range map[string]struct {
		others  int64
		seconds []second
	}{
		"suddenly, beside cold ones":           {50, []second{{0, 1, false}, {300, 1, true}}},
		"one second's clicks count half":       {50, []second{{199, 1, false}, {0, 1, false}}},
		"alone":                                {0, []second{{300, 0, true}}},
		"beside one that has none":             {1, []second{{300, 0, true}}},
		"like all others":                      {50, many(5, second{5000, 5000, false})},
		"nine times the others":                {50, many(20, second{4500, 500, false})},
		"too few clicks":                       {50, many(20, second{99, 0, false})},
		"a short lull does not cool it":        {50, slices.Concat([]second{{300, 1, true}}, many(9, second{0, 1, true}), many(20, second{300, 1, true}))},
		"above half of the bound it stays hot": {50, slices.Concat([]second{{300, 1, true}}, many(40, second{60, 1, true}))},
		"ten seconds below half cool it":       {50, slices.Concat([]second{{200, 1, true}}, many(11, second{10, 1, true}), []second{{10, 1, false}})},
		"and it can be hot again":              {50, slices.Concat([]second{{200, 1, true}}, many(11, second{10, 1, true}), []second{{10, 1, false}, {300, 1, true}})},
		"the others catch up":                  {50, slices.Concat([]second{{2000, 10, true}, {2000, 1000, true}}, many(9, second{2000, 1000, true}), []second{{2000, 1000, false}})},
	} {
		t.Run(name, func(t *testing.T) {
			hs, now, clicks, was := newHeats(), time.Now(), map[int64]int64{}, false
			for i, s := range c.seconds {
				now = now.Add(time.Second)
				clicks[7] = s.clicks
				for other := range c.others {
					clicks[100+other] = s.others
				}
				_, changes := hs.update(now, time.Second, clicks)
				if is := len(hs.hottest(nil)) == 1; is != s.hot {
					t.Fatalf("after second %d it is hot: %t, want %t (%.1f clicks a second)", i+1, is, s.hot, hs.bySale[7].rate)
				}
				if changed := s.hot != was; changed != (len(changes) == 1) || changed && (changes[0].sale != 7 || changes[0].hot != s.hot) {
					t.Errorf("after second %d: changes %+v", i+1, changes)
				}
				was = s.hot
			}
		})
	}
}

func newHeats() *heats {
	return &heats{cfg: Config{Clicks: 100, Factor: 10}, bySale: map[int64]*heat{}}
}

// A hot sale that is over is not hot any more.
func TestASaleThatEndsIsNotHot(t *testing.T) {
	t.Parallel()
	hs, now := newHeats(), time.Now()
	hs.update(now, time.Second, map[int64]int64{7: 1000, 8: 50})
	if _, changes := hs.update(now.Add(3*time.Second), time.Second, map[int64]int64{8: 10}); !slices.Equal(changes, []change{{7, false, 0, 3 * time.Second}}) {
		t.Errorf("changes %+v, want that sale 7 was hot for 3 s", changes)
	}
	if h := hs.bySale[8]; len(hs.bySale) != 1 || h.rate != (25.0+10)/2 {
		t.Errorf("sale 8 has %v clicks a second, want 17.5", h.rate)
	}
}

// Lanes count on while their sale is not open, end after a minute without clicks, and begin again from 0.
func TestClicksAreCountedOnce(t *testing.T) {
	t.Parallel()
	hs := newHeats()
	for i, c := range []struct{ counted, want map[int64]int64 }{
		{map[int64]int64{7: 1000}, map[int64]int64{7: 1000}},
		{map[int64]int64{7: 1005, 8: 1}, map[int64]int64{7: 5, 8: 1}},
		{map[int64]int64{7: 1005, 8: 1}, map[int64]int64{7: 0, 8: 0}},
		{map[int64]int64{7: 3}, map[int64]int64{7: 3}},
		{map[int64]int64{}, map[int64]int64{}},
		{map[int64]int64{7: 2, 8: 9}, map[int64]int64{7: 2, 8: 9}},
	} {
		if got := hs.newClicks(c.counted); !maps.Equal(got, c.want) {
			t.Errorf("second %d: %v new clicks, want %v", i+1, got, c.want)
		}
	}
}

// The report has the ten hottest sales.
func TestTheTenHottestAreShown(t *testing.T) {
	t.Parallel()
	hs := newHeats()
	clicks, left := map[int64]int64{}, map[int64]int{15: 3}
	for sale := int64(1); sale <= 40; sale++ {
		if clicks[sale] = 0; sale <= 15 {
			clicks[sale] = 1000 * sale
		}
	}
	hs.update(time.Now(), time.Second, clicks)
	got := hs.hottest(left)
	if len(got) != shown || got[0].ID != 15 || got[0].ClicksPerSecond != 7500 || got[0].Left != 3 || got[9].ID != 6 {
		t.Errorf("%+v, want sales 15 to 6", got)
	}
}

func TestWrongBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{0, 10}, {-1, 10}, {100, 1}, {100, 0}} {
		if _, err := NewMonitor(c, nil, nil, nil); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
