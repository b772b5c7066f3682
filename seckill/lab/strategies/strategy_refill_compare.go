package strategies

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// refillCompare asks Postgres when an order fails, and sets the pre-stock to what Postgres has left. It
// adds nothing and assumes nothing: only the truth refills Redis.
//
// Right, with failed orders and double clicks. Units whose orders are being written still count as
// left in Postgres, so the counter may be too high for a moment. Then too many buyers pass Redis, and
// the guard in Postgres refuses them: that costs work, and no unit (see redisOversupply). A counter
// that is too low would cost units.
//
// The script writes only if the counter is what it was before the question (compare and set). Else the
// answer may be old: other buyers have decremented meanwhile, or another process has refilled, and
// perhaps with a newer number. Then it asks again.
//
// It asks only when an order fails. A process that dies between DECR and its order tells no one, and
// its units stay out of the sale until the next failure. Our shop compares on a timer instead, several
// times a second, and compares a count of changes (ops) rather than the stock, which may come back to
// the same number. See seckill/gate/scripts/fix.lua.
//
// In the field: the third refill, and the one to keep. If the servers keep a sold-out mark in memory (内存标记), it must be
// cleared as well; ours lives for 50 ms (250 without Redis), so there is nothing to clear. The rest of the purchase is
// in strategy_refill_incr.go.
type refillCompare struct{ refill }

//lab:here
var setIfSame = redis.NewScript(`
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
	return 1`)

//lab:end

func (s refillCompare) Buy(ctx context.Context, user int64) (bool, error) {
	return s.buy(ctx, user, func() error {
		//lab:here
		for {
			counted, err := s.Redis.Get(ctx, s.Key("stock")).Result()
			if err != nil {
				return err
			}
			truth, err := s.Node.Left(ctx) // from Postgres
			if err != nil {
				return err
			}
			set, err := setIfSame.Run(ctx, s.Redis, []string{s.Key("stock")}, counted, truth).Bool()
			if err != nil || set {
				return err
			}
		}
		//lab:end
	})
}
