package user

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHash(t *testing.T) {
	h := newHasher(1)
	stored, err := h.hash(t.Context(), inTurn, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s", stored)
	}
	again, err := h.hash(t.Context(), inTurn, "correct horse")
	if err != nil || again == stored {
		t.Errorf("hashed again: %s, %v; want another salt", again, err)
	}
	// From the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1
	// -l 32
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for _, c := range []struct {
		stored, password string
		want             bool
	}{{stored, "correct horse", true}, {stored, "correct horsf", false}, {stored, "", false}, {reference, "password", true}, {dummyHash, "", false}} {
		if got, err := h.check(t.Context(), inTurn, c.stored, c.password); err != nil || got != c.want {
			t.Errorf("check(%s, %s) = %v, %v; want %v", c.stored, c.password, got, err, c.want)
		}
	}
}

func TestMalformedHashes(t *testing.T) {
	h := newHasher(1)
	for _, stored := range []string{
		"", "$", "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=16$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=19$m=8,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=8,t=1,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=19$m=8,t=1,p=1$!$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q$",
	} {
		if right, err := h.check(t.Context(), inTurn, stored, "password"); right || !errors.Is(err, errBadHash) {
			t.Errorf("check(%q) = %v, %v; want errBadHash", stored, right, err)
		}
	}
}

func TestTheQueueIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(2)
		h.slots <- struct{}{}
		h.slots <- struct{}{}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- h.takeSlot(ctx, inTurn) }()
		waited := make(chan error, 15)
		for range 15 {
			go func() { waited <- h.takeSlot(t.Context(), inTurn) }()
		}
		synctest.Wait()
		if err := h.takeSlot(t.Context(), inTurn); !errors.Is(err, ErrBusy) {
			t.Errorf("the 17th caller in the queue: %v, want ErrBusy at once", err)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves: %v, want context.Canceled", err)
		}
		h.freeSlot()
		if err := <-waited; err != nil {
			t.Errorf("a caller that waits until a slot is free: %v", err)
		}
		start := time.Now()
		for range 14 {
			if err := <-waited; !errors.Is(err, ErrBusy) {
				t.Errorf("a caller that waits too long: %v, want ErrBusy", err)
			}
		}
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("gave up after %v, want 2s", waited)
		}
		if n := h.waiting.Load(); n != 0 {
			t.Errorf("%d callers are still waiting", n)
		}
	})
}

// Callers ahead receive every second slot, and do not wait in the queue of the others.
func TestCallersAheadGetEverySecondSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(1)
		h.slots <- struct{}{}
		order := make(chan turn, 20)
		wait := func(turn turn) {
			go func() {
				if err := h.takeSlot(t.Context(), turn); err != nil {
					t.Error(err)
				}
				order <- turn
			}()
			synctest.Wait() // it waits behind those before
		}
		for range h.queue {
			wait(inTurn)
		}
		wait(ahead)
		wait(ahead)
		var got []turn
		for range h.queue + 2 {
			h.freeSlot()
			got = append(got, <-order)
		}
		if got[0] != ahead || got[1] != inTurn || got[2] != ahead {
			t.Errorf("slots went to %v, want ahead in turn with the others", got)
		}
		if i := slices.Index(got[3:], ahead); i >= 0 {
			t.Errorf("slots went to %v, want the two ahead first", got)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(1)
	for b.Loop() {
		if _, err := h.hash(b.Context(), inTurn, "correct horse"); err != nil {
			b.Fatal(err)
		}
	}
}
