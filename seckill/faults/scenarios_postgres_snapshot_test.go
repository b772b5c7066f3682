//go:build faults && linux

package faults

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// postgresSnapshotScenarios returns the scenario in which an old snapshot keeps every version of the sale's row.
func postgresSnapshotScenarios() []scenario {
	return []scenario{
		{name: "dumps, and an old snapshot for a minute", detail: "no version of the sale's row can be removed", long: true, exclusive: true,
			program: "pg_dump",
			crowd: plan{buyers: 3000, units: 3200, span: time.Minute, pays: 50, cancels: 25, payAfter: 300 * time.Millisecond,
				cached: true, limit: 90 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(50)
				env.Inject("dumps and a snapshot", func() { env.holdSnapshot(c, 56*time.Second) })
			},
			after: checkOldVersions},
	}
}

// holdSnapshot keeps a snapshot open for d, and dumps the shop's database again and again. Then it checks what the versions of the
// sale's row cost.
func (env *Environment) holdSnapshot(c *Crowd, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d+3*sandboxtest.Hang)
	defer cancel()
	stop := make(chan struct{})
	var dumps sync.WaitGroup
	dumps.Go(func() { env.dump(stop) })
	var first, last time.Duration // of a settle transaction
	var read [2]time.Duration     // of the row, at the beginning and the end
	if err := pgx.BeginTxFunc(ctx, env.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select 1 from sales`); err != nil {
			return err
		}
		read[0] = env.timeOfRow(ctx)
		first = env.meanSettle(func() { c.Wait(edge) })
		c.Wait(d - 2*edge) // idle in transaction
		last = env.meanSettle(func() { c.Wait(edge) })
		read[1] = env.timeOfRow(ctx)
		return nil
	}); err != nil {
		env.T.Errorf("hold a snapshot: %v", err)
	}
	close(stop)
	dumps.Wait()
	env.checkVersions(ctx, read, first, last)
}

// edge is the time at the beginning and at the end of the fault that are compared.
const edge = 10 * time.Second

// timeOfRow returns the median time of a query for the sale's row by its key.
func (env *Environment) timeOfRow(ctx context.Context) time.Duration {
	var took []time.Duration
	for range 51 {
		began := time.Now()
		if _, err := env.pool.Exec(ctx, `select stock from sales where id = $1`, env.Sale); err != nil {
			env.T.Error(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return quantile(took, 0.5)
}

// meanSettle returns how long a settle transaction held its connection, as the mean of all shops while do ran.
func (env *Environment) meanSettle(do func()) time.Duration {
	read := func() (sum, count float64) {
		for _, s := range env.Shops {
			m, err := s.metrics()
			if err != nil {
				env.T.Error(err)
			}
			sum, count = sum+m["miaosha_settle_connection_seconds_sum"], count+m["miaosha_settle_connection_seconds_count"]
		}
		return sum, count
	}
	sum, count := read()
	do()
	sum2, count2 := read()
	if count2-count < 100 {
		env.TooLittle("only %.0f settle transactions", count2-count)
	}
	return time.Duration((sum2 - sum) / (count2 - count) * float64(time.Second))
}

// checkVersions checks that each version of the row costs a look at the row no more than versionCost, and a settle transaction no
// more than its two looks and those of the one that it waits for. It allows for 5 ms of a machine that does other work too.
func (env *Environment) checkVersions(ctx context.Context, read [2]time.Duration, first, last time.Duration) {
	rows, _ := env.pool.Query(ctx, `
		select n_tup_upd - n_tup_hot_upd as moved, n_tup_upd as versions from pg_stat_user_tables where relname = 'sales'`)
	sale, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Moved, Versions int }])
	// A page has place for less than a hundred versions. Unless they are removed, the row moves to another page again and again.
	if err != nil || sale.Versions < 1000 || sale.Moved < sale.Versions/100 {
		env.TooLittle("%d versions of the sale's row, and it moved to another page %d times: %v", sale.Versions, sale.Moved, err)
	}
	env.T.Logf("%d versions of the row in %d pages; a look at the row takes %v, before %v; a settle transaction %v, before %v",
		sale.Versions, sale.Moved+1, read[1], read[0], last, first)
	cost := time.Duration(sale.Versions) * versionCost
	if read[1] > read[0]+cost {
		env.Late("I4: with %d versions of the sale's row a look at it takes %v, before %v", sale.Versions, read[1], read[0])
	}
	if last > first+4*cost+5*time.Millisecond {
		env.Late("I4: with %d versions of the sale's row a settle transaction takes %v, before %v", sale.Versions, last, first)
	}
}

// versionCost bounds what an old version of the row costs a statement that looks for the row: the version is in memory, and skipped.
const versionCost = 500 * time.Nanosecond

// dump runs pg_dump until stop is closed.
func (env *Environment) dump(stop <-chan struct{}) {
	path, err := findProgram("pg_dump")
	if err != nil {
		env.T.Error(err)
		return
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			if env.T.Logf("%d dumps", n); n < 10 {
				env.TooLittle("only %d dumps", n)
			}
			return
		case <-time.After(time.Second):
		}
		ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
		out, err := exec.CommandContext(ctx, path, "--file=/dev/null", env.DB.URL()).CombinedOutput()
		if cancel(); err != nil {
			env.T.Errorf("pg_dump: %v: %s", err, out)
			return
		}
	}
}

// checkOldVersions checks that a result is known as soon at the end of the fault as at its beginning.
func checkOldVersions(env *Environment, c *Crowd) {
	faults, _ := env.injected()
	begin, end := faults[0].begin, faults[0].end
	first, last := waitsBetween(c, begin, begin.Add(edge)), waitsBetween(c, end.Add(-edge), end)
	env.T.Logf("results known after (p50, p99): %v, %v in the first ten seconds, %v, %v in the last",
		quantile(first, 0.5), quantile(first, 0.99), quantile(last, 0.5), quantile(last, 0.99))
	if len(first) < 200 || len(last) < 200 {
		env.TooLittle("only %d and %d results in the first and the last ten seconds", len(first), len(last))
	}
	if was, is := quantile(first, 0.99), quantile(last, 0.99); is > 2*was+150*time.Millisecond {
		env.Late("I4: with an old snapshot the p99 of a result is %v, before it was %v", is, was)
	}
}

// waitsBetween returns the times from "queued" to the final state of the tickets that buyers heard of between two times, sorted.
func waitsBetween(c *Crowd, from, to time.Time) (waits []time.Duration) {
	queued := map[int64]time.Time{}
	for _, resp := range c.ledger.filter(ofKind("buy", "result")) {
		since, waiting := queued[resp.User]
		switch {
		case resp.Data.State == "queued" && !waiting:
			queued[resp.User] = resp.received()
		case resp.Data.State == "ordered" && waiting:
			if since.After(from) && since.Before(to) {
				waits = append(waits, resp.received().Sub(since))
			}
			delete(queued, resp.User)
		}
	}
	slices.Sort(waits)
	return waits
}
