package strategies

import (
	"context"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// optimistic takes no lock. It remembers the version that it read, and writes only if the version is
// still the same. The second writer changes no row and is told to try again.
//
// It never oversells. It is wrong all the same: it undersells. Of all buyers who read the same
// version, one gets a unit. The others get none, though units are left. A course that ends here says
// "the losers may click again". But the rush is over, they have been told no, and units stay unsold.
// However large the crowd, hardly more buyers get a unit.
//
// Read the version before the search for an earlier order. Then a second click either finds the order
// of the first, or finds that the version has changed.
//
// In the field: for editing a document, where two writers are rare and the second should read again.
// Not for a row that all want at the same instant.
type optimistic struct{ *lab.Node }

func (s optimistic) Buy(ctx context.Context, user int64) (yes bool, err error) {
	var stock, version int
	if err := s.DB.QueryRow(ctx, `select stock, version from item`).Scan(&stock, &version); err != nil {
		return false, err
	}
	if has, err := hasOrder(ctx, s.DB, user); err != nil || has || stock <= 0 {
		return has, err
	}
	s.LookUpPrice(ctx, user)
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		//lab:here
		tag, err := tx.Exec(ctx, `
			update item set stock = stock - 1, version = version + 1
			where  version = $1`, version)
		if err != nil || tag.RowsAffected() == 0 {
			return err // another buyer was faster: no, though units may be left
		}
		//lab:end
		yes = true
		_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
