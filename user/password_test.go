package user

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHash(t *testing.T) {
	h := newHasher(1)
	stored, err := h.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s", stored)
	}
	again, err := h.hash(t.Context(), "correct horse")
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
		if got, err := h.check(t.Context(), c.stored, c.password); err != nil || got != c.want {
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
		if right, err := h.check(t.Context(), stored, "password"); right || !errors.Is(err, errBadHash) {
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
		go func() { left <- h.takeSlot(ctx) }()
		waited := make(chan error, 15)
		for range 15 {
			go func() { waited <- h.takeSlot(t.Context()) }()
		}
		synctest.Wait()
		if err := h.takeSlot(t.Context()); !errors.Is(err, ErrBusy) {
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

// One network gets at most half of the places.
func TestOneNetworkDoesNotFillTheQueue(t *testing.T) {
	h := newHasher(1)
	admitted := 0
	for h.admit("192.0.2.1") == nil {
		admitted++
	}
	if admitted != 8 {
		t.Errorf("one network has %d places of 17, want 8", admitted)
	}
	if err := h.admit("192.0.2.2"); err != nil {
		t.Errorf("another network: %v", err)
	}
	h.release("192.0.2.1")
	if h.admit("192.0.2.1") != nil || h.admit("192.0.2.1") == nil {
		t.Error("a released place is not free for exactly one log-in")
	}
	h.release("192.0.2.2")
	for range admitted {
		h.release("192.0.2.1")
	}
	if h.underWay != 0 || len(h.byNetwork) != 0 {
		t.Errorf("%d admitted, by network %v; want none", h.underWay, h.byNetwork)
	}
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(1)
	for b.Loop() {
		if _, err := h.hash(b.Context(), "correct horse"); err != nil {
			b.Fatal(err)
		}
	}
}
