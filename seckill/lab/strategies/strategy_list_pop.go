package strategies

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
)

// listPop keeps a token for each unit in a Redis list. LPOP hands out each token once, and no token
// means sold out. A set remembers the buyers: SADD reports 1 to the first click of a buyer only.
//
// Right, under any crowd, and without a script: two commands, each of which checks and writes in one
// step, in the right order. A double click stops at the set and takes no token. The other way round,
// LPOP before SADD, each double click takes a token that no order follows, as in redisDecr.
//
// A list is better than a counter in one thing: refused buyers do not change it. A counter falls to -500
// under them, and an INCR that puts a unit back changes -500 to -499 (see refillIncr). A token that
// goes back into an empty list is there for the next buyer: a new one, since the set also remembers
// those who were refused.
//
// The step from Redis to Postgres remains. A process that dies after LPOP takes its tokens with it,
// and the set refuses those buyers for good: units stay unsold. Run it with the fault kill. To push
// the token back after an error is not safe either, if the error is a lost reply: the order may be
// there, and its token would be sold twice. See outbox.
//
// In the field: the usual second Redis version of the courses, after the counter. Its price is memory:
// a token for each unit, and the list must be filled before the sale.
type listPop struct{ *lab.Node }

func (s listPop) Prepare(ctx context.Context) error {
	tokens := make([]any, s.Plan.Stock)
	for i := range tokens {
		tokens[i] = i + 1
	}
	if err := s.Redis.RPush(ctx, s.Key("tokens"), tokens...).Err(); err != nil {
		return err
	}
	return s.Redis.Expire(ctx, s.Key("tokens"), lab.KeyLife).Err()
}

// Left returns how many tokens are in the list.
func (s listPop) Left(ctx context.Context) (int, error) {
	n, err := s.Redis.LLen(ctx, s.Key("tokens")).Result()
	return int(n), err
}

func (s listPop) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	//lab:here
	added, err := s.Redis.SAdd(ctx, s.Key("buyers"), user).Result()
	if err != nil || added == 0 { // 0: the buyer has clicked before
		return false, err
	}
	//lab:end
	//lab:here
	err = s.Redis.LPop(ctx, s.Key("tokens")).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	//lab:end
	if err != nil {
		return false, err
	}
	_, err = s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
