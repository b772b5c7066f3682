//go:build !linux

package boundary

import "time"

// limitMemory does nothing: watchMemory is the only limit here.
func limitMemory(uint64) {}

func limitProcessor(time.Duration) {}
