package lab_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/sandbox/sandboxtest"
)

// notRefused says what becomes of the other bribes: the judge knows that it was tampered with, or counts the orders, or there are none,
// since the program has only hindered itself.
var notRefused = map[string]string{
	"a password": lab.Tampered, "end the judge's session": lab.Tampered, "a path for the role": lab.Tampered, "read only from now on": lab.Tampered, "an index that fails": lab.Tampered,
	"a lock that stays": "sells nothing", "an open transaction": "sells nothing", "a table before it": "sells nothing", "its own trigger after": "sells nothing",
	"a trigger that depends": "counted", "comments and labels": "counted", "constraints later": "counted", "the window of its own": "counted",
	"no window at all": "counted", "a search path": "counted", "an index that calls": "counted", "drop one, swallow the error": "counted",
	"an operator before ours": "counted", "a function before ours": "counted", "grants": "counted", "a large object": "counted", "its own trigger before": "counted",
}

// Whatever statement a program has executed, the judge either counts each order and each unit after the end of the sale, or knows that
// it was tampered with, and the fault of an exercise still happens.
func TestNoStatementHidesAnOrder(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), labtest.Stores(t)
	s.DatabaseURL, s.JudgeURL = labtest.ThrowawayServer(t, s)
	r, err := lab.OpenJudged(ctx, s, 20, 200)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Namespace.Close(context.Background()) }()
	exec := func(c *pgx.Conn, sql string) error {
		_, err := c.PgConn().Exec(ctx, strings.NewReplacer("SCHEMA", r.Schema, "ROLE", r.ProgramRole()).Replace(sql)).ReadAll()
		return err
	}
	cfg, err := r.PoolConfig(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	failing := exercises.Ladder()[slices.IndexFunc(exercises.Ladder(), func(e exercises.Exercise) bool { return e.Name == "failed-orders" })].Checks[0].Plan.Before
	for name, bribe := range labtest.Bribes {
		t.Run(name, func(t *testing.T) {
			if err := exec(r.Admin, `alter role ROLE reset all; alter role ROLE password '`+cfg.ConnConfig.Password+`'`); err != nil {
				t.Fatal(err)
			}
			if err := r.Restart(ctx, 20, failing); err != nil {
				t.Fatal(err)
			}
			eye, err := r.Look(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = eye.Close(context.Background()) }()
			hostile, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = hostile.Close(context.Background()) }()
			outcome := "counted"
			if err := exec(hostile, bribe); err != nil {
				if t.Logf("refused: %v", err); strings.Contains(err.Error(), "53100") {
					t.Error("the fault of the exercise comes before the bribe")
				}
				outcome = "refused"
			}
			open := strings.HasPrefix(bribe, "begin")
			if !open {
				_ = exec(hostile, `rollback`)
			}
			failed := 0 // a naive program sells on, in the table of the run or wherever its name leads now
			for user := range int64(12) {
				pg := new(pgconn.PgError)
				if err := exec(hostile, fmt.Sprintf(`insert into orders (user_id) values (%d)`, user+1)); errors.As(err, &pg) && pg.Code == "53100" {
					failed++
				}
			}
			units := func() (n int) {
				if err := eye.QueryRow(ctx, `select stock::int from only `+r.Schema+`.item`).Scan(&n); err != nil {
					n = -1
				}
				return n
			}
			late, before := 0, 0
			if !open {
				ended := r.EndSale(ctx)
				before = units()
				_ = exec(hostile, `update item set stock = stock - 1`)
				if late, err = r.LateSales(ctx); err != nil {
					t.Fatal(err)
				}
				if taken := before - units(); ended == nil && taken > 0 && late < taken {
					t.Errorf("%d units of %d that were taken after the end", late, taken)
				}
			}
			owners, tampered, err := r.Count(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(owners) > 0 && failed == 0 && !tampered {
				t.Errorf("%v have orders, and none has failed at first", owners)
			}
			switch {
			case outcome == "refused" && !tampered: // and the orders are counted
			case tampered:
				outcome = lab.Tampered
			case len(owners) == 0:
				outcome = "sells nothing"
			}
			if want := cmp.Or(notRefused[name], "refused"); outcome != want {
				t.Errorf("%s, want %s", outcome, want)
			}
			t.Logf("tampered %v, %d orders, %d failed, %d late", tampered, len(owners), failed, late)
		})
	}
}

// A statement that is under way when the judge counts changes nothing afterwards: it has ended.
func TestNothingOfAProgramGoesOnAfterTheCount(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), labtest.Stores(t)
	s.DatabaseURL, s.JudgeURL = labtest.ThrowawayServer(t, s)
	r, err := lab.OpenJudged(ctx, s, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Namespace.Close(context.Background()) }()
	if err := r.Restart(ctx, 1, nil); err != nil {
		t.Fatal(err)
	}
	eye, err := r.Look(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eye.Close(context.Background()) }()
	cfg, err := r.PoolConfig(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	hostile, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hostile.Close(context.Background()) }()
	if _, err := hostile.Exec(ctx, `insert into orders (user_id) values (1), (2)`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := hostile.Exec(ctx, `do $$ begin perform pg_sleep(3600); delete from orders where user_id = 2; end $$`)
		ended <- err
	}()
	sandboxtest.Until(t, "the statement is under way", func() bool {
		var waits bool
		err := r.Admin.QueryRow(ctx, `select exists (select from pg_stat_activity where usename = $1 and wait_event = 'PgSleep')`, r.ProgramRole()).Scan(&waits)
		return err == nil && waits
	})
	owners, tampered, err := r.Count(ctx)
	if len(owners) != 2 || tampered || err != nil {
		t.Errorf("%v, tampered %v: %v", owners, tampered, err)
	}
	if err := <-ended; err == nil {
		t.Error("the statement has ended by itself")
	}
}
