package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// tracer sees every statement and every Redis call of a node. It counts them, delays them if the
// plan says so, and records them.
type tracer struct{ *Node }

type stepKey struct{}

// TraceQueryStart runs before each statement, begin and commit included.
func (n tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if n.ID == ObserverID {
		return ctx
	}
	count := n.sql.Add(1)
	if n.Plan.Has(SlowPostgres) {
		rng := rand.New(rand.NewPCG(n.Plan.Seed, uint64(count)))
		Pause(ctx, time.Duration(rng.Int64N(int64(slowest))))
	}
	if n.recorder == nil {
		return ctx
	}
	return context.WithValue(ctx, stepKey{}, n.recorder.begin(n.ID, "sql", WithArgs(q.SQL, q.Args)))
}

// slowest is the longest delay of a statement under SlowPostgres.
const slowest = 5 * time.Millisecond

// TraceQueryEnd runs after each statement, when its rows have been read.
func (n tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	i, ok := ctx.Value(stepKey{}).(int)
	if !ok {
		return
	}
	n.recorder.end(i, q.CommandTag.String(), q.Err)
	n.mu.Lock()
	n.lastStep = i
	n.mu.Unlock()
}

// database is a pool that records the values of the rows it returns.
type database struct {
	*pgxpool.Pool
	node *Node
}

func (d database) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return recordedRow{d.Pool.QueryRow(ctx, sql, args...), d.node}
}

// Begin is what pgx.BeginFunc calls.
func (d database) Begin(ctx context.Context) (pgx.Tx, error) { return d.BeginTx(ctx, pgx.TxOptions{}) }

func (d database) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	t, err := d.Pool.BeginTx(ctx, opts)
	return transaction{t, d.node}, err
}

type transaction struct {
	pgx.Tx
	node *Node
}

func (t transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return recordedRow{t.Tx.QueryRow(ctx, sql, args...), t.node}
}

type recordedRow struct {
	pgx.Row
	node *Node
}

func (r recordedRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if r.node.recorder != nil && err == nil {
		values := make([]string, len(dest))
		for i, d := range dest {
			values[i] = formatValue(d)
		}
		r.node.mu.Lock()
		defer r.node.mu.Unlock()
		r.node.recorder.end(r.node.lastStep, strings.Join(values, ", "), nil)
	}
	return err
}

func formatValue(dest any) string {
	switch v := dest.(type) {
	case *int:
		return fmt.Sprint(*v)
	case *bool:
		return fmt.Sprint(*v)
	}
	return "a row"
}

// DialHook does nothing. ProcessHook and ProcessPipelineHook wrap each call of Redis.
func (n tracer) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

func (n tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return n.redisCall(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (n tracer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return n.redisCall(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// redisCall does one round trip. A dead node sends no call and receives no reply. Under RedisPause
// Redis executes the call, and its reply comes late.
func (n tracer) redisCall(ctx context.Context, cmds []redis.Cmder, do func() error) error {
	if n.ID == ObserverID {
		return do()
	}
	fail := func(err error) error {
		for _, c := range cmds {
			c.SetErr(err)
		}
		return err
	}
	if err := n.Alive(); err != nil {
		return fail(err)
	}
	n.redis.Add(1)
	texts := make([]string, len(cmds))
	for i, c := range cmds {
		texts[i] = OneLine(fmt.Sprintln(c.Args()...))
	}
	done := n.recorder.step(n.ID, "redis", strings.Join(texts, "; "))
	err := do()
	if d := time.Until(time.Unix(0, n.redisPausedUntil.Load())); d > 0 {
		Pause(ctx, d)
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
	}
	if err := n.Alive(); err != nil {
		return fail(err)
	}
	results := make([]string, len(cmds))
	for i, c := range cmds {
		results[i] = formatReply(c)
	}
	if err != nil && len(cmds) == 1 { // go-redis sets the command's error only after the hooks
		results[0] = err.Error()
	}
	done(strings.Join(results, "; "))
	return err
}
