package web

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"

	"miaosha/goods"
)

func TestAListIsGoodUntilSomethingItSaysMayHaveChanged(t *testing.T) {
	now := time.Now()
	read, again := []goods.Sale{{ID: 1}, {ID: 2}}, []goods.Sale{{ID: 1}, {ID: 2}}
	for name, c := range map[string]struct {
		list
		rows []goods.Sale
		want bool
	}{
		"as made":              {list{rows: read, made: now}, read, true},
		"of nothing":           {list{made: now}, []goods.Sale{}, true},
		"read anew":            {list{rows: read, made: now}, again, false},
		"fewer":                {list{rows: read, made: now}, read[:1], false},
		"left may be other":    {list{rows: read, made: now.Add(-listLife)}, read, false},
		"before a sale begins": {list{rows: read, made: now, turn: now.Add(1)}, read, true},
		"as a sale begins":     {list{rows: read, made: now, turn: now}, read, false},
	} {
		if got := c.good(c.rows, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestADetailIsGoodUntilSomethingItSaysHasChanged(t *testing.T) {
	now := time.Now()
	was := goods.Sale{ID: 1, Title: "T", StartsAt: now}
	retitled, moved := was, was
	retitled.Title, moved.StartsAt = "U", now.Add(1)
	d := detail{of: was, left: 3, state: "open"}
	if !d.good(was, 3, "open") || d.good(retitled, 3, "open") || d.good(moved, 3, "open") || d.good(was, 2, "open") || d.good(was, 3, "paused") {
		t.Errorf("%+v", d)
	}
}

func TestShelvesAreFilledOnceForAllWhoAsk(t *testing.T) {
	s := newShelves[int, int](10)
	made, want := 0, 0
	good := func(is *int) bool { return *is == want }
	for round := 1; round <= 3; round++ {
		want = round
		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() {
				if is, err := s.get(7, good, func(was *int) (*int, error) {
					if made++; round > 1 && *was != round-1 || round == 1 && was != nil {
						t.Errorf("round %d: made from %v", round, was)
					}
					return &round, nil
				}); err != nil || *is != round {
					t.Errorf("round %d: %v, %v", round, is, err)
				}
			})
		}
		crowd.Wait()
		if made != round {
			t.Fatalf("round %d: made %d times", round, made)
		}
	}
	broken := errors.New("broken")
	if _, err := s.get(7, func(*int) bool { return false }, func(*int) (*int, error) { return nil, broken }); err != broken {
		t.Errorf("%v, want what went wrong", err)
	}
	if is, err := s.get(7, good, nil); err != nil || *is != 3 {
		t.Errorf("after a failure %v, %v: want what lay there", is, err)
	}
	for key := range 1000 {
		s.get(key, good, func(*int) (*int, error) { return &key, nil })
	}
	all := s.of.(*otter.Cache[int, *shelf[int]])
	if all.CleanUp(); all.EstimatedSize() > 10 {
		t.Errorf("%d shelves, want 10 at most", all.EstimatedSize())
	}
}
