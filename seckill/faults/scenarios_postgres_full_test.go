//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox/sandboxtest"
)

// postgresFullScenarios returns the scenarios in which the disk of Postgres has no space left. A limit of the size of files stands
// for it: Postgres hears EFBIG where a full disk says ENOSPC.
func postgresFullScenarios() []scenario {
	return []scenario{
		{name: "Postgres's disk full for its tables", detail: "it refuses new orders for 4 s",
			setup: setup{sql: []string{bigOrders}},
			// No buyer pays or cancels. That may need space, too, and the reply to EFBIG is internal, while it is busy to ENOSPC,
			// which has an SQLSTATE of its own (53100; `TestAStoreWithoutRoomIsUnavailable`).
			crowd: plan{buyers: 300, units: 400, span: 7 * time.Second, twice: 30, cached: true, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("disk full", func() {
					env.limitPostgresFiles(strconv.FormatInt(env.sizeOfOrders(), 10))
					c.Wait(4 * time.Second)
					env.limitPostgresFiles("unlimited")
				})
			},
			after: func(env *Environment, c *Crowd) {
				env.checkDiskFull(c, "could not extend file")
				if strings.Contains(env.DB.log.String(), "PANIC") {
					env.T.Error("Postgres went down: the limit was too low for its log")
				}
			}},
		{name: "Postgres's disk full for its log", detail: "it panics and exits, and is restarted when there is space",
			crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("disk full", func() {
					log := env.DB.log
					env.limitPostgresFiles("65536")
					if !sandboxtest.Poll(env.DB.Ended) {
						env.T.Error("Postgres did not exit on the full disk")
						env.DB.End(unix.SIGKILL)
					}
					if !strings.Contains(log.String(), "PANIC") {
						env.T.Errorf("Postgres did not panic:\n%s", tail(log.String(), 20))
					}
					c.Wait(2 * time.Second)
					if err := env.DB.Start(); err != nil { // the limit was that of the old processes
						env.T.Errorf("restart Postgres: %v", err)
					}
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkDiskFull(c, "") }},
	}
}

// bigOrders makes the file of the orders longer than a file of Postgres's log, which has 16 MB. So a limit of its length stops the
// orders alone. The rows are never committed, and the space that they leave is not used until a vacuum. Seven of them fill a page,
// so that no page has room for an order.
const bigOrders = `
	alter table orders set (autovacuum_enabled = off);
	do $$
	begin
	    insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
	    select gen_random_uuid(), n, 1000000, 'full ' || lpad(n::text, 5, '0'), repeat('x', 1048), 1, now() from generate_series(1, 16000) n;
	    raise exception division_by_zero;
	exception when division_by_zero then
	end $$`

// sizeOfOrders returns the length of the file of the orders. It must be the longest of Postgres.
func (env *Environment) sizeOfOrders() int64 {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	rows, _ := env.pool.Query(ctx, `
		select pg_relation_size('orders') as orders, max(pg_relation_size(oid)) as others
		from   pg_class where relkind in ('r', 'i', 't') and oid <> 'orders'::regclass`)
	size, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Orders, Others int64 }])
	if err != nil || size.Orders < 17<<20 || size.Others > 16<<20 {
		env.T.Errorf("the file of the orders has %d bytes, another %d: %v", size.Orders, size.Others, err)
	}
	return size.Orders
}

// limitPostgresFiles limits the size of the files that Postgres writes: in the first process, from which all later ones inherit
// it, and then in the others. The hard limit stays open, so that it can be undone. The program prlimit does it, because in a
// container even root may not change the limits of another account.
func (env *Environment) limitPostgresFiles(size string) {
	first := env.DB.cmd.Process.Pid
	limit := func(pid int) {
		out, err := shared.tools.AsPostgres("prlimit", "--pid", strconv.Itoa(pid), "--fsize="+size+":").CombinedOutput()
		if err != nil && unix.Kill(pid, 0) != unix.ESRCH {
			env.T.Errorf("limit the files of Postgres: %v: %s", err, out)
		}
	}
	limit(first)
	for _, pid := range env.childrenOf(first) {
		limit(pid)
	}
}

// childrenOf returns the children of a process with one thread.
func (env *Environment) childrenOf(pid int) (children []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		env.T.Errorf("list the children of a process: %v", err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			env.T.Error(err)
		}
		children = append(children, child)
	}
	return children
}

// checkDiskFull checks that settling met the full disk, and that no buyer heard anything but queued, ordered or busy. why is in the
// log of Postgres.
func (env *Environment) checkDiskFull(c *Crowd, why string) {
	if env.scrapeAll(); env.total("miaosha_settle_retries_total") == 0 {
		env.TooLittle("no settle was retried: the disk was not full")
	}
	if log := env.DB.log.String(); !strings.Contains(log, why) {
		env.T.Errorf("the log of Postgres has no %q:\n%s", why, tail(log, 20))
	}
	buys := env.duringFaults(c.ledger.filter(ofKind("buy")))
	if len(buys) < 50 {
		env.TooLittle("only %d buys while the disk was full", len(buys))
	}
	for _, resp := range buys {
		told := resp.Data.State == "queued" || resp.Data.State == "ordered"
		if resp.gaveUp() {
			env.Late("I4: with the disk full a buy had no reply in %v", formatBound(resp.Took))
		} else if !told && (resp.Status != http.StatusServiceUnavailable || resp.Code != "busy") {
			env.Report("I4: with the disk full a buy got %d %s %s", resp.Status, resp.Code, resp.Data.State)
		}
	}
}
