//go:build faults

package failpoint

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestArm(t *testing.T) {
	armed = arm("BeforeReserve=error@2*2; AfterReserve=drop%0; BeforeBegin=sleep:30ms*1;BeforeCommit=drop")
	want := []error{nil, ErrInjected, ErrInjected, nil}
	for i, w := range want {
		if got := Hit(BeforeReserve); !errors.Is(got, w) {
			t.Errorf("pass %d of BeforeReserve: %v, want %v", i+1, got, w)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := errors.Join(Hit(AfterReserve), Hit(BeforeBegin), Hit(BeforeAck)); err != nil || time.Since(began) != 30*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	if err := Hit(BeforeCommit); !errors.Is(err, ErrDrop) {
		t.Errorf("%v, want ErrDrop", err)
	}
	for _, wrong := range []string{"BeforeReserve", "BeforeReserve=halt", "BeforeReserve=sleep", "BeforeReserve=kill@x", "BeforeBegin=sleep:3", "Between=kill", "BeforeReserve=kill%1.2.3", "BeforeReserve=kill:5s", "BeforeReserve=kill@99999999999999999999"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken", wrong)
				}
			}()
			arm(wrong)
		}()
	}
}
