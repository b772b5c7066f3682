package user

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/purpose"
)

const (
	codeTries  = 5
	codeDigits = 6
)

// codeLife is the life of a code: a message may take minutes, and a guesser has five tries in them.
var codeLife = purpose.OneTimeCode.Life

//go:embed code_use.lua
var codeUseSource string
var codeUse = redis.NewScript(codeUseSource)

// From is the origin of a request that asks for a code, uses one or logs in.
type From struct {
	Addr    string
	Browser string // a secret that the browser received with its code; "" for none, in which no code is good
	Device  string // the cookie of an earlier log-in (LoggedIn.Device); "" for none
	Solved  bool   // the caller has checked the answer to a sum: nothing returns ErrSolveFirst
}

// SendsCodes reports whether the shop sends one-time codes.
func (s *Store) SendsCodes() bool { return s.cfg.SMS == "console" }

// SendCode sends a one-time code of six digits to a phone. It returns the code, which only the
// sandbox may show, and its lifetime. It replaces the last code. ErrSMSOff, InvalidError,
// TooManyError, ErrSolveFirst while the whole shop has sent many.
func (s *Store) SendCode(ctx context.Context, phone string, from From) (code string, ttl time.Duration, err error) {
	if !s.SendsCodes() {
		return "", 0, ErrSMSOff
	}
	if err := CheckPhone(phone); err != nil {
		return "", 0, err
	}
	if err := s.limits.code(ctx, phone, from); err != nil {
		return "", 0, err
	}
	if code, err = s.codes.make(ctx, phone, from.Browser); err != nil {
		return "", 0, err
	}
	// The console stands for the phone; the log never has a code.
	if _, err := fmt.Fprintf(s.cfg.Console, "sms to %s: your code is %s, valid for %v\n", phone, code,
		codeLife); err != nil {
		return "", 0, fmt.Errorf("print a code: %w", err)
	}
	s.log.InfoContext(ctx, "one-time code sent", "phone", masked(phone))
	return code, codeLife, nil
}

// codes keeps one-time codes in Redis, as HMACs, for five minutes and one use. A code is good in the
// browser that asked for it, which has five tries: no stranger can guess a code or use it up.
type codes struct {
	rdb redis.UniversalClient
	key []byte // of purpose.OneTimeCode
}

// make draws a code for the phone. It replaces the one before.
func (c *codes) make(ctx context.Context, phone, browser string) (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("draw a code: %w", err)
	}
	code := fmt.Sprintf("%06d", n)
	key := codeKey(phone)
	_, err = c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, key)
		p.HSet(ctx, key, "mac", c.mac(phone, code), "browser", c.mac(phone, browser))
		p.PExpire(ctx, key, codeLife)
		return nil
	})
	if err != nil {
		return "", fault(err, "keep the code of %s", masked(phone))
	}
	return code, nil
}

// errNoCode is an ErrWrongCode that told the caller nothing about a code.
var errNoCode = fmt.Errorf("%w: none for this browser", ErrWrongCode)

// use takes the code: no other caller can use it. Otherwise it returns ErrWrongCode, or errNoCode if
// there is none to try. A caller that then fails calls giveBack, and the code can be used again.
func (c *codes) use(
	ctx context.Context, phone, code, browser string,
) (giveBack func(context.Context) error, err error) {
	if browser == "" {
		return nil, errNoCode
	}
	key := codeKey(phone)
	reply, err := codeUse.Run(ctx, c.rdb, []string{key}, c.mac(phone, code), rand.Text(), codeTries,
		c.mac(phone, browser)).Text()
	if err != nil {
		return nil, fault(err, "use the code of %s", masked(phone))
	}
	switch reply {
	case "RIGHT":
		return func(ctx context.Context) error {
			if err := c.rdb.HDel(ctx, key, "winner").Err(); err != nil {
				return fault(err, "give back the code of %s", masked(phone))
			}
			return nil
		}, nil
	case "WRONG":
		return nil, ErrWrongCode
	case "NONE":
		return nil, errNoCode
	default:
		return nil, fmt.Errorf("use the code of %s: unknown reply %q", masked(phone), reply)
	}
}

// mac returns the HMAC that is kept of a code. A dump of Redis alone reveals no code, though there
// are only a million.
func (c *codes) mac(phone, code string) string {
	h := hmac.New(sha256.New, c.key)
	fmt.Fprintf(h, "%s\x00%s", phone, code)
	return hex.EncodeToString(h.Sum(nil))
}

// masked returns a phone number for a log or an error: 138****6666. Any other text is hidden
// completely, since it may be a password in the wrong field.
func masked(phone string) string {
	if CheckPhone(phone) != nil {
		return "***"
	}
	return phone[:3] + "****" + phone[len(phone)-4:]
}
