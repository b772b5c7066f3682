package gate

import (
	"context"
	"fmt"
	"time"
)

// SaveCaptcha keeps the answer to a sum for the life of its purpose. It replaces any earlier answer, which stays known
// as replaced. No answer is judged before the time from; zero for no such time.
func (g *Gate) SaveCaptcha(ctx context.Context, sum SumOf, answer string, from time.Time) error {
	var ms int64
	if !from.IsZero() {
		ms = from.UnixMilli()
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return drawScript.Run(ctx, g.rdb, []string{sum.Key()}, answer, ms, sum.purpose.Life.Milliseconds()).Err()
	})
}

// TakeCaptcha returns the kept answer, with the time before which none is judged, and deletes it, so that each sum has
// one try. "" means that there is none. stale reports that given is the answer to a sum that was replaced by a newer
// one, which is then not deleted.
func (g *Gate) TakeCaptcha(
	ctx context.Context, sum SumOf, given string,
) (answer string, from time.Time, stale bool, err error) {
	reply, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]any, error) {
		return takeScript.Run(ctx, g.rdb, []string{sum.Key()}, given).Slice()
	})
	if err != nil {
		return "", time.Time{}, false, err
	}
	if len(reply) != 2 {
		return "", time.Time{}, false, fmt.Errorf("take a captcha of sale %d: the script returned %v", sum.sale, reply)
	}
	kept, _ := reply[0].(string)
	var ms int64
	fmt.Sscan(kept, &answer, &ms) // the second word may be missing
	if ms > 0 {
		from = time.UnixMilli(ms)
	}
	return answer, from, reply[1] == int64(1), nil
}
