package gate

import (
	"strings"
	"testing"
)

// A verdict that no script returns is a fault, never a refusal.
func TestUnknownVerdicts(t *testing.T) {
	for _, reply := range []string{"", "OK", "new", "EARLY x"} {
		verdict, argument, _ := strings.Cut(reply, " ")
		if err := refusal(verdict, argument); err == nil || IsRefusal(err) {
			t.Errorf("%q: %v, want a fault", reply, err)
		}
	}
}
