// Package hang cannot import sandboxtest.
package hang

import (
	"testing"
	"time"
)

const (
	hang  = time.Minute
	short = time.Second
)

func TestLimit(t *testing.T) {
	<-time.After(hang)
	<-time.After(short)       // want `a limit of the test's own`
	<-time.After(time.Minute) // want `a limit of the test's own`
	const local = time.Minute
	<-time.After(local) // want `a limit of the test's own`
}
