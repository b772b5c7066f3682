package strategies

import (
	"context"

	"miaosha/seckill/lab"
)

// insertOnly has no stock column that is updated. Each sale is a row with the number of its unit, 1 to
// the stock, and a unique index refuses a number that is taken. What is left is the stock less the
// highest number. Bookkeeping works like this: nothing is overwritten, each line stays.
//
// Right, with double clicks and with a process that dies: one statement reads the highest number,
// compares it with the stock and writes the next one. Two buyers may read the same number, and then
// the index lets one of them in. The other changes no row, asks why, and tries again. A second index
// knows the buyers.
//
// There is no hot row, but there is a hot number: all want the next one. It is optimisticRetry with an
// index in place of a version. In each round one buyer wins, and the others wait for its commit and
// try again. See the statements for each order. A sequence would give each buyer a number of its own
// at once. But a number of a transaction that is rolled back never comes again: units stay unsold.
//
// A cancelled order is one more row here, with the opposite sign; then the rows are summed up, under
// the guard of a running sum in each row, and the price is the same.
//
// In the field: accounts, points and vouchers, where each change must be shown for years. For a stock
// one number with a guard is cheaper, and our shop keeps the history of its orders beside it.
type insertOnly struct{ *lab.Node }

func (s insertOnly) Prepare(ctx context.Context) error {
	for _, sql := range []string{
		//lab:here
		`alter table orders add column unit int not null check (unit > 0)`,
		`create unique index one_order_per_unit on orders (unit)`,
		`create unique index one_order_per_user on orders (user_id)`,
		//lab:end
	} {
		if _, err := s.DB.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Left returns the stock less the highest number.
func (s insertOnly) Left(ctx context.Context) (left int, err error) {
	err = s.DB.QueryRow(ctx, `select $1 - coalesce(max(unit), 0) from orders`, s.Plan.Stock).Scan(&left)
	return left, err
}

func (s insertOnly) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	for {
		//lab:here
		tag, err := s.DB.Exec(ctx, `
			insert into orders (user_id, unit)
			select $1, coalesce(max(unit), 0) + 1 from orders having coalesce(max(unit), 0) < $2
			on conflict do nothing`, user, s.Plan.Stock)
		//lab:end
		if err != nil || tag.RowsAffected() == 1 {
			return err == nil, err
		}
		if has, err := hasOrder(ctx, s.DB, user); err != nil || has {
			return has, err
		}
		if left, err := s.Left(ctx); err != nil || left <= 0 {
			return false, err
		}
	}
}
