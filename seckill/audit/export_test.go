package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/rounds"
)

// TicketLimit is how long a ticket may wait in a journal.
const TicketLimit = ticketLimit

// OnlyWhenTold makes Run audit at once, and then whenever it is told to.
func (m *Monitor) OnlyWhenTold() *rounds.Rounds {
	m.first, m.every = 0, time.Hour
	return m.rounds
}

// Patient lets Run wait for a slow store, and returns its readings.
func (g *Gauges) Patient() *rounds.Rounds {
	g.limit = time.Minute
	return g.rounds
}

// GatesWith is Gates that calls pause before each try but the first, and waits for nothing else.
func GatesWith(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, pause func(try int)) ([]Finding, error) {
	return gates(ctx, db, rdb, pause)
}

// DefencesIn is Defences in a transaction.
func DefencesIn(ctx context.Context, tx pgx.Tx) ([]Finding, error) { return missingDefences(ctx, tx) }

// PostgresIn is Postgres in a transaction.
func PostgresIn(ctx context.Context, tx pgx.Tx) ([]Finding, error) {
	return runQueries(ctx, tx, thorough)
}

// QuickIn is the part of Quick that reads Postgres, in a transaction.
func QuickIn(ctx context.Context, tx pgx.Tx) ([]Finding, error) {
	found, err := missingDefences(ctx, tx)
	if err != nil {
		return found, err
	}
	rows, err := runQueries(ctx, tx, quick)
	return append(found, rows...), err
}

// Flat is flat.
func Flat(definition string) string { return flat(definition) }

// ListOfObjects returns what schema.txt has to be for the schema of a database.
func ListOfObjects(ctx context.Context, tx pgx.Tx) (string, error) {
	if _, err := tx.Exec(ctx, plainText); err != nil {
		return "", err
	}
	var version int
	if err := tx.QueryRow(ctx, `select version from schema_version`).Scan(&version); err != nil {
		return "", err
	}
	list, err := objects(ctx, tx)
	var b strings.Builder
	fmt.Fprintf(&b, "version\t%d\n", version)
	for _, o := range list {
		fmt.Fprintln(&b, strings.Join([]string{o.kind, o.table, o.name, o.definition}, "\t"))
	}
	return b.String(), err
}
