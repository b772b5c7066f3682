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
)

const (
	codeLife  = 5 * time.Minute
	codeTries = 5
)

//go:embed code_use.lua
var codeUseSource string
var codeUse = redis.NewScript(codeUseSource)

// From is who asks for a code or brings one.
type From struct {
	Addr    string
	Browser string // a secret that the browser was given with its code; "" for none
}

// SendCode sends a one-time code of six digits to a phone and returns it with its life, for a caller who may show it
// (the sandbox only). A new code replaces the one before. ErrSMSOff, InvalidError, TooManyError.
func (s *Store) SendCode(ctx context.Context, phone string, from From) (code string, ttl time.Duration, err error) {
	if s.cfg.SMS != "console" {
		return "", 0, ErrSMSOff
	}
	if err := checkPhone(phone); err != nil {
		return "", 0, err
	}
	if err := s.limits.code(ctx, phone, from.Addr); err != nil {
		return "", 0, err
	}
	if code, err = s.codes.make(ctx, phone, from.Browser); err != nil {
		return "", 0, err
	}
	// The console is the telephone here; the log never sees a code.
	if _, err := fmt.Fprintf(s.cfg.Console, "sms to %s: your code is %s, good for %v\n", phone, code, codeLife); err != nil {
		return "", 0, fmt.Errorf("print a code: %w", err)
	}
	s.log.InfoContext(ctx, "one-time code sent", "phone", masked(phone))
	return code, codeLife, nil
}

// codes are kept in Redis as an HMAC, five minutes long, for one use. The browser that asked for a code has five tries with
// it, and all others together have five of their own: no stranger uses it up.
type codes struct {
	rdb    redis.UniversalClient
	secret []byte
}

// make draws a code for the phone and puts it in place of the one before.
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

// use takes the code for the caller, who alone has it then, or returns ErrWrongCode. giveBack undoes it, for a caller
// who could not do what the code is for.
func (c *codes) use(ctx context.Context, phone, code, browser string) (giveBack func(context.Context) error, err error) {
	key := codeKey(phone)
	reply, err := codeUse.Run(ctx, c.rdb, []string{key}, c.mac(phone, code), rand.Text(), codeTries, c.mac(phone, browser)).Text()
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
	case "WRONG", "NONE":
		return nil, ErrWrongCode
	default:
		return nil, fmt.Errorf("use the code of %s: unknown reply %q", masked(phone), reply)
	}
}

// mac is what is kept of a code. A dump of Redis alone gives none away, though there are only a million.
func (c *codes) mac(phone, code string) string {
	h := hmac.New(sha256.New, c.secret)
	fmt.Fprintf(h, "one-time code\x00%s\x00%s", phone, code)
	return hex.EncodeToString(h.Sum(nil))
}

// masked is a phone number fit for a log or an error. What is none, perhaps a password in the wrong field, is hidden whole.
func masked(phone string) string {
	if checkPhone(phone) != nil {
		return "***"
	}
	return phone[:3] + "****" + phone[len(phone)-4:]
}
