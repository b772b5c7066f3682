//go:build unix

package bench

import (
	"strings"
	"testing"
)

func TestRaiseFileLimit(t *testing.T) {
	if err := RaiseFileLimit(10); err != nil {
		t.Error(err)
	}
	err := RaiseFileLimit(1 << 40)
	if err == nil {
		t.Fatal("no error for 2^40 connections")
	}
	if !strings.Contains(err.Error(), "ulimit -n 1099511627976") {
		t.Errorf("got %v, want an error with the ulimit command", err)
	}
	if !strings.HasPrefix(err.Error(), "--conns: ") {
		t.Errorf("got %v, want an error that begins with --conns", err)
	}
}
