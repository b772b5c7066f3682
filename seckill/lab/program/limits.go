package program

import (
	"context"
	"time"
)

// Limits are the times that a program has, and how many schedules are searched. A test that is about none of these
// sets them so that no machine is too slow.
type Limits struct {
	Compile   time.Duration // the source
	Statement time.Duration // the longest
	Search    time.Duration // of one plan; twice that for two buyers with one move at most; see search.more
	Schedules int           // of one plan
	Trial     time.Duration // of one schedule; twice that when it is run again
}

type limitsKey struct{}

// WithLimits returns a context in which programs have these limits.
func WithLimits(ctx context.Context, l Limits) context.Context {
	return context.WithValue(ctx, limitsKey{}, l)
}

// LimitsIn returns the limits of a context, or those of a program of the pages.
func LimitsIn(ctx context.Context) Limits {
	if l, ok := ctx.Value(limitsKey{}).(Limits); ok {
		return l
	}
	return Limits{Compile: 4 * time.Second, Statement: 2 * time.Second, Search: 4 * time.Second, Schedules: 1200,
		Trial: 3 * time.Second}
}
