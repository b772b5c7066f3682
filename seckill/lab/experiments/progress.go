package experiments

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Progress reports how far an experiment is.
type Progress struct {
	Variants []string           `json:"ways"`    // all of them
	Rows     []Finding          `json:"rows"`    // of those that have ended
	Figures  map[string]float64 `json:"figures"` // some of those of the next one, up to now
	Elapsed  int64              `json:"elapsed_ms"`
}

// observed is a running experiment whose progress is reported.
type observed struct {
	mu      sync.Mutex
	now     Progress
	figures func() map[string]float64 // of the current variant; nil if it shows none
}

type observedKey struct{}

// observedIn returns the experiment of a context, or one that is reported to no one.
func observedIn(ctx context.Context) *observed {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		return o
	}
	return new(observed)
}

// change says that the next variant begins.
func (o *observed) change(names []string, rows []Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Variants, o.now.Rows, o.figures = names, slices.Clone(rows), nil
}

// show lets the reports of a variant contain these figures. figures is called beside the experiment.
func show(ctx context.Context, figures func() map[string]float64) {
	o := observedIn(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures = figures
}

func (o *observed) progress() Progress {
	o.mu.Lock()
	now, figures := o.now, o.figures
	o.mu.Unlock()
	if figures != nil {
		now.Figures = figures()
	}
	return now
}

// observe calls report ten times a second until the returned function is called.
func (o *observed) observe(report func(Progress)) (end func()) {
	began, over := time.Now(), make(chan struct{})
	var reports sync.WaitGroup
	reports.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			now := o.progress()
			now.Elapsed = time.Since(began).Milliseconds()
			report(now)
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		close(over)
		reports.Wait()
	}
}
