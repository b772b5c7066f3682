// Package address signs and checks hidden addresses, and draws the order in which the first requests for one are
// answered. It calls no store.
package address

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"time"

	"miaosha/seckill/purpose"
)

// ErrBad says that an address is not this buyer's, or has expired.
var ErrBad = errors.New("not this buyer's address, or it has expired")

// Signer signs and checks hidden addresses:
//
//	base64url(user, expiry in ms, HMAC-SHA-256(user, sale, expiry, session token))
//
// An address is good only for its user, in its session and its sale, until it expires. Checking one costs no I/O.
type Signer struct{ macs sync.Pool } // of *addressMAC

const addressBytes = 8 + 8 + sha256.Size

// addressMAC makes one HMAC after the other. Setting the key costs as much as hashing a text.
type addressMAC struct {
	hash.Hash
	text, sum []byte
}

var strictBase64 = base64.RawURLEncoding.Strict()

// New returns a Signer. Processes with the same secret check each other's addresses.
func New(secret []byte) *Signer { return withKey(purpose.HiddenAddress.Key(secret)) }

// withKey returns a Signer for a key.
func withKey(key []byte) *Signer {
	return &Signer{sync.Pool{New: func() any { return &addressMAC{Hash: hmac.New(sha256.New, key)} }}}
}

// Sign returns an address. In the shop, addresses come from the Engine, which asks the big gate first; load tools,
// whose operator has the secret, sign their own.
func (s *Signer) Sign(user, sale int64, token string, expiry time.Time) string {
	b := make([]byte, 0, addressBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(user))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry.UnixMilli()))
	mac := s.mac(b, sale, token)
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:]...))
}

func (s *Signer) mac(userAndExpiry []byte, sale int64, token string) [sha256.Size]byte {
	m := s.macs.Get().(*addressMAC)
	defer s.macs.Put(m)
	m.Reset()
	m.text = append(m.text[:0], userAndExpiry...)
	m.text = append(binary.BigEndian.AppendUint64(m.text, uint64(sale)), token...)
	m.Write(m.text)
	m.sum = m.Sum(m.sum[:0])
	return [sha256.Size]byte(m.sum)
}

// Verify returns the user for whom an address was made, or ErrBad.
func (s *Signer) Verify(address string, sale int64, token string, now time.Time) (user int64, err error) {
	// Several texts decode to the same bytes, and only one of them is an address. The decoder skips line breaks, so the
	// length of the text is checked too.
	if len(address) != base64.RawURLEncoding.EncodedLen(addressBytes) {
		return 0, ErrBad
	}
	var b [addressBytes]byte
	if n, err := strictBase64.Decode(b[:], []byte(address)); err != nil || n != addressBytes {
		return 0, ErrBad
	}
	if mac := s.mac(b[:16], sale, token); !hmac.Equal(b[16:], mac[:]) {
		return 0, ErrBad
	}
	if !now.Before(time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))) {
		return 0, ErrBad
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}
