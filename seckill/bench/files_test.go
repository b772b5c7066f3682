//go:build unix

package bench

import (
	"strings"
	"testing"
)

func TestRoomFor(t *testing.T) {
	if err := RoomFor(10); err != nil {
		t.Error(err)
	}
	if err := RoomFor(1 << 40); err == nil || !strings.HasPrefix(err.Error(), "--conns: ") || !strings.Contains(err.Error(), "ulimit -n 1099511627976") {
		t.Errorf("%v, want one that tells of ulimit", err)
	}
}
