//go:build !linux

package throwaway

import (
	"os"
	"os/exec"
)

// supported reports whether a wrapper can find all processes of a server and end them.
const supported = false

func ownGroup(*exec.Cmd) {}

// Run is never called: Start refuses.
func Run() { os.Exit(2) }
