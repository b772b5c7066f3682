package strategies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
)

// outbox takes the unit in Redis as lua does, and the script leaves a message there: "prepared". The order and a
// line of the stock log (库存流水) are one transaction. Then the message is removed. One that stays is of a slow or
// dead process: the check-back (回查) puts its unit back if the log has no line.
//
// Right, also when a process dies: its units are on sale again after 0.3 s. To find no line is not enough, since a
// slow process may still write it. So the check-back writes a line itself, "not sold", and the primary key decides
// who was first: the late transaction fails, and its order with it.
//
// Its price: a unit of a dead process is away for a while. The buyers who are refused meanwhile must press again
// while the page shows units (see refillIncr).
//
// In the field: the stock log of a course's transactional messages in RocketMQ, whose broker asks for the state.
// Our shop's journal holds such messages too, but another process finishes the order.
type outbox struct{ redisStock }

//lab:here
var takePrepared = redis.NewScript(`
	if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then return -1 end
	if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 0 end
	local now = redis.call('TIME')
	redis.call('SADD', KEYS[2], ARGV[2])
	redis.call('DECR', KEYS[1])
	redis.call('ZADD', KEYS[3], now[1] * 1000 + now[2] / 1000, ARGV[1] .. ' ' .. ARGV[2])
	return 1`)

//lab:end

var removeMessage = redis.NewScript(`
	if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 or ARGV[3] == '1' then return 0 end
	redis.call('SREM', KEYS[2], ARGV[2])
	return redis.call('INCR', KEYS[1])`)

func (s outbox) Prepare(ctx context.Context) error {
	_, err := s.DB.Exec(ctx, `create table stock_log (id text primary key, sold boolean not null)`)
	return errors.Join(err, s.redisStock.Prepare(ctx))
}

func (s outbox) keys() []string { return []string{s.Key("stock"), s.Key("buyers"), s.Key("prepared")} }

func (s outbox) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	id, refused := "", time.Now()
	for tries := 0; ; tries++ {
		id = rand.Text()
		got, err := takePrepared.Run(ctx, s.Redis, s.keys(), id, user).Int()
		if err != nil {
			return false, err
		}
		if got == 1 {
			break
		}
		if got == -1 { // an order, or another click that may still get one
			if has, err := hasOrder(ctx, s.DB, user); err != nil || has {
				return has, err
			}
		}
		if again, err := s.PressesAgain(ctx, refused, tries); err != nil || !again {
			return false, err
		}
	}
	//lab:here
	_, err := s.DB.Exec(ctx, `
		with line as (insert into stock_log (id, sold) values ($1, true)),
		     sale as (insert into orders (user_id) values ($2))
		update item set stock = stock - 1`, id, user) // three writes, and one transaction
	//lab:end
	if err != nil {
		return false, err // the check-back finds out what is true, and the buyer clicks again
	}
	return true, s.Redis.ZRem(ctx, s.Key("prepared"), fmt.Sprint(id, " ", user)).Err()
}

// Run checks back, 50 times a second.
func (s outbox) Run(ctx context.Context) (err error) {
	for ; err == nil && ctx.Err() == nil; err = s.checkBack(context.WithoutCancel(ctx)) {
		lab.Pause(ctx, 20*time.Millisecond)
	}
	return err
}

func (s outbox) checkBack(ctx context.Context) error {
	until := fmt.Sprint(s.Redis.Time(ctx).Val().UnixMilli() - 300) // a failed call returns a time long ago
	late, err := s.Redis.ZRangeByScore(ctx, s.Key("prepared"), &redis.ZRangeBy{Min: "0", Max: until}).Result()
	for _, message := range late {
		id, user, _ := strings.Cut(message, " ")
		sold := false
		//lab:here
		err := s.DB.QueryRow(ctx, `
			insert into stock_log (id, sold) values ($1, false)
			on conflict (id) do update set id = excluded.id returning sold`, id).Scan(&sold)
		if err == nil { // if not sold, the script puts the unit back
			err = removeMessage.Run(ctx, s.Redis, s.keys(), message, user, sold).Err()
		}
		//lab:end
		if err != nil {
			return err
		}
	}
	return err
}
