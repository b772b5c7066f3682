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

// slowStore replies when the test sends to reply.
type slowStore struct {
	mu    sync.Mutex
	calls [][]string
	reply chan error
}

func (s *slowStore) fetch(_ context.Context, keys []string) ([][]byte, error) {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(keys))
	s.mu.Unlock()
	if err := <-s.reply; err != nil {
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
		store := &slowStore{reply: make(chan error)}
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
		store.reply <- nil
		all.Wait()
		if len(store.calls) != 1 {
			t.Errorf("%d reads: %v, want one", len(store.calls), store.calls)
		}
		if len(r.open)+len(r.slots) != 0 || r.gathering != nil {
			t.Errorf("after the reads: %d open, gathering %v, %d slots; want none", len(r.open), r.gathering, len(r.slots))
		}
	})
}

func TestKeysAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{reply: make(chan error)}
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
			store.reply <- nil
		}
		all.Wait()
		var sizes []int
		for _, keys := range store.calls {
			sizes = append(sizes, len(keys))
		}
		slices.Sort(sizes)
		if want := []int{1, 11, largestBatch}; !slices.Equal(sizes, want) {
			t.Errorf("reads of %v keys, want %v", sizes, want)
		}
	})
}

func TestACallerThatLeavesDoesNotEndTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{reply: make(chan error)}
		r := newReads(1, store.fetch)
		ctx, leave := context.WithCancel(t.Context())
		first, waiter, leaver := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		get := func(ctx context.Context, to chan error) {
			_, err := r.get(ctx, "a")
			to <- err
		}
		go get(ctx, first)
		synctest.Wait()
		go get(t.Context(), waiter)
		go get(ctx, leaver)
		synctest.Wait()
		leave()
		if err := <-leaver; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left: %v, want context.Canceled", err)
		}
		store.reply <- nil
		if err := <-waiter; err != nil {
			t.Errorf("the caller that stayed: %v", err)
		}
		<-first

		failure := errors.New("unavailable")
		go get(t.Context(), waiter)
		synctest.Wait()
		store.reply <- failure
		if err := <-waiter; !errors.Is(err, failure) {
			t.Errorf("a read that failed: %v, want %v", err, failure)
		}
	})
}
