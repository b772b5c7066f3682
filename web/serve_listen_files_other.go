//go:build !unix

package web

import "math"

// fileLimit returns how many files and connections this process may open.
func fileLimit() int { return math.MaxInt32 }
