package backend

import (
	"context"
	"time"
)

// SetClock makes the replica read the time of clock. It must be called before Run.
func (r *Replica) SetClock(clock func() time.Time) { r.now = clock }

// Look makes Run look at both servers now, and returns when it has.
func (r *Replica) Look(ctx context.Context) error { return r.looks.Now(ctx) }
