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
	"miaosha/seckill/rebuild"
)

// addresses makes and checks hidden addresses:
//
//	base64url(user, expiry in ms, HMAC-SHA-256(user, sale, expiry, session token))
//
// An address is good only for its user, in its session and its sale, until it expires. Checking one costs no I/O.
type addresses struct{ macs sync.Pool } // of *addressMAC

const addressBytes = 8 + 8 + sha256.Size

// addressMAC makes one HMAC after the other. Setting the key costs as much as hashing a text.
type addressMAC struct {
	hash.Hash
	text, sum []byte
}

var strictBase64 = base64.RawURLEncoding.Strict()

func newAddresses(secret []byte) *addresses { return newMACs(purpose.HiddenAddress.Key(secret)) }

// newMACs returns what signs with a key.
func newMACs(key []byte) *addresses {
	return &addresses{sync.Pool{New: func() any { return &addressMAC{Hash: hmac.New(sha256.New, key)} }}}
}

func (a *addresses) sign(user, sale int64, token string, expiry time.Time) string {
	b := make([]byte, 0, addressBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(user))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry.UnixMilli()))
	mac := a.mac(b, sale, token)
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:]...))
}

func (a *addresses) mac(userAndExpiry []byte, sale int64, token string) [sha256.Size]byte {
	m := a.macs.Get().(*addressMAC)
	defer a.macs.Put(m)
	m.Reset()
	m.text = append(m.text[:0], userAndExpiry...)
	m.text = append(binary.BigEndian.AppendUint64(m.text, uint64(sale)), token...)
	m.Write(m.text)
	m.sum = m.Sum(m.sum[:0])
	return [sha256.Size]byte(m.sum)
}

// verify returns the user an address was made for, or ErrBadAddress.
func (a *addresses) verify(address string, sale int64, token string, now time.Time) (user int64, err error) {
	// Several texts decode to the same bytes, and only one of them is an address. The decoder skips line breaks, so the
	// length of the text is checked too.
	if len(address) != base64.RawURLEncoding.EncodedLen(addressBytes) {
		return 0, ErrBadAddress
	}
	var b [addressBytes]byte
	if n, err := strictBase64.Decode(b[:], []byte(address)); err != nil || n != addressBytes {
		return 0, ErrBadAddress
	}
	if mac := a.mac(b[:16], sale, token); !hmac.Equal(b[16:], mac[:]) {
		return 0, ErrBadAddress
	}
	if !now.Before(time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))) {
		return 0, ErrBadAddress
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// SignAddress returns an address without asking the big gate. It is for load tools, whose operator has the secret. In the shop,
// addresses come from Engine.Address.
func SignAddress(secret []byte, user, sale int64, token string, expiry time.Time) string {
	return newAddresses(secret).sign(user, sale, token, expiry)
}

// bigGate bounds the number of live hidden addresses by the units left, and puts the users it has none for in line.
type bigGate struct {
	cfg       Config
	gate      *gate.Gate
	rebuilder *rebuild.Rebuilder
	metrics   *metrics
}

// admit returns the expiry of a user's address. Refusals: see Engine.Address.
func (b *bigGate) admit(ctx context.Context, sale, user int64, now time.Time) (expiry time.Time, err error) {
	if b.cfg.gateOff() {
		return now.Add(b.cfg.AddressTTL), nil
	}
	expiry, wasted, err := b.gate.Address(ctx, sale, user, b.cfg.AddressTTL, b.cfg.GateFactor)
	if errors.Is(err, gate.ErrNoGate) && b.rebuilder.Rebuild(ctx, sale) == nil {
		expiry, wasted, err = b.gate.Address(ctx, sale, user, b.cfg.AddressTTL, b.cfg.GateFactor)
	}
	b.metrics.wasted.Add(float64(wasted))
	return expiry, b.metrics.refusal("path", err)
}
