package seckill

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
	"miaosha/seckill/address"
	"miaosha/seckill/gate"
)

// Refusals are answers of a healthy shop; every other error is a fault. Package goods has the refusals of a sale's
// state and window.
var (
	ErrBusy       = gate.ErrBusy
	ErrBadAddress = address.ErrBad
)

// TooManyError carries the time after which to try again.
type TooManyError = gate.TooManyError

// isRefusal reports whether err may be told to a buyer as it is.
func isRefusal(err error) bool { return gate.IsRefusal(err) && !errors.Is(err, gate.ErrNoGate) }

// isPoison reports whether err is caused by the tickets themselves, so that another try fails too: data that Postgres
// refuses (SQLSTATE classes 22 and 23), or a sale that does not exist. If the user has just got an order without the
// row's lock, the next try finds it.
func isPoison(err error) bool {
	pg := new(pgconn.PgError)
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return errors.Is(err, goods.ErrNoSale)
	}
	return pg.Code[:2] == "22" || pg.Code[:2] == "23" && pg.ConstraintName != "one_order_per_user_and_sale"
}

// isSlow reports whether a transaction exceeded a time limit.
func isSlow(err error) bool {
	pg := new(pgconn.PgError)
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &pg) && pg.Code == "57014"
}
