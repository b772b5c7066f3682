package lab

import "context"

// noteAfterEnd notes each unit that is taken after the end of the sale. The statement that ends the sale has the lock of
// the item's row, so that every later one sees the end.
const noteAfterEnd = `
	create table after_end (at timestamptz);
	create function note_after_end() returns trigger language plpgsql as $$
	begin
		if new.stock < old.stock and clock_timestamp() >= old.ends_at then
			insert into after_end values (clock_timestamp());
		end if;
		return new;
	end $$;
	create trigger note_after_end before update on item for each row execute function note_after_end()`

// endSale ends the sale now.
func (r *run) endSale(ctx context.Context) error {
	_, err := r.observer.db.Exec(ctx, `update item set ends_at = clock_timestamp()`)
	return err
}

// takenAfterEnd counts the units that were taken after the end of the sale, and the orders for which no unit was taken
// from the item: no one knows when those were sold.
func (r *run) takenAfterEnd(ctx context.Context, sold int) (n int, err error) {
	var left int
	if err = r.admin.QueryRow(ctx, `select (select count(*) from after_end), stock from item`).Scan(&n, &left); err != nil {
		return 0, err
	}
	return n + max(0, sold-(r.plan.Stock-left)), nil
}
