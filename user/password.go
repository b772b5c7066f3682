package user

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"
)

// Argon2id as OWASP's password storage cheat sheet asks for it: 19 MiB, two passes, one lane; about 50 ms.
const (
	argonMemory = 19 * 1024 // KiB
	argonPasses = 2
	argonLanes  = 1
	saltBytes   = 16
	keyBytes    = 32
)

var errBadHash = errors.New("not an argon2id string")

// nobody's hash is what a password is checked against when there is no account to check it against: the work is the
// same, and no password fits.
var nobody = encodeHash(make([]byte, saltBytes), make([]byte, keyBytes))

// hasher bounds the work: as many at once as it has slots, a short queue, then ErrBusy. Hashes would otherwise take
// the whole machine from those who buy.
type hasher struct {
	slots    chan struct{}
	waiting  atomic.Int32
	queue    int32
	patience time.Duration

	mu     sync.Mutex
	inside int            // log-ins under way
	of     map[string]int // by network
}

func newHasher(slots int) *hasher {
	return &hasher{slots: make(chan struct{}, slots), queue: 16, patience: 2 * time.Second, of: map[string]int{}}
}

// admit lets as many log-ins begin as can be served or queued, and of one network half of them, before they cost a question
// to Redis or Postgres. Who is let calls dismiss in the end.
func (h *hasher) admit(network string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := cap(h.slots) + int(h.queue); h.inside >= room || h.of[network] >= room/2 {
		return ErrBusy
	}
	h.inside++
	h.of[network]++
	return nil
}

func (h *hasher) dismiss(network string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside--
	if h.of[network]--; h.of[network] == 0 {
		delete(h.of, network)
	}
}

// hash returns the string to keep for a password: $argon2id$v=19$m=...,t=...,p=...$salt$key.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails: it ends the program instead
	return encodeHash(salt, argon2.IDKey([]byte(password), salt, argonPasses, argonMemory, argonLanes, keyBytes)), nil
}

// check reports whether the password is the one behind the kept string.
func (h *hasher) check(ctx context.Context, kept, password string) (bool, error) {
	var memory, passes uint32
	var lanes uint8
	parts := strings.Split(kept, "$")
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
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	got := argon2.IDKey([]byte(password), salt, passes, memory, lanes, uint32(len(key)))
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}

// enter takes a slot, or waits for one in the queue if that has room.
func (h *hasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	if h.waiting.Add(1) > h.queue {
		h.waiting.Add(-1)
		return ErrBusy
	}
	defer h.waiting.Add(-1)
	timer := time.NewTimer(h.patience)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return ErrBusy
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w", ctx.Err())
	}
}

func (h *hasher) leave() { <-h.slots }

func encodeHash(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, argonMemory, argonPasses, argonLanes, b64.EncodeToString(salt), b64.EncodeToString(key))
}
