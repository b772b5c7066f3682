// Package experiments measures what a crowd alone does not show: caches, queues, limits, pools, standbys. Each is in a
// file experiment_*.go, compares variants of one thing, the worst first, and has a workspace of its own in the stores.
// RunWithout sells with the shop's engine in a schema that lacks one of its defences.
package experiments

import (
	"context"
	"embed"
	"fmt"

	"miaosha/seckill/lab"
)

// Result compares variants of the same thing, the worst one first.
type Result struct {
	Experiment string    `json:"experiment"`
	Rows       []Finding `json:"rows"`
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
