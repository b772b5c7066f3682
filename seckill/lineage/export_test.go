package lineage

import "context"

// Round makes one round of Run.
func (l *Lineage) Round(ctx context.Context) { l.round(ctx) }

// Process returns what the process is called in Redis.
func (l *Lineage) Process() string { return l.process() }

const ProcessesKey = processesKey
