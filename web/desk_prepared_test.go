package web

import (
	"errors"
	"sync"
	"testing"

	"github.com/maypok86/otter/v2"
)

// One caller makes a response, the others wait for it.
func TestResponseCacheMakesAResponseOnceForAllCallers(t *testing.T) {
	c := newResponseCache[int, int](10)
	made, want := 0, 0
	fresh := func(response *int) bool { return *response == want }
	for round := 1; round <= 3; round++ {
		want = round
		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() {
				got, err := c.get(7, fresh, func(old *int) (*int, error) {
					made++
					if first := round == 1; first && old != nil || !first && *old != round-1 {
						t.Errorf("round %d: the old response is %v", round, old)
					}
					return &round, nil
				})
				if err != nil || *got != round {
					t.Errorf("round %d: %v, %v", round, got, err)
				}
			})
		}
		crowd.Wait()
		if made != round {
			t.Fatalf("round %d: made %d times, want once a round", round, made)
		}
	}
	broken := errors.New("broken")
	if _, err := c.get(7, func(*int) bool { return false }, func(*int) (*int, error) { return nil, broken }); err != broken {
		t.Errorf("error %v, want that of make", err)
	}
	if got, err := c.get(7, fresh, nil); err != nil || *got != 3 {
		t.Errorf("after an error of make: %v, %v; want the old response", got, err)
	}
}

func TestResponseCacheIsBounded(t *testing.T) {
	c := newResponseCache[int, int](10)
	for key := range 1000 {
		if _, err := c.get(key, nil, func(*int) (*int, error) { return &key, nil }); err != nil {
			t.Fatal(err)
		}
	}
	all := c.entries.(*otter.Cache[int, *entry[int]])
	if all.CleanUp(); all.EstimatedSize() > 10 {
		t.Errorf("%d responses, want 10 at most", all.EstimatedSize())
	}
}
