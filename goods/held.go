package goods

import (
	"context"
	"fmt"
	"time"
)

// heldFor is how long the units that a sale has held are shown without a query.
const heldFor = 5 * time.Second

// Held are the units of a sale that are ordered and not paid.
type Held struct {
	Units  int
	BackAt *time.Time // when the first of them comes back if its buyer does not pay; nil without any
}

// Held returns the units that a sale has held. It is for a sale that is sold out: a query in five seconds, for all who
// ask.
func (c *Cache) Held(ctx context.Context, id int64) (*Held, error) {
	e, _, err := c.load(ctx, key{held, id})
	return e.held, err
}

// held counts the orders of a sale that wait for a payment. The count reads the index of sale and user alone; the first
// to end is found in the index of their ends.
func (s *Store) held(ctx context.Context, id int64) (*Held, error) {
	h := new(Held)
	err := s.db.QueryRow(ctx, `
		select (select count(*) from orders where sale_id = $1 and status = 'pending'),
		       (select expires_at from orders where sale_id = $1 and status = 'pending' order by expires_at limit 1)`, id).
		Scan(&h.Units, &h.BackAt)
	if err != nil {
		return nil, fmt.Errorf("count the held units of sale %d: %w", id, err)
	}
	return h, nil
}
