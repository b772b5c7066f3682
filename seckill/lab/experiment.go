package lab

import (
	"context"
	"fmt"
)

// ExperimentResult compares variants of the same thing, a wrong one first.
type ExperimentResult struct {
	Experiment string    `json:"experiment"`
	Rows       []Finding `json:"rows"`
}

// Finding is the outcome of one variant.
type Finding struct {
	Variant string             `json:"way"` // in English; the page translates it
	Right   bool               `json:"right"`
	Figures map[string]float64 `json:"figures"`
}

// variant is one variant of an experiment.
type variant struct {
	name string
	try  func(context.Context) (Finding, error)
}

// tryAll tries the variants of an experiment, one after the other.
func tryAll(ctx context.Context, variants []variant) ([]Finding, error) {
	rows := make([]Finding, len(variants))
	for i, v := range variants {
		row, err := v.try(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		row.Variant = v.name
		rows[i] = row
	}
	return rows, nil
}

// experiments lists the experiments in the order of the lessons. Each takes a few seconds at most.
var experiments = []struct {
	name string
	run  func(context.Context, Stores, uint64) ([]Finding, error)
}{
	{"address", runAddress},
	{"limits", runLimits},
	{"late-payment", runLatePayment},
	{"cache", runCache},
	{"cache-consistency", runCacheConsistency},
	{"confirm", runConfirm},
	{"hot", runHot},
}

// Experiments returns the names of the experiments.
func Experiments() (names []string) {
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

// RunExperiment runs one experiment. A seed determines the crowd; the order in which its requests
// arrive differs from run to run.
func RunExperiment(ctx context.Context, s Stores, name string, seed uint64) (ExperimentResult, error) {
	for _, e := range experiments {
		if e.name != name {
			continue
		}
		rows, err := e.run(ctx, s, seed)
		if err != nil {
			return ExperimentResult{}, fmt.Errorf("experiment %s: %w", name, err)
		}
		return ExperimentResult{name, rows}, nil
	}
	return ExperimentResult{}, fmt.Errorf("there is no experiment %q", name)
}
