package strategies

import (
	"context"

	"miaosha/seckill/lab"
)

// guardWindow is guard with the sale's window in the same condition.
//
// A check of the window in the program is one more read before a write: the sale may end between the
// two, and each process has another clock. Here the database's clock decides for all nodes, at the
// moment of the write. Use clock_timestamp(), the present. now() is the start of the transaction,
// which may have waited for the row for a long time.
//
// It never oversells, and never sells too early or too late. A double click still gets two orders,
// and the order is still a second step: see guardUnique.
//
// In the field: courses that decrement in Redis often forget the window, so a request before the
// start changes the stock. Our shop checks Redis' clock when it grants a ticket, and the database's
// clock where there is no Redis.
type guardWindow struct{ *lab.Node }

func (s guardWindow) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	//lab:here
	tag, err := s.DB.Exec(ctx, `
		update item set stock = stock - 1
		where  stock > 0
		and    clock_timestamp() >= starts_at and clock_timestamp() < ends_at`)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	//lab:end
	_, err = s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err == nil, err
}
