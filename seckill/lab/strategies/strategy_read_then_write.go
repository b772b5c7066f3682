package strategies

import (
	"context"

	"miaosha/seckill/lab"
)

// readThenWrite is what most people write first, and what an ORM makes of "load, change, save". It
// reads the number of units, and if there is one, it writes back one less.
//
// Wrong: it oversells, by a lot. Between the read and the write, other buyers read too. All of them
// read the same 20, all of them write 19, and each creates an order: twenty orders, and the stock has
// gone down by one. The database does not object, since each statement by itself is correct. A test
// with one buyer passes.
//
// With `set stock = stock - 1` in place of the number, the count is right, but it still sells units
// that do not exist: the stock falls below zero. The check must be inside the write: see guard.
//
// In the field: every first version, and every counter that "hardly ever" has two writers.
type readThenWrite struct{ *lab.Node }

func (s readThenWrite) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	var stock int
	if err := s.DB.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	s.LookUpPrice(ctx, user) // meanwhile other buyers read the same stock
	if _, err := s.DB.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	//lab:end
	_, err := s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
