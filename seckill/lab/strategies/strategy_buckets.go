package strategies

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// buckets divides the stock over up to sixteen rows (分桶库存). A buyer belongs to the bucket that the
// hash of their number names, and buys there as in guardUnique. Sixteen rows are sixteen times as
// many places at which transactions can work at once: no row is hot.
//
// It never oversells, since each bucket has a guard. It is wrong all the same: it leaves units unsold.
// A hash spreads buyers evenly only on the average. Some buckets have fewer buyers than units, and
// others more; those say "sold out" while units are left next door. The fewer units are in a bucket,
// the worse it is, and a unit that a cancelled order returns to a bucket has no buyers any more.
//
// A large crowd hides this: with ten buyers for each unit every bucket gets enough of them, and the
// run is exact by luck. With about as many buyers as units it goes wrong each time.
//
// To look into the next bucket when one's own is empty is right. Its price comes when the sale ends:
// each refused buyer asks all buckets. Or a background task moves units between buckets; until it has
// moved them, buyers are refused.
//
// In the field: the stock of very large sales, with thousands of units in a bucket. Our shop keeps one
// row, and puts hundreds of purchases into one transaction on it.
type buckets struct{ *lab.Node }

const mostBuckets = 16

func (s buckets) count() int { return min(mostBuckets, s.Plan.Stock) }

func (s buckets) Prepare(ctx context.Context) error {
	if err := guardUnique(s).Prepare(ctx); err != nil {
		return err
	}
	if _, err := s.DB.Exec(ctx, `create table buckets (id int primary key, stock int not null)`); err != nil {
		return err
	}
	_, err := s.DB.Exec(ctx, `
		insert into buckets (id, stock)
		select i, $1::int / $2::int + case when i < $1::int % $2::int then 1 else 0 end
		from   generate_series(0, $2::int - 1) i`, s.Plan.Stock, s.count())
	return err
}

func (s buckets) Left(ctx context.Context) (left int, err error) {
	err = s.DB.QueryRow(ctx, `select sum(stock) from buckets`).Scan(&left)
	return left, err
}

// bucketOf returns the bucket of a buyer in this sale.
func (s buckets) bucketOf(user int64) int {
	//lab:here
	hash := sha256.Sum256(fmt.Appendf(nil, "sale %d, buyer %d", s.Plan.Seed, user))
	return int(binary.LittleEndian.Uint32(hash[:]) % uint32(s.count()))
	//lab:end
}

func (s buckets) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into orders (user_id) values ($1) on conflict do nothing`, user)
		if err != nil || tag.RowsAffected() == 0 {
			return err // no row: the buyer has an order
		}
		//lab:here
		tag, err = tx.Exec(ctx, `update buckets set stock = stock - 1 where id = $1 and stock > 0`, s.bucketOf(user))
		if err == nil && tag.RowsAffected() == 0 {
			return errSoldOut // in this bucket; no other one is asked
		}
		//lab:end
		return err
	})
	if errors.Is(err, errSoldOut) {
		return false, nil
	}
	return err == nil, err
}
