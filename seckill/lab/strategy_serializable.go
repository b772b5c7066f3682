package lab

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// serializable is readThenWrite, word for word, in transactions that behave as if they ran one after the other. The database
// watches who read what; if no such order exists any more, it ends one of them with SQLSTATE 40001, and that one starts over.
//
// Right, for any code at all, which is its charm: nobody has to find the race. The repeated part has to be the whole
// transaction, reads included, and nothing in it may be felt outside before the commit (no mail, no Redis).
//
// Its price is that of optimisticRetry and a little more: of all who want the same row one gets through, and the others have
// worked for nothing. And it holds only if all writers of the table run at this level.
//
// In the field: for rules over many rows that no constraint can say, with few conflicts. It is the default neither of
// Postgres (read committed) nor of MySQL (repeatable read), and there the same code oversells.
type serializable struct{ *node }

func (s serializable) Buy(ctx context.Context, user int64) (yes bool, err error) {
	//lab:here
	for {
		yes, err = s.try(ctx, user)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "40001" {
			return yes, err
		}
	}
	//lab:end
}

func (s serializable) try(ctx context.Context, user int64) (yes bool, err error) {
	//lab:here
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		//lab:end
		var stock int
		if err := tx.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = ordered(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.think(ctx, user)
		if _, err := tx.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
			return err
		}
		yes = true
		_, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
