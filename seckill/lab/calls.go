package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// calls sees every statement and every Redis call of a node: it counts them, makes them slow where the plan says so, and
// puts them on tape.
type calls struct{ *node }

type stepKey struct{}

// TraceQueryStart is called before each statement, begin and commit included.
func (n calls) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if n.id == looker {
		return ctx
	}
	count := n.sql.Add(1)
	if n.plan.has(SlowPostgres) {
		luck := rand.New(rand.NewPCG(n.plan.Seed, uint64(count)))
		pause(ctx, time.Duration(luck.Int64N(int64(slowest))))
	}
	if n.tape == nil {
		return ctx
	}
	return context.WithValue(ctx, stepKey{}, n.tape.begin(n.id, "sql", withArgs(q.SQL, q.Args)))
}

// slowest is how long a statement takes more, at most, under SlowPostgres.
const slowest = 5 * time.Millisecond

// TraceQueryEnd is called after each statement, when its rows were read.
func (n calls) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	i, ok := ctx.Value(stepKey{}).(int)
	if !ok {
		return
	}
	n.tape.end(i, q.CommandTag.String(), q.Err)
	n.mu.Lock()
	n.latest = i
	n.mu.Unlock()
}

// database is a pool that notes what the rows it gives say.
type database struct {
	*pgxpool.Pool
	node *node
}

func (d database) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return noted{d.Pool.QueryRow(ctx, sql, args...), d.node}
}

// Begin is for pgx.BeginFunc.
func (d database) Begin(ctx context.Context) (pgx.Tx, error) { return d.BeginTx(ctx, pgx.TxOptions{}) }

func (d database) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	t, err := d.Pool.BeginTx(ctx, opts)
	return transaction{t, d.node}, err
}

type transaction struct {
	pgx.Tx
	node *node
}

func (t transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return noted{t.Tx.QueryRow(ctx, sql, args...), t.node}
}

type noted struct {
	pgx.Row
	node *node
}

func (r noted) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if r.node.tape != nil && err == nil {
		values := make([]string, len(dest))
		for i, d := range dest {
			values[i] = shown(d)
		}
		r.node.mu.Lock()
		defer r.node.mu.Unlock()
		r.node.tape.end(r.node.latest, strings.Join(values, ", "), nil)
	}
	return err
}

func shown(dest any) string {
	switch v := dest.(type) {
	case *int:
		return fmt.Sprint(*v)
	case *bool:
		return fmt.Sprint(*v)
	}
	return "a row"
}

// DialHook, ProcessHook and ProcessPipelineHook are around each call of Redis.
func (n calls) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (n calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return n.redisCall(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (n calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return n.redisCall(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// redisCall is one round trip. A dead node sends nothing, and hears nothing of what it had sent. Under RedisPause the call
// is carried out and its reply is late.
func (n calls) redisCall(ctx context.Context, cmds []redis.Cmder, do func() error) error {
	if n.id == looker {
		return do()
	}
	fail := func(err error) error {
		for _, c := range cmds {
			c.SetErr(err)
		}
		return err
	}
	if err := n.alive(); err != nil {
		return fail(err)
	}
	n.redis.Add(1)
	texts := make([]string, len(cmds))
	for i, c := range cmds {
		texts[i] = oneLine(fmt.Sprintln(c.Args()...))
	}
	done := n.tape.step(n.id, "redis", strings.Join(texts, "; "))
	err := do()
	if d := time.Until(time.Unix(0, n.silentUntil.Load())); d > 0 {
		pause(ctx, d)
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
	}
	if err := n.alive(); err != nil {
		return fail(err)
	}
	results := make([]string, len(cmds))
	for i, c := range cmds {
		results[i] = reply(c)
	}
	if err != nil && len(cmds) == 1 { // which the command itself does not know yet
		results[0] = err.Error()
	}
	done(strings.Join(results, "; "))
	return err
}

// isUnique tells that a unique index has refused a row.
func isUnique(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "23505"
}
