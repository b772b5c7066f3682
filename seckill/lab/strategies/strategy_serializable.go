package strategies

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
)

// serializable is readThenWrite, word for word, in transactions that behave as if they ran one after
// the other. The database tracks which transaction reads what. If no serial order exists any more, it
// aborts one of them with SQLSTATE 40001, and that one starts again.
//
// Right, for any code, and that is its charm: you need not find the race. Repeat the whole
// transaction, reads included. Nothing in it may have an effect outside before the commit (no mail, no
// Redis).
//
// Its price is that of optimisticRetry and a little more: of all that want the same row one succeeds,
// and the work of the others is lost. And all writers of the table must use this isolation level.
//
// In the field: for rules over many rows that no constraint can express, with few conflicts. It is not
// the default of Postgres (read committed) or MySQL (repeatable read). There the same code oversells.
type serializable struct{ *lab.Node }

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
	err = pgx.BeginTxFunc(ctx, s.DB, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		//lab:end
		var stock int
		if err := tx.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = hasOrder(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.LookUpPrice(ctx, user)
		if _, err := tx.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
			return err
		}
		yes = true
		_, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
