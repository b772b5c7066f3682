package strategies

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// lua lets Redis check and take in one step: a Lua script runs alone, from its first line to its
// last. It checks whether the buyer already has a unit and whether one is left. Then it takes the
// unit and remembers the buyer.
//
// Right, under any crowd. No other click comes between the checks and the writes, and a double click
// is found before it takes a unit. No buyer is told yes before the order is in Postgres, so no buyer
// loses an order.
//
// The step from Redis to Postgres remains. If a process dies between the two, it has taken a unit
// that no buyer gets, and the script refuses the buyer's next click as a repeat. Nothing is oversold
// or lost, but units stay unsold. Run it with the fault kill. Redis cannot tell such a unit from one
// whose order is being written. That takes a journal, written by the same script: see shop.
//
// In the field: the standard of the courses since Redis 2.6. The checks come before the writes, since
// Redis does not roll back. All keys share one hash tag, so that a Cluster stores them on one node.
type lua struct{ redisStock }

//lab:here
var take = redis.NewScript(`
	if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -1 end
	if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 0 end
	redis.call('SADD', KEYS[2], ARGV[1])
	redis.call('DECR', KEYS[1])
	return 1`)

//lab:end

func (s lua) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	//lab:here
	got, err := take.Run(ctx, s.Redis, []string{s.Key("stock"), s.Key("buyers")}, user).Int()
	if err != nil || got != 1 { // 0: sold out; -1: the buyer is already recorded
		return false, err
	}
	//lab:end
	_, err = s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
