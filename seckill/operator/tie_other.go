//go:build !linux

package operator

import "os/exec"

// tie does nothing here: a shop whose bench is killed goes on until somebody ends it.
func tie(*exec.Cmd) {}
