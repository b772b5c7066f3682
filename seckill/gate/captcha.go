package gate

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// SaveCaptcha keeps the answer to a session's sum in a sale for a minute. It replaces any earlier answer.
func (g *Gate) SaveCaptcha(ctx context.Context, sale int64, token, answer string) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return g.rdb.Set(ctx, CaptchaKey(sale, token), answer, captchaLife).Err()
	})
}

// TakeCaptcha returns the kept answer and deletes it, so that each sum has one try. "" means that there is none.
func (g *Gate) TakeCaptcha(ctx context.Context, sale int64, token string) (answer string, err error) {
	return guarded(ctx, g, callLimit, func(ctx context.Context) (string, error) {
		answer, err := g.rdb.GetDel(ctx, CaptchaKey(sale, token)).Result()
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		return answer, err
	})
}
