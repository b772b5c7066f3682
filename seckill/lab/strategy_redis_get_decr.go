package lab

import "context"

// redisGetDecr moves the count to Redis, which is faster than any database, and reads before it writes all the same.
//
// Wrong: it oversells, just like readThenWrite. That Redis does one command after the other protects each command and not
// the time between two. All who GET a 1 go on to DECR, and the stock falls below zero. A faster store only means that more
// of them fit into the same moment.
//
// In the field: in many a published "high concurrency" sample. Nobody notices as long as a constraint in the database refuses the
// orders that should not be, and where there is none one notices too late.
type redisGetDecr struct{ redisStock }

func (s redisGetDecr) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	stock, err := s.rdb.Get(ctx, s.key("stock")).Int()
	if err != nil || stock <= 0 {
		return false, err
	}
	s.think(ctx, user) // here the others read the same stock
	if err := s.rdb.Decr(ctx, s.key("stock")).Err(); err != nil {
		return false, err
	}
	//lab:end
	_, err = s.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
