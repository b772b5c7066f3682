package audit

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/gate"
)

// Extent is what an audit reads, and where. It has no password.
type Extent struct {
	Postgres, Redis         string // such as "miaosha at 127.0.0.1:5432" and "127.0.0.1:6379"
	Sales, Orders, Payments int
	Tickets                 int // with a result in Postgres
	Gates, Waiting          int // gates in Redis; tickets in their journals
	Archives, Archived      int // files of miaosha archive, and the rows that are in them alone
}

// Read returns what an audit of these stores reads.
func Read(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (e Extent, err error) {
	server := db.Config().ConnConfig
	e.Postgres = fmt.Sprintf("%s at %s", server.Database, net.JoinHostPort(server.Host, fmt.Sprint(server.Port)))
	e.Redis = redisAddress(rdb)
	err = readOnly(ctx, db, thoroughLimit, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			select (select count(*) from sales), (select count(*) from orders), (select count(*) from payments),
			       (select count(*) from ticket_outcomes), (select count(*) from archives), (select coalesce(sum(rows), 0)::bigint from archives where gone_at is not null)`).
			Scan(&e.Sales, &e.Orders, &e.Payments, &e.Tickets, &e.Archives, &e.Archived)
	})
	if err != nil {
		return e, fmt.Errorf("count the rows of Postgres: %w", err)
	}
	states, err := journals(ctx, db, rdb)
	for _, s := range states {
		if s.Epoch != 0 {
			e.Gates++
		}
		e.Waiting += s.InFlight
	}
	return e, err
}

// String returns the extent as one line.
func (e Extent) String() string {
	text := fmt.Sprintf("%s, %s, %s and %s with a result in Postgres (%s); %s and %s in journals in Redis (%s)",
		count(e.Sales, "sale"), count(e.Orders, "order"),
		count(e.Payments, "payment"), count(e.Tickets, "ticket"), e.Postgres, count(e.Gates, "gate"),
		count(e.Waiting, "ticket"), e.Redis)
	if e.Archives > 0 {
		text += fmt.Sprintf("; %s in %s of archives", count(e.Archived, "row"), count(e.Archives, "file"))
	}
	return text
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Waiting returns how many tickets are in the journals of how many sales.
func Waiting(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (tickets, sales int, err error) {
	states, err := journals(ctx, db, rdb)
	for _, s := range states {
		if s.InFlight > 0 {
			tickets, sales = tickets+s.InFlight, sales+1
		}
	}
	return tickets, sales, err
}

// journals returns the gates of the sales that may have a journal.
func journals(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (map[int64]gate.State, error) {
	all, err := sales(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("list the sales: %w", err)
	}
	ids := make([]int64, len(all))
	for i, s := range all {
		ids[i] = s.ID
	}
	if len(ids) == 0 {
		return nil, rdb.Ping(ctx).Err()
	}
	return gate.States(ctx, rdb, ids)
}

func redisAddress(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ", ")
	}
	return "an unknown address"
}
