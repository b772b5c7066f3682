package lab

import "context"

// readThenWrite is what everybody writes first, and what an ORM makes of "load, change, save": ask how many units there are,
// and if there is one, write back one less.
//
// Wrong: it oversells, by a lot. Between the read and the write lies a moment in which others read too. All of them see
// the same 20, all of them write 19, and each of them makes an order: twenty orders, and the stock went down by one. Nothing
// in the database objects, for each statement by itself is correct. A test with one buyer finds nothing.
//
// `set stock = stock - 1` in place of the number keeps the count right and still sells what isn't there: the stock then falls
// below zero. The check has to be inside the write: see guard.
//
// In the field: every first version, and every counter that "hardly ever" has two writers.
type readThenWrite struct{ *node }

func (s readThenWrite) Buy(ctx context.Context, user int64) (bool, error) {
	//lab:here
	var stock int
	if err := s.db.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	s.think(ctx, user) // here the others read the same stock
	if _, err := s.db.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
		return false, err
	}
	//lab:end
	_, err := s.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
