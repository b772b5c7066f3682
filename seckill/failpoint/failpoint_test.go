//go:build faults

package failpoint

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestArm(t *testing.T) {
	armed = arm("F1=error@2*2; F2=drop%0; F3=sleep:30ms*1;F4=drop")
	want := []error{nil, ErrInjected, ErrInjected, nil}
	for i, w := range want {
		if got := Hit(F1); !errors.Is(got, w) {
			t.Errorf("pass %d of F1: %v, want %v", i+1, got, w)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := errors.Join(Hit(F2), Hit(F3), Hit(F5)); err != nil || time.Since(began) != 30*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	if err := Hit(F4); !errors.Is(err, ErrDrop) {
		t.Errorf("%v, want ErrDrop", err)
	}
	for _, wrong := range []string{"F1", "F1=stop", "F1=sleep", "F1=kill@x", "F3=sleep:3", "F11=kill", "F1=kill%1.2.3", "F1=kill:5s", "F1=kill@99999999999999999999"} {
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
