package boundary

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/sandbox/sandboxtest"
)

// testPlace opens a place whose statements may take a second.
func testPlace(t *testing.T) (context.Context, *place) {
	t.Helper()
	l := program.LimitsIn(t.Context())
	l.Statement = time.Second
	ctx := program.WithLimits(t.Context(), l)
	p, err := openPlace(ctx, labtest.Stores(t), sandboxtest.Hang)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close(ctx) })
	return ctx, p
}

// A statement that was never told to end is not deaf, however old it is: the machine may have been suspended.
func TestAnOldStatementIsFirstToldToEnd(t *testing.T) {
	t.Parallel()
	ctx, p := testPlace(t)
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { _, err := c.Exec(ctx, `select pg_sleep(3600)`); ended <- err }()
	sandboxtest.Until(t, "the statement is old", func() (old bool) {
		err := p.admin.QueryRow(ctx, `select count(*) > 0 from pg_stat_activity where usename = 'program' and state = 'active' and now() - query_start > '4 s'`).Scan(&old)
		return err == nil && old
	})
	if problem, err := p.look(ctx); problem != nil || err != nil {
		t.Errorf("the first look: %+v, %v", problem, err)
	}
	guarded, unguard := context.WithCancel(ctx)
	go func() {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "57014") {
			t.Errorf("the statement has ended with %v", err)
		}
		unguard()
	}()
	if problem, err := p.guard(guarded); problem != nil || err != nil {
		t.Errorf("the guard: %+v, %v", problem, err)
	}
}

// A machine that is too busy to answer the guard in time says nothing about the program.
func TestABusyMachineIsNoVerdict(t *testing.T) {
	t.Parallel()
	ctx, p := testPlace(t)
	var main int
	if err := p.admin.QueryRow(ctx, `select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`).Scan(&main); err != nil {
		t.Fatal(err)
	}
	stop := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	stop(int(p.admin.PgConn().PID()))
	if problem, err := p.look(ctx); problem != nil || err != nil || p.admin.Ping(ctx) != nil {
		t.Errorf("a session that stands still: %+v, %v", problem, err)
	}
	stop(main)
	stop(int(p.admin.PgConn().PID()))
	if problem, err := p.look(ctx); problem != nil || err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a server that stands still: %+v, %v", problem, err)
	}
}
