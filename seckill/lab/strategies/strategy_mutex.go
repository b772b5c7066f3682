package strategies

import (
	"context"
	"sync"

	"miaosha/seckill/lab"
)

// mutex is readThenWrite under a lock of the language: synchronized in Java, sync.Mutex in Go.
//
// Right on one node, wrong on two. Each process has its own mutex, which does not stop the buyers of
// the other process. It sells the stock about once for each node. The lab runs two nodes; with one
// node it is exact. A rolling update is two nodes for a minute.
//
// Its price, even where it is right: buyers go one after the other. Each holds the lock for four
// statements and all other work inside, and one mutex for all items makes every sale wait.
//
// Courses often break two rules. The lock must be released after the commit, not before; a
// transactional annotation on a synchronized method releases it before. And the lock must cover the
// search for an earlier order of the same buyer.
//
// In the field: for data that lives in the process anyway, such as its caches. Never for stock.
type mutex struct {
	*lab.Node
	mu sync.Mutex
}

func (s *mutex) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	waited := s.Step("mu.Lock()")
	s.mu.Lock() // the other node has another mu
	defer s.mu.Unlock()
	//lab:end
	waited("")
	if has, err := hasOrder(ctx, s.DB, user); err != nil || has {
		return has, err
	}
	var stock int
	if err := s.DB.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	s.LookUpPrice(ctx, user)
	if _, err := s.DB.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	_, err := s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
