package lab

import (
	"context"
	"sync"
)

// mutex is readThenWrite under a lock of the language: synchronized in Java, sync.Mutex in Go.
//
// Right on one node, wrong on two: each process has a mutex of its own, and none keeps out the other's buyers. It sells
// roughly once for each node. The lab shows two nodes; with one it is exact. A rolling update is two nodes for a minute.
//
// Its price even where it is right: buyers go through one after the other, each holding the lock for four statements and for
// whatever else is done inside, of all items at once if there is only one lock.
//
// Two rules that courses get wrong: the lock has to be released after the commit, not before (a transactional annotation around
// a synchronized method does it the wrong way), and it has to cover the look for an earlier order of the same buyer.
//
// In the field: for what lives in the process anyway, such as its caches. Never for stock.
type mutex struct {
	*node
	mu sync.Mutex
}

func (s *mutex) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	waited := s.tape.step(s.id, "code", "mu.Lock()")
	s.mu.Lock() // the other node has another mu
	defer s.mu.Unlock()
	//lab:end
	waited("")
	if has, err := ordered(ctx, s.db, user); err != nil || has {
		return has, err
	}
	var stock int
	if err := s.db.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	s.think(ctx, user)
	if _, err := s.db.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	_, err := s.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
