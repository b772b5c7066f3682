package bench

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A buyer without a hidden address requests one. A buyer who is refused as busy tries again, if the
// shape has retries.
func TestRefusedBuyersRetry(t *testing.T) {
	url, clicks := shopWithReplies(t, "202 "+queued, "BUSY-ONCE")
	turns, err := Run(t.Context(), Config{URL: url, Sale: 7, Shape: "second", Seconds: 1, Conns: 2, Poll: 100}, []Buyer{{Token: "t"}, {Token: "t", Path: "1"}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Counts{Offered: 2, Requests: 6, Accepted: 2, Refused: 1, Known: 2}, turns[0].Counts); diff != "" {
		t.Error(diff)
	}
	if n := clicks.Load(); n != 3 {
		t.Errorf("%d clicks, want 3", n)
	}
}
