package lab

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisLock is a mutex for all nodes: a key in Redis that only one can set (NX), with an expiry, so that a holder who dies
// does not lock the shop up, and a token, so that nobody releases another's lock.
//
// Wrong: it oversells, now and then. A holder who stands still for longer than the expiry (a garbage collector, a page that
// was swapped out, a virtual machine that was moved) has lost the lock and does not know it. Somebody else has it, reads,
// sells, releases; then the first one wakes up and writes what it had worked out long ago: the stock jumps back up. One
// buyer in eight stands still here so that nobody has to wait for it. A longer expiry makes it rarer, and an accident
// longer; a watchdog that renews the lock stands still together with its process.
//
// What helps is a check where the write is: a fencing token or a version that Postgres compares. With that, the lock is no
// longer needed for safety. Its price besides: all in line, and knocking.
//
// In the field: fine for saving work ("one of us refreshes the cache"), where two holders do no harm.
type redisLock struct{ *node }

const lockLife = 30 * time.Millisecond

var unlock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (s redisLock) Buy(ctx context.Context, user int64) (bool, error) {
	key, token := s.key("lock"), rand.Text()
	//lab:here
	for {
		held, err := s.rdb.SetNX(ctx, key, token, lockLife).Result()
		if err != nil {
			return false, err
		}
		if held {
			break
		}
		pause(ctx, time.Millisecond)
	}
	defer unlock.Run(ctx, s.rdb, []string{key}, token)
	//lab:end
	if has, err := ordered(ctx, s.db, user); err != nil || has {
		return has, err
	}
	var stock int
	if err := s.db.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil || stock <= 0 {
		return false, err
	}
	s.think(ctx, user)
	//lab:here
	s.stall(ctx, user, key) // the lock ends, the holder does not know
	if _, err := s.db.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	//lab:end
	_, err := s.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
