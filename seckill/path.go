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
)

// paths makes and checks hidden addresses:
//
//	base64url(user, expiry in ms, HMAC-SHA-256(user, sale, expiry, session token))
//
// An address is worth something only to the user, in the session and in the sale it was given for, until it runs out.
// Checking one costs no I/O.
type paths struct{ macs sync.Pool } // of hash.Hash, keyed: a key costs as much as the text

const pathBytes = 8 + 8 + sha256.Size

func newPaths(secret []byte) *paths {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("miaosha hidden address"))
	key := mac.Sum(nil)
	return &paths{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (p *paths) sign(user, sale int64, token string, expiry time.Time) string {
	b := make([]byte, 0, pathBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(user))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry.UnixMilli()))
	b = append(b, p.mac(b, sale, token)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (p *paths) mac(userAndExpiry []byte, sale int64, token string) []byte {
	mac := p.macs.Get().(hash.Hash)
	defer p.macs.Put(mac)
	mac.Reset()
	text := append(make([]byte, 0, 80), userAndExpiry...)
	text = append(binary.BigEndian.AppendUint64(text, uint64(sale)), token...)
	mac.Write(text)
	return mac.Sum(nil)
}

// verify gives the user an address was made for, or ErrBadPath.
func (p *paths) verify(path string, sale int64, token string, now time.Time) (user int64, err error) {
	// Of the spellings that decode to the same bytes only one is an address: the decoder skips line breaks, so the length
	// is that of the text.
	if len(path) != base64.RawURLEncoding.EncodedLen(pathBytes) {
		return 0, ErrBadPath
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(path)
	if err != nil || len(b) != pathBytes {
		return 0, ErrBadPath
	}
	if !hmac.Equal(b[16:], p.mac(b[:16], sale, token)) {
		return 0, ErrBadPath
	}
	if !now.Before(time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))) {
		return 0, ErrBadPath
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// SignPath makes an address without asking the big gate: for load tools, whose operator holds the secret. In the shop
// addresses come from Path.
func SignPath(secret []byte, user, sale int64, token string, expiry time.Time) string {
	return newPaths(secret).sign(user, sale, token, expiry)
}

// Path gives a user the hidden address of a sale, inside the window and as far as the big gate allows. captcha is his
// answer to the sum, which is used up by the try. Refusals: goods.ErrNoSale, goods.NotStartedError, goods.ErrEnded,
// goods.ErrPaused, goods.ErrSoldOut, ErrWrongCaptcha, TooManyError, ErrBusy.
func (e *Engine) Path(ctx context.Context, sale, user int64, token, captcha string) (path string, expiry time.Time, err error) {
	s, _, err := e.cache.Sale(ctx, sale)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := s.Window(e.clock.now()); err != nil {
		return "", time.Time{}, err
	}
	if err := e.checkCaptcha(ctx, sale, token, captcha); err != nil {
		return "", time.Time{}, err
	}
	if e.cfg.Gate == "off" {
		expiry = e.clock.now().Add(e.cfg.PathTTL)
		return e.paths.sign(user, sale, token, expiry), expiry, nil
	}
	ask := func(ctx context.Context) error {
		expiry, err = e.gate.path(ctx, sale, user, e.cfg.PathTTL, e.cfg.GateFactor)
		return err
	}
	if err = e.ask(ctx, redisLimit, ask); errors.Is(err, errNoGate) && e.rebuild(ctx, sale) == nil {
		err = e.ask(ctx, redisLimit, ask)
	}
	if err := e.asRefusal("path", err); err != nil {
		return "", time.Time{}, err
	}
	return e.paths.sign(user, sale, token, expiry), expiry, nil
}

// CheckPath tells whether path is this user's address of the sale, by arithmetic alone. It gives the user it names.
func (e *Engine) CheckPath(sale int64, token, path string) (user int64, err error) {
	return e.paths.verify(path, sale, token, e.clock.now())
}
