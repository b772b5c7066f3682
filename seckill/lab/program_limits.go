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

func limitsIn(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	return limits{Compile: 4 * time.Second, Statement: 2 * time.Second, Search: 4 * time.Second, Schedules: 1200, Trial: 3 * time.Second}
}
