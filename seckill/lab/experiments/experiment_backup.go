package experiments

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// runBackup sells units of one row, alone, then beside a backup, then after it.
//
// An update in Postgres writes a new version of the row and leaves the old one, which other transactions may still have
// to see. If none has to, the next statement that passes clears the page (a HOT prune), so a row that is updated a
// thousand times stays on one page. pg_dump reads all tables in one transaction, as of its first moment (repeatable
// read). So while it runs, no version since that moment may be cleared, of any table, whether pg_dump has read it
// already or not. A report, a forgotten transaction at a breakpoint, a slot of a replica that is away: each does the
// same.
//
// The index leads to all versions of the hot row, page after page, and each purchase goes along them to the newest one.
// They grow with each purchase. So a backup that runs for an hour while the sale is open makes each purchase slower
// than the last.
//
// Dump before the sale, or from a standby, or take what takes no snapshot of rows: base backup and write-ahead log
// (pg_basebackup, archiving). And bound what is forgotten: idle_in_transaction_session_timeout.
//
// The figures are orders; first_s, last_s: orders per second in the first and in the last 0.1 s; pages: pages that
// Postgres reads in the end to find the row; table_kb: the table. The row is 300 bytes long, as a sale with a title and
// a picture.
func runBackup(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table item (id int primary key, sold int not null, detail char(300) not null);
		insert into item values (1, 0, '')`, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	return tryAll(ctx, []variant{
		{"no other transaction", func(ctx context.Context) (Finding, error) { return sellUpdating(ctx, w) }},
		{"beside a backup (pg_dump)", func(ctx context.Context) (row Finding, err error) {
			//lab:here
			backup, err := w.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
			if err != nil {
				return row, err
			}
			_, err = backup.Exec(ctx, `select from item`) // its snapshot is of this moment, until the end
			if err == nil {
				row, err = sellUpdating(ctx, w)
			}
			return row, errors.Join(err, backup.Rollback(ctx))
			//lab:end
		}},
		{"after the backup, and a vacuum", func(ctx context.Context) (Finding, error) {
			if _, err := w.db.Exec(ctx, `vacuum item`); err != nil {
				return Finding{}, err
			}
			return sellUpdating(ctx, w)
		}},
	})
}

const (
	backupTime = 600 * time.Millisecond
	// orders: enough that the versions of the row do not fit on the pages below, on a slow machine too
	backupLeast = 1000
	backupMost  = 4 * time.Second
	backupSlice = 100 * time.Millisecond
	backupPages = 12 // a row that is cleared is found on fewer, its index included
)

// sellUpdating sells for a while, on one connection: a second one that Postgres suspends would keep versions alive as a
// backup does. It is right if the row can be found on a few pages in the end, and slow if it cannot.
func sellUpdating(ctx context.Context, w workspace) (row Finding, err error) {
	var mu sync.Mutex
	var sold []time.Duration
	began := time.Now()
	show(ctx, func() map[string]float64 {
		mu.Lock()
		defer mu.Unlock()
		return map[string]float64{"orders": float64(len(sold))}
	})
	for (time.Since(began) < backupTime || len(sold) < backupLeast && time.Since(began) < backupMost) &&
		ctx.Err() == nil {
		//lab:here
		_, err := w.db.Exec(ctx, `update item set sold = sold + 1 where id = 1`)
		//lab:end
		if err != nil {
			return row, err
		}
		mu.Lock()
		sold = append(sold, time.Since(began))
		mu.Unlock()
	}
	pages, err := pagesOfRow(ctx, w)
	if err != nil {
		return row, err
	}
	var kb float64
	err = w.db.QueryRow(ctx, `select pg_relation_size('item') / 1024.0`).Scan(&kb)
	within := slices.IndexFunc(sold, func(at time.Duration) bool { return at >= backupTime })
	if within < 0 {
		within = len(sold)
	}
	result := verdict(pages <= backupPages, Slow)
	if pages <= backupPages && len(sold) < backupLeast { // too few versions to need more pages
		result = Busy
	}
	rate := perSecond(sold[:within], backupTime, backupSlice)
	return Finding{Verdict: result, Series: []Series{{"sold_s", rate}},
		Figures: map[string]float64{"orders": float64(len(sold)),
			"first_s": rate[0][1], "last_s": rate[len(rate)-1][1], "pages": pages, "table_kb": kb}}, err
}

// pagesOfRow returns how many pages Postgres reads to find the row: the least of several reads. The first read clears
// what no transaction sees any more. A session that is just being started, in any database of the server, may keep that
// for a moment; a backup keeps it until its end.
func pagesOfRow(ctx context.Context, w workspace) (pages float64, err error) {
	for read := range 20 {
		var plans []struct {
			Plan struct {
				Hit  float64 `json:"Shared Hit Blocks"`
				Read float64 `json:"Shared Read Blocks"`
			} `json:"Plan"`
		}
		if err := w.db.QueryRow(ctx, `explain (analyze, buffers, format json) select sold from item where id = 1`).Scan(&plans); err != nil {
			return 0, err
		}
		if n := plans[0].Plan.Hit + plans[0].Plan.Read; read == 0 || n < pages {
			pages = n
		}
		if pages <= backupPages {
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return pages, nil
}
