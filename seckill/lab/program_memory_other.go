//go:build !linux

package lab

// limitMemory does nothing: watchMemory is the only limit here.
func limitMemory(uint64) {}
