package audit

import (
	"context"
	"time"
)

// Hurry makes Run audit at once, and then again at this interval.
func (m *Monitor) Hurry(every time.Duration) { m.first, m.every = 0, every }

// Read reads both stores once.
func (g *Gauges) Read(ctx context.Context) { g.read(ctx) }
