package strategies

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
)

// redisLock is a mutex for all nodes: a key in Redis that only one process can set (NX). The key
// expires, so that a dead holder does not block the shop. It holds a token, so that no process
// releases the lock of another.
//
// Wrong: it oversells, now and then. A holder that stalls for longer than the expiry has lost the lock
// and does not know it. The cause is a garbage collection, a swapped-out page or a moved virtual
// machine. Another buyer takes the lock, reads, sells and releases it. Then the first one continues
// and writes its old result: the stock goes up again. Here one buyer in eight stalls, so that you need
// not wait for it. A longer expiry makes this rarer, and the wait after a crash longer. A watchdog
// that renews the lock stalls together with its process.
//
// The remedy is a check inside the write: a fencing token or a version that Postgres compares. Then
// safety does not need the lock any more. Its other price: all buyers wait in line, and poll.
//
// In the field: good for avoiding double work ("one of us refreshes the cache"), where two holders do
// no harm.
type redisLock struct{ *lab.Node }

const lockLife = 30 * time.Millisecond

var unlock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (s redisLock) Buy(ctx context.Context, user int64) (bool, error) {
	key, token := s.Key("lock"), rand.Text()
	//lab:here
	for {
		held, err := s.Redis.SetNX(ctx, key, token, lockLife).Result()
		if err != nil {
			return false, err
		}
		if held {
			break
		}
		lab.Pause(ctx, time.Millisecond)
	}
	defer unlock.Run(ctx, s.Redis, []string{key}, token)
	//lab:end
	if has, err := hasOrder(ctx, s.DB, user); err != nil || has {
		return has, err
	}
	var stock int
	if err := s.DB.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil || stock <= 0 {
		return false, err
	}
	s.LookUpPrice(ctx, user)
	//lab:here
	s.Stall(ctx, user, key) // the lock expires, and the holder does not know
	if _, err := s.DB.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	//lab:end
	_, err := s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
