package lab

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// optimistic takes no lock. It remembers the version that it read, and writes only if that is still the version: who comes
// second changes no row, and is told to try again.
//
// It never oversells. Wrong all the same: it undersells. Of all who read the same version one gets a unit and the others
// get nothing, though there are units. A course that ends here says "the losers may click again"; but the rush is over, they
// have been told no, and the shop sits on what it did not sell. However many come, hardly more get it.
//
// The version has to be read before the look for an earlier order. Then a second click either sees the first one's order, or
// finds that the version has moved.
//
// In the field: for editing a document, where two writers are rare and the second should look again. Not where all want the
// same row at the same instant.
type optimistic struct{ *node }

func (s optimistic) Buy(ctx context.Context, user int64) (yes bool, err error) {
	var stock, version int
	if err := s.db.QueryRow(ctx, `select stock, version from item`).Scan(&stock, &version); err != nil {
		return false, err
	}
	if has, err := ordered(ctx, s.db, user); err != nil || has || stock <= 0 {
		return has, err
	}
	s.think(ctx, user)
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		//lab:here
		tag, err := tx.Exec(ctx, `
			update item set stock = stock - 1, version = version + 1
			where  version = $1`, version)
		if err != nil || tag.RowsAffected() == 0 {
			return err // somebody was faster: no, though there may be units left
		}
		//lab:end
		yes = true
		_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
