// Package experiments measures what a crowd alone does not show: caches, queues, limits, pools, standbys. Each is in a
// file experiment_*.go, compares variants of one thing, the worst first, and has a workspace of its own in the stores.
// RunWithout sells with the shop's engine in a schema that lacks one of its defences.
package experiments

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"sync"
	"time"

	"miaosha/seckill/lab"
)

// Result compares variants of the same thing, the worst one first.
type Result struct {
	Experiment string    `json:"experiment"`
	Rows       []Finding `json:"rows"`
}

// Finding is the outcome of one variant.
type Finding struct {
	Variant string             `json:"way"`     // in English; the page translates it
	Verdict string             `json:"verdict"` // Right, Wrong, Slow, Unbounded, Unfair or Busy
	Figures map[string]float64 `json:"figures"`
	Series  []Series           `json:"series,omitempty"` // for a drawing; of the variants that have one
	Span    *Span              `json:"span,omitempty"`   // the time that the drawing marks
	paced   bool               // see there
	sure    bool               // no clock has decided the verdict
}

// Verdicts of a Finding. What is Slow, Unbounded or Unfair sells and answers exactly, and is no way to sell.
const (
	Right     = "right"
	Wrong     = "wrong"
	Slow      = "slow"
	Unbounded = "unbounded" // what waits or works at one time has no bound
	Busy      = "busy"      // the machine had too little time for this run, so it tells nothing
)

// verdict returns Right if ok, and otherwise what the variant is.
func verdict(ok bool, otherwise string) string {
	if ok {
		return Right
	}
	return otherwise
}

// Series is a figure over time.
type Series struct {
	Name   string       `json:"name"`   // of the figure; the page translates it
	Points [][2]float64 `json:"points"` // milliseconds since the variant began, and the figure
}

// Span is the time of a stall or an outage, in milliseconds since the variant began.
type Span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// variant is one variant of an experiment.
type variant struct {
	name string
	try  func(context.Context) (Finding, error)
}

// paced is for a variant whose verdict depends on times: if the machine had too little time for it, it is Busy. What is wrong at any
// pace stays wrong.
func paced(try func(context.Context) (Finding, error)) func(context.Context) (Finding, error) {
	return func(ctx context.Context) (Finding, error) {
		starved := lab.FeelPulse()
		row, err := try(ctx)
		row.paced = true
		if starved() && !row.sure {
			row.Verdict = Busy
		}
		return row, err
	}
}

// tryAll tries the variants of an experiment, one after the other.
func tryAll(ctx context.Context, variants []variant) (rows []Finding, err error) {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	for _, v := range variants {
		observedIn(ctx).change(names, rows)
		row, err := v.try(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		row.Variant = v.name
		rows = append(rows, row)
	}
	observedIn(ctx).change(names, rows)
	return rows, nil
}

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

// experiments lists the experiments in the order of the lessons. Each takes a few seconds at most.
var experiments = []struct {
	name  string
	run   func(context.Context, lab.Stores, uint64) ([]Finding, error)
	files []string
}{
	{"address", runAddress, []string{"experiment_address.go"}},
	{"limits", runLimits, []string{"experiment_limits.go", "experiment_token_bucket.go"}},
	{"late-payment", runLatePayment, []string{"experiment_late_payment.go"}},
	{"cache", runCache, []string{"experiment_cache.go", "experiment_cache_levels.go"}},
	{"cache-consistency", runCacheConsistency, []string{"experiment_cache_consistency.go"}},
	{"confirm", runConfirm, []string{"experiment_confirm.go", "experiment_confirm_consumer.go"}},
	{"hot", runHot, []string{"experiment_hot.go"}},
	{"load", runLoad, []string{"experiment_load.go"}},
	{"batch-size", runBatchSize, []string{"experiment_batch_size.go"}},
	{"retries", runRetries, []string{"experiment_retries.go"}},
	{"little", runLittle, []string{"experiment_little.go"}},
	{"fair", runFair, []string{"experiment_fair.go"}},
	{"hold", runHold, []string{"experiment_hold.go"}},
	{"failover", runFailover, []string{"experiment_failover.go"}},
	{"backup", runBackup, []string{"experiment_backup.go"}},
}

// Names returns the names of the experiments.
func Names() (names []string) {
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

// Source returns the files of an experiment, none if the experiment does not exist.
func Source(name string) (sources []lab.SourceFile) {
	for _, e := range experiments {
		if e.name != name {
			continue
		}
		for _, file := range e.files {
			text, _ := files.ReadFile(file) // a test checks that each file exists
			source, marks := lab.Marked(string(text))
			sources = append(sources, lab.SourceFile{File: file, Source: source, Marks: marks})
		}
	}
	return sources
}

//go:embed experiment_address.go experiment_limits.go experiment_token_bucket.go experiment_late_payment.go experiment_cache.go
//go:embed experiment_cache_consistency.go experiment_confirm.go experiment_confirm_consumer.go experiment_hot.go
//go:embed experiment_load.go experiment_batch_size.go experiment_retries.go experiment_little.go experiment_fair.go
//go:embed experiment_hold.go experiment_failover.go experiment_backup.go experiment_cache_levels.go
var files embed.FS

// Run runs one experiment. A seed determines the crowd; the order in which its requests
// arrive differs from run to run. It calls report ten times a second.
func Run(ctx context.Context, s lab.Stores, name string, seed uint64, report func(Progress)) (Result, error) {
	for _, e := range experiments {
		if e.name != name {
			continue
		}
		o := new(observed)
		ctx = context.WithValue(ctx, observedKey{}, o)
		defer o.observe(report)()
		rows, err := e.run(ctx, s, seed)
		if err != nil {
			return Result{}, fmt.Errorf("experiment %s: %w", name, err)
		}
		return Result{name, rows}, nil
	}
	return Result{}, fmt.Errorf("there is no experiment %q", name)
}
