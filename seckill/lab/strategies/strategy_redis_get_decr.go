package strategies

import "context"

// redisGetDecr counts the stock in Redis, which is faster than a database. It still reads before it
// writes.
//
// Wrong: it oversells, just like readThenWrite. Redis executes one command after the other. That
// protects each command, but not the time between two commands. All buyers who GET a 1 go on to DECR,
// and the stock falls below zero. With a faster store, more of them fit into the same moment.
//
// In the field: in many published "high concurrency" examples. Where a constraint in the database
// refuses the extra orders, the mistake stays hidden. Where there is none, it shows too late.
type redisGetDecr struct{ redisStock }

func (s redisGetDecr) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	stock, err := s.Redis.Get(ctx, s.Key("stock")).Int()
	if err != nil || stock <= 0 {
		return false, err
	}
	s.LookUpPrice(ctx, user) // meanwhile other buyers read the same stock
	if err := s.Redis.Decr(ctx, s.Key("stock")).Err(); err != nil {
		return false, err
	}
	//lab:end
	_, err = s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
