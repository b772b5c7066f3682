package seckill

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"time"

	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
)

// paths makes and checks hidden addresses:
//
//	base64url(user, expiry in ms, HMAC-SHA-256(user, sale, expiry, session token))
//
// An address is good only for its user, in its session and its sale, until it expires. Checking one costs no I/O.
type paths struct{ macs sync.Pool } // of *pathMAC

const pathBytes = 8 + 8 + sha256.Size

// pathMAC makes one HMAC after the other. Setting the key costs as much as hashing a text.
type pathMAC struct {
	hash.Hash
	text, sum []byte
}

var strictBase64 = base64.RawURLEncoding.Strict()

func newPaths(secret []byte) *paths { return newMACs(purpose.HiddenAddress.Key(secret)) }

// newMACs returns what signs with a key.
func newMACs(key []byte) *paths {
	return &paths{sync.Pool{New: func() any { return &pathMAC{Hash: hmac.New(sha256.New, key)} }}}
}

func (p *paths) sign(user, sale int64, token string, expiry time.Time) string {
	b := make([]byte, 0, pathBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(user))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry.UnixMilli()))
	mac := p.mac(b, sale, token)
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:]...))
}

func (p *paths) mac(userAndExpiry []byte, sale int64, token string) [sha256.Size]byte {
	m := p.macs.Get().(*pathMAC)
	defer p.macs.Put(m)
	m.Reset()
	m.text = append(m.text[:0], userAndExpiry...)
	m.text = append(binary.BigEndian.AppendUint64(m.text, uint64(sale)), token...)
	m.Write(m.text)
	m.sum = m.Sum(m.sum[:0])
	return [sha256.Size]byte(m.sum)
}

// verify returns the user an address was made for, or ErrBadPath.
func (p *paths) verify(path string, sale int64, token string, now time.Time) (user int64, err error) {
	// Several texts decode to the same bytes, and only one of them is an address. The decoder skips line breaks, so the
	// length of the text is checked too.
	if len(path) != base64.RawURLEncoding.EncodedLen(pathBytes) {
		return 0, ErrBadPath
	}
	var b [pathBytes]byte
	if n, err := strictBase64.Decode(b[:], []byte(path)); err != nil || n != pathBytes {
		return 0, ErrBadPath
	}
	if mac := p.mac(b[:16], sale, token); !hmac.Equal(b[16:], mac[:]) {
		return 0, ErrBadPath
	}
	if !now.Before(time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))) {
		return 0, ErrBadPath
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// SignPath returns an address without asking the big gate. It is for load tools, whose operator has the secret. In the shop,
// addresses come from Engine.Path.
func SignPath(secret []byte, user, sale int64, token string, expiry time.Time) string {
	return newPaths(secret).sign(user, sale, token, expiry)
}

// bigGate bounds the number of live hidden addresses by the units left, and puts the users it has none for in line.
type bigGate struct {
	cfg       Config
	gate      *gate.Gate
	rebuilder *rebuilder
	metrics   *metrics
}

// admit returns the expiry of a user's address. Refusals: see Engine.Path.
func (b *bigGate) admit(ctx context.Context, sale, user int64, now time.Time) (expiry time.Time, err error) {
	if b.cfg.gateOff() {
		return now.Add(b.cfg.PathTTL), nil
	}
	expiry, wasted, err := b.gate.Path(ctx, sale, user, b.cfg.PathTTL, b.cfg.GateFactor)
	if errors.Is(err, gate.ErrNoGate) && b.rebuilder.rebuild(ctx, sale) == nil {
		expiry, wasted, err = b.gate.Path(ctx, sale, user, b.cfg.PathTTL, b.cfg.GateFactor)
	}
	b.metrics.wasted.Add(float64(wasted))
	return expiry, b.metrics.refusal("path", err)
}
