package gate

import (
	"strings"
	"testing"
)

// All keys of a sale are in one slot of a Cluster, so that one script may use them together.
func TestKeysOfASaleShareASlot(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range []string{GateKey(7), TicketsKey(7), JournalKey(7), TakeoversKey(7), formerJournalKey(7), AddressesKey(7), WaitingKey(7), waitingUntilKey(7),
		WastedKey(7), seedingKey(7), RefusingKey(7), DeadKey(7), SumOfSale(7, "a").Key(), SumOfSale(7, "b").Key()} {
		if !strings.HasPrefix(k, "ms:{7}:") || seen[k] {
			t.Errorf("%q: want the hash tag {7}, and a key of its own", k)
		}
		seen[k] = true
	}
	if strings.Contains(SumOfSale(7, "secret").Key(), "secret") {
		t.Error("a key contains a session's token")
	}
}
