package hot

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// heats has the heat of each open sale.
type heats struct {
	cfg     Config
	counted map[int64]int64 // the clicks of each lane so far
	bySale  map[int64]*heat
}

// heat is how hot a sale is.
type heat struct {
	rate     float64   // clicks a second
	hotSince time.Time // zero if the sale is not hot
	cooling  time.Time // since when a hot sale is below half of a bound; zero if it is not
}

// change says that a sale has become hot, or is no longer hot.
type change struct {
	sale   int64
	hot    bool
	rate   float64
	lasted time.Duration // how long it was hot
}

// newClicks takes the clicks that every lane has counted so far, and returns those since the last call. It must see the
// lanes of sales that are not open too: what was clicked before a sale is open, or while it is paused, is not of the
// second in which it opens.
func (hs *heats) newClicks(clicks map[int64]int64) map[int64]int64 {
	fresh := make(map[int64]int64, len(clicks))
	for sale, n := range clicks {
		if fresh[sale] = n - hs.counted[sale]; fresh[sale] < 0 {
			// the lane ended without clicks, and a new one counts from 0
			fresh[sale] = n
		}
	}
	hs.counted = clicks
	return fresh
}

// update takes the new clicks of each open sale in the time since the last update. It returns the median rate of the
// open sales but the hottest, and the changes. A sale that is no longer open is not hot.
func (hs *heats) update(now time.Time, since time.Duration, clicks map[int64]int64) (median float64, changes []change) {
	for sale := range clicks {
		if hs.bySale[sale] == nil {
			hs.bySale[sale] = &heat{}
		}
	}
	rates := make([]float64, 0, len(clicks))
	for sale, h := range hs.bySale {
		n, open := clicks[sale]
		if !open {
			delete(hs.bySale, sale)
			if !h.hotSince.IsZero() {
				changes = append(changes, change{sale, false, 0, now.Sub(h.hotSince)})
			}
			continue
		}
		h.rate = (h.rate + float64(n)/since.Seconds()) / 2
		rates = append(rates, h.rate)
	}
	if slices.Sort(rates); len(rates) > 1 {
		median = rates[(len(rates)-2)/2]
	}
	for sale, h := range hs.bySale {
		if was := h.hotSince; h.judge(now, hs.cfg, median) {
			changes = append(changes, change{sale, was.IsZero(), h.rate, now.Sub(was)})
		}
	}
	return median, changes
}

// judge decides whether the sale is hot, and reports whether that has changed.
func (h *heat) judge(now time.Time, cfg Config, median float64) (changed bool) {
	clicks, factor := float64(cfg.Clicks), float64(cfg.Factor)*median
	if h.hotSince.IsZero() {
		if h.rate >= clicks && h.rate >= factor {
			h.hotSince = now
			return true
		}
		return false
	}
	switch {
	case h.rate >= clicks/2 && h.rate >= factor/2:
		h.cooling = time.Time{}
	case h.cooling.IsZero():
		h.cooling = now
	case now.Sub(h.cooling) >= coolAfter:
		h.hotSince, h.cooling = time.Time{}, time.Time{}
		return true
	}
	return false
}

// hottest returns the hot sales, the hottest first, ten at most. left has the units left of each open sale.
func (hs *heats) hottest(left map[int64]int) []Sale {
	sales := []Sale{}
	for _, id := range slices.Sorted(maps.Keys(hs.bySale)) {
		if h := hs.bySale[id]; !h.hotSince.IsZero() {
			sales = append(sales, Sale{id, tenths(h.rate), left[id], h.hotSince})
		}
	}
	slices.SortStableFunc(sales, func(a, b Sale) int { return cmp.Compare(b.ClicksPerSecond, a.ClicksPerSecond) })
	return sales[:min(len(sales), shown)]
}

func tenths(x float64) float64 { return math.Round(x*10) / 10 }
