package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// slowStore answers when it is told to.
type slowStore struct {
	mu     sync.Mutex
	asked  [][]string
	answer chan error
}

func (s *slowStore) fetch(_ context.Context, keys []string) ([][]byte, error) {
	s.mu.Lock()
	s.asked = append(s.asked, slices.Clone(keys))
	s.mu.Unlock()
	if err := <-s.answer; err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if key != "none" {
			values[i] = []byte("value of " + key)
		}
	}
	return values, nil
}

func TestOneKeyIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan error)}
		r := newReads(1, store.fetch)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if v, err := r.get(t.Context(), "a"); err != nil || string(v) != "value of a" {
					t.Errorf("get a = %q, %v", v, err)
				}
			})
		}
		synctest.Wait()
		store.answer <- nil
		all.Wait()
		if len(store.asked) != 1 {
			t.Errorf("asked %d times: %v, want once", len(store.asked), store.asked)
		}
		if len(r.open) != 0 || r.gathering != nil || len(r.slots) != 0 {
			t.Errorf("left over: %d open, gathering %v, %d slots", len(r.open), r.gathering, len(r.slots))
		}
	})
}

func TestKeysAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan error)}
		r := newReads(1, store.fetch)
		var all sync.WaitGroup
		ask := func(key, want string) {
			all.Go(func() {
				if v, err := r.get(t.Context(), key); err != nil || string(v) != want {
					t.Errorf("get %s = %q, %v; want %q", key, v, err, want)
				}
			})
		}
		ask("first", "value of first")
		synctest.Wait()
		for i := range largestBatch + 10 {
			ask(fmt.Sprint(i), fmt.Sprint("value of ", i))
		}
		ask("none", "")
		synctest.Wait()
		for range 3 {
			store.answer <- nil
		}
		all.Wait()
		var sizes []int
		for _, keys := range store.asked {
			sizes = append(sizes, len(keys))
		}
		slices.Sort(sizes)
		if want := []int{1, 11, largestBatch}; !slices.Equal(sizes, want) {
			t.Errorf("reads of %v keys, want %v", sizes, want)
		}
	})
}

func TestWhoLeavesCutsNobodyShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan error)}
		r := newReads(1, store.fetch)
		ctx, leave := context.WithCancel(t.Context())
		carrier, waiter, leaver := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		get := func(ctx context.Context, to chan error) {
			_, err := r.get(ctx, "a")
			to <- err
		}
		go get(ctx, carrier)
		synctest.Wait()
		go get(t.Context(), waiter)
		go get(ctx, leaver)
		synctest.Wait()
		leave()
		if err := <-leaver; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v, want context.Canceled", err)
		}
		store.answer <- nil
		if err := <-waiter; err != nil {
			t.Errorf("who stayed: %v", err)
		}
		<-carrier

		away := errors.New("away")
		go get(t.Context(), waiter)
		synctest.Wait()
		store.answer <- away
		if err := <-waiter; !errors.Is(err, away) {
			t.Errorf("a read that failed: %v", err)
		}
	})
}

// A session that is ended while a read of it is under way doesn't come back with that read.
