package lab

import (
	"context"
	"fmt"
)

// Tried is what an experiment found: the same thing done in several ways, wrong ones first.
type Tried struct {
	Experiment string  `json:"experiment"`
	Rows       []Found `json:"rows"`
}

// Found is one way and what became of it.
type Found struct {
	Way     string             `json:"way"` // in English; the page has the words of other languages
	Right   bool               `json:"right"`
	Figures map[string]float64 `json:"figures"`
}

// experiments are in the order of the lessons. Each takes a few seconds at most.
var experiments = []struct {
	name string
	try  func(context.Context, Stores, uint64) ([]Found, error)
}{
	{"address", tryAddress},
	{"limits", tryLimits},
	{"late-payment", tryLatePayment},
	{"cache", tryCache},
}

// Experiments lists the experiments' names.
func Experiments() (names []string) {
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

// Try does one experiment. The same seed gives the same crowd; which of them comes first is the machine's choice.
func Try(ctx context.Context, s Stores, name string, seed uint64) (Tried, error) {
	for _, e := range experiments {
		if e.name == name {
			rows, err := e.try(ctx, s, seed)
			if err != nil {
				return Tried{}, fmt.Errorf("experiment %s: %w", name, err)
			}
			return Tried{name, rows}, nil
		}
	}
	return Tried{}, fmt.Errorf("there is no experiment %q", name)
}
