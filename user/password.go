package user

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"
)

// Argon2id as in OWASP's password storage cheat sheet: 19 MiB, two passes, one lane; about 50 ms.
const (
	argonMemory = 19 * 1024 // KiB
	argonPasses = 2
	argonLanes  = 1
	saltBytes   = 16
	keyBytes    = 32
)

var errBadHash = errors.New("not an argon2id string")

// dummyHash is checked when there is no account: the work is the same, and no password matches it.
var dummyHash = encodeHash(argonMemory, make([]byte, saltBytes), make([]byte, keyBytes))

// hasher bounds the work: one hash per slot at a time, a short queue, then ErrBusy. Without it,
// log-ins could take the whole machine from the buyers of a sale.
type hasher struct {
	memory  uint32 // KiB for one hash
	slots   chan struct{}
	waiting atomic.Int32
	queue   int32
	maxWait time.Duration

	first chan struct{} // hands a slot to a caller that is ahead
	freed atomic.Int32
}

func newHasher(slots int) *hasher {
	return &hasher{memory: argonMemory, slots: make(chan struct{}, slots), queue: 16, maxWait: 2 * time.Second,
		first: make(chan struct{})}
}

// room returns how many callers in turn have a slot or a place in the queue.
func (h *hasher) room() int { return cap(h.slots) + int(h.queue) }

// hash returns the string to store for a password: $argon2id$v=19$m=...,t=...,p=...$salt$key.
func (h *hasher) hash(ctx context.Context, turn turn, password string) (string, error) {
	if err := h.takeSlot(ctx, turn); err != nil {
		return "", err
	}
	defer h.freeSlot()
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never returns an error
	return encodeHash(h.memory, salt, argon2.IDKey([]byte(password), salt, argonPasses, h.memory,
		argonLanes, keyBytes)), nil
}

// check reports whether the password matches the stored string.
func (h *hasher) check(ctx context.Context, turn turn, stored, password string) (bool, error) {
	var memory, passes uint32
	var lanes uint8
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false, errBadHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &lanes); err != nil {
		return false, fmt.Errorf("%w: %w", errBadHash, err)
	}
	if memory < 8 || memory > 256*1024 || passes < 1 || passes > 16 || lanes < 1 || lanes > 16 {
		return false, fmt.Errorf("%w: cost %s", errBadHash, parts[3])
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("%w: salt: %w", errBadHash, err)
	}
	key, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(key) < 16 {
		return false, fmt.Errorf("%w: key", errBadHash)
	}
	if err := h.takeSlot(ctx, turn); err != nil {
		return false, err
	}
	defer h.freeSlot()
	got := argon2.IDKey([]byte(password), salt, passes, memory, lanes, uint32(len(key)))
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}

// takeSlot takes a slot, or waits for one. A caller in turn waits if the queue has room, a caller
// ahead always: the door has few places for those. The caller then calls freeSlot.
func (h *hasher) takeSlot(ctx context.Context, turn turn) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	var first chan struct{} // blocks for ever in turn
	if turn == ahead {
		first = h.first
	} else {
		if h.waiting.Add(1) > h.queue {
			h.waiting.Add(-1)
			return ErrBusy
		}
		defer h.waiting.Add(-1)
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-first:
		return nil
	case <-time.After(h.maxWait):
		return ErrBusy
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w", ctx.Err())
	}
}

// freeSlot hands every second slot to a caller that is ahead, if one waits. All other slots go to the
// caller that waits longest: neither kind keeps the other out.
func (h *hasher) freeSlot() {
	if h.freed.Add(1)%2 == 0 {
		<-h.slots
		return
	}
	select {
	case h.first <- struct{}{}:
	default:
		<-h.slots
	}
}

func encodeHash(memory uint32, salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, memory, argonPasses, argonLanes, b64.EncodeToString(salt), b64.EncodeToString(key))
}
