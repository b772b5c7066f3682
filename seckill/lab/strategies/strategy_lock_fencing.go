package strategies

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
)

// lockFencing is redisLock whose lock comes with a number that only rises (a fencing token, 防护令牌).
// Postgres knows the newest number and refuses a write with an older one. A holder that has slept past
// the expiry wakes up, writes, and changes no row.
//
// Right, also when a holder stalls or dies. The order of the steps matters. A holder first announces
// its number in the statement that reads the stock. From then on no older holder can write. To compare
// only at the write ("refuse a number below the newest that has written") is not enough: two holders
// read 20, the older one writes 19, then the newer one writes 19 as well, and one sale is forgotten.
//
// Stock and order are one transaction, so a process that dies between them leaves neither. The search
// for an order of the buyer comes after the announcement: what it read is true as long as the number
// is the newest.
//
// What is left for the lock? Safety comes from the comparison, which is an optimistic lock whose
// version is given out before the read. The lock only spares the losers their useless work. Its price
// is that of redisLock: all buyers wait in line, and poll. If Redis forgets the number in a failover,
// announcements fail until it has risen again: no sale for a while, and none twice.
//
// In the field: leases of storage systems, where a holder writes for minutes and cannot ask again
// before each write. For a stock, see guardUnique.
type lockFencing struct{ *lab.Node }

var errFenced = errors.New("a newer holder of the lock has announced itself")

// lockWithNumber returns the number of the new holder, or 0 if the lock is held.
//
//lab:here
var lockWithNumber = redis.NewScript(`
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	local number = redis.call('INCR', KEYS[2])
	redis.call('SET', KEYS[1], number, 'PX', ARGV[1])
	redis.call('EXPIRE', KEYS[2], 3600)
	return number`)

//lab:end

func (s lockFencing) Buy(ctx context.Context, user int64) (yes bool, err error) {
	for {
		if yes, err = s.buyAsHolder(ctx, user); !errors.Is(err, errFenced) {
			return yes, err
		}
	}
}

// buyAsHolder takes the lock and tries once. It returns errFenced if the lock has expired meanwhile.
func (s lockFencing) buyAsHolder(ctx context.Context, user int64) (bool, error) {
	key, number := s.Key("lock"), 0
	for number == 0 {
		var err error
		if number, err = lockWithNumber.Run(ctx, s.Redis, []string{key, s.Key("fence")},
			lockLife.Milliseconds()).Int(); err != nil {
			return false, err
		}
		if number == 0 {
			lab.Pause(ctx, 5*time.Millisecond)
		}
	}
	defer unlock.Run(ctx, s.Redis, []string{key}, number)
	stock := 0
	//lab:here
	err := s.DB.QueryRow(ctx, `update item set version = $1 where version < $1 returning stock`, number).Scan(&stock)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, errFenced
	}
	//lab:end
	if err != nil {
		return false, err
	}
	if has, err := hasOrder(ctx, s.DB, user); err != nil || has || stock <= 0 {
		return has, err
	}
	s.LookUpPrice(ctx, user)
	if s.First(user) {
		s.Stall(ctx, user, key) // the lock expires, and the holder does not know
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		//lab:here
		tag, err := tx.Exec(ctx, `update item set stock = $1 where version = $2`, stock-1, number)
		if err == nil && tag.RowsAffected() == 0 {
			return errFenced
		}
		//lab:end
		if err == nil {
			_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		}
		return err
	})
	return err == nil, err
}
