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
	kept, err := h.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(kept, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("kept as %s", kept)
	}
	again, err := h.hash(t.Context(), "correct horse")
	if err != nil || again == kept {
		t.Errorf("hashed twice: %s, %v; want another salt", again, err)
	}
	// From the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for _, c := range []struct {
		kept, password string
		want           bool
	}{{kept, "correct horse", true}, {kept, "correct horsf", false}, {kept, "", false}, {reference, "password", true}, {nobody, "", false}} {
		if got, err := h.check(t.Context(), c.kept, c.password); err != nil || got != c.want {
			t.Errorf("check(%s, %s) = %v, %v; want %v", c.kept, c.password, got, err, c.want)
		}
	}
}

func TestMalformedHashes(t *testing.T) {
	h := newHasher(1)
	for _, kept := range []string{
		"", "$", "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=16$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=19$m=8,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=8,t=1,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q", "$argon2id$v=19$m=8,t=1,p=1$!$CTFhFdXPJO1aFaMaO6Mm5Q",
		"$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q$",
	} {
		if right, err := h.check(t.Context(), kept, "password"); right || !errors.Is(err, errBadHash) {
			t.Errorf("check(%q) = %v, %v; want errBadHash", kept, right, err)
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
		go func() { left <- h.enter(ctx) }()
		waited := make(chan error, 15)
		for range 15 {
			go func() { waited <- h.enter(t.Context()) }()
		}
		synctest.Wait()
		if err := h.enter(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("the 17th in the queue: %v, want ErrBusy at once", err)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves: %v, want context.Canceled", err)
		}
		h.leave()
		if err := <-waited; err != nil {
			t.Errorf("who waits while a slot comes free: %v", err)
		}
		start := time.Now()
		for range 14 {
			if err := <-waited; !errors.Is(err, ErrBusy) {
				t.Errorf("who waits in vain: %v, want ErrBusy", err)
			}
		}
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("gave up after %v, want 2s", waited)
		}
		if n := h.waiting.Load(); n != 0 {
			t.Errorf("%d still waiting", n)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(1)
	for b.Loop() {
		if _, err := h.hash(b.Context(), "correct horse"); err != nil {
			b.Fatal(err)
		}
	}
}
