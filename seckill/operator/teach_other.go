//go:build !linux

package operator

import (
	"context"
	"errors"
	"time"
)

const canStop = false

func pauseProcesses(context.Context, time.Duration, int) error {
	return errors.New("only Linux can stop the servers of the sandbox safely")
}

// Resume is a command of Linux alone.
type Resume struct {
	After time.Duration `arg:""`
}

// Run does nothing.
func (Resume) Run() error { return nil }
