package lab

import (
	"context"
	"time"
)

// limits are the times that a program has, and how many schedules are searched. A test that is about none of these
// sets them so that no machine is too slow.
type limits struct {
	Compile   time.Duration // the source
	Statement time.Duration // the longest
	Search    time.Duration // of one plan; twice that for two buyers with one move at most; see search.more
	Schedules int           // of one plan
	Trial     time.Duration // of one schedule; twice that when it is run again
}

type limitsKey struct{}

// withLimits returns a context in which programs have these limits.
func withLimits(ctx context.Context, l limits) context.Context {
	return context.WithValue(ctx, limitsKey{}, l)
}

// limitsIn returns the limits of a context, or those of a program of the pages.
func limitsIn(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	return limits{Compile: 4 * time.Second, Statement: 2 * time.Second, Search: 4 * time.Second, Schedules: 1200, Trial: 3 * time.Second}
}
