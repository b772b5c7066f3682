//go:build !linux

package sandboxtest

import "testing"

// Slowest keeps no input here.
func Slowest(*testing.F) func(input ...any) func() {
	return func(...any) func() { return func() {} }
}
