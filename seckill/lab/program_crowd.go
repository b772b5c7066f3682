package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	glua "github.com/yuin/gopher-lua"
)

// programRun is what the processes of one run of a program share.
type programRun struct {
	code      *glua.FunctionProto
	print     func(string)
	counter   atomic.Uint64 // statements, for LostReply
	awayUntil atomic.Int64  // RedisAway, in Unix nanoseconds; 0 before the first call
	cancelled sync.Map      // the buyers who gave their unit back
	positions sync.Map      // of the buyers, in the order in which their first clicks came, from 1
	came      atomic.Int64  // buyers
	writes    atomic.Int64  // statements of clicks that wrote a row
	priced    sync.Map      // the buyers for whom think has returned before an answer
}

// program is a program as a strategy, on one node.
type program struct {
	*node
	*programRun
	vm      *vm
	opened  error         // why there is no vm
	started chan struct{} // closed when start has returned
	failed  error         // of start
	laters  sync.WaitGroup
}

func newProgram(n *node, shared *programRun) *program {
	p := &program{node: n, programRun: shared, started: make(chan struct{})}
	p.vm, p.opened = openVM(n.ctx, shared.code, n.plan.Seed+uint64(n.id+1), shared.print)
	return p
}

// Prepare calls prepare, if the program has it.
func (p *program) Prepare(ctx context.Context) error {
	if p.opened != nil {
		return p.opened
	}
	c := p.click(noBuyer)
	_, _, err := p.vm.call(ctx, c, "prepare")
	for ; err == nil && len(c.put) > 0; c.put = c.put[1:] { // no work of prepare goes on beside the crowd, where nothing counts or kills it
		err = c.put[0](ctx)
	}
	if text := (redis.Error)(nil); refused(err) || errors.As(err, &text) { // a wrong statement, not a lost connection
		err = programError{oneLine(err.Error())}
	}
	return err
}

// refused reports whether Postgres has refused a statement for what it says.
func refused(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && !slices.ContainsFunc([]string{"08", "53", "57P", "58", "XX"}, func(outage string) bool { return strings.HasPrefix(pg.Code, outage) })
}

// Run calls start, if the program has it, and at the end waits for the work that later has put off.
func (p *program) Run(ctx context.Context) error {
	if p.failed = p.opened; p.failed == nil {
		lasting, cancel := p.lasting() // the crowd may be gone before a journal is read
		c := p.click(noBuyer)
		_, _, p.failed = p.vm.call(lasting, c, "start")
		c.answered.Store(true)
		cancel()
	}
	close(p.started)
	<-ctx.Done()
	p.laters.Wait()
	return nil
}

// Ready waits until start has returned: what it does beside the crowd, no fault would reach.
func (p *program) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*limitsIn(ctx).Trial)
	defer cancel()
	select {
	case <-p.started:
		return p.node.Ready(ctx)
	case <-ctx.Done():
		p.kill()
		return endlessError{fmt.Sprintf("start has not returned within %v", 2*limitsIn(ctx).Trial)}
	}
}

// lasting returns a context for work that a process finishes when it stops in order. A kill ends it.
func (p *program) lasting() (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), cleanupTimeout)
	stop := context.AfterFunc(p.ctx, func() {
		if p.alive() != nil {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// Buy calls buy. Under Cancel one buyer in three returns the unit, and a refused one presses again.
func (p *program) Buy(ctx context.Context, user int64) (bool, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if p.failed != nil {
		return false, p.failed
	}
	if _, known := p.positions.Load(user); !known {
		p.positions.LoadOrStore(user, p.came.Add(1))
	}
	refused := time.Now()
	for tries := 0; ; tries++ {
		yes, err := p.buy(ctx, user)
		if err != nil || !p.plan.has(Cancel) {
			return yes, err
		}
		if yes && p.rng(user+3*MaxBuyers).IntN(3) == 0 {
			pause(ctx, 20*time.Millisecond)
			if _, _, err := p.vm.call(ctx, p.click(user), "cancel", glua.LNumber(p.numberOf(user))); err != nil {
				return false, err
			}
			p.cancelled.Store(user, true)
			p.takeBack(user)
			return false, nil
		}
		if yes {
			return true, nil
		}
		if again, err := p.pressesAgain(ctx, refused, tries); err != nil || !again {
			return false, err
		}
	}
}

// lateFactor is how many buyers for each unit come before one is late.
const lateFactor = 4

// late counts the orders of buyers before whom lateFactor times as many had come as there are units. A crowd comes all at
// once, so that a smaller number would be chance.
func (r *programRun) late(owners []int64, stock int) (n int) {
	for _, user := range owners {
		if position, ok := r.positions.Load(user); ok && position.(int64) > int64(lateFactor*stock) {
			n++
		}
	}
	return n
}

// unpriced counts the orders of buyers for whom no click has called think.
func (r *programRun) unpriced(owners []int64) (n int) {
	for _, user := range owners {
		if _, priced := r.priced.Load(user); !priced {
			n++
		}
	}
	return n
}

// kept counts the orders of buyers who have cancelled: cancel has not removed them. It counts only buyers who pressed once:
// the second click of a buyer may write an order after the first one has cancelled.
func (r *programRun) kept(p Plan, owners []int64) (n int) {
	pressed := map[int64]int{}
	for _, c := range p.clicks() {
		pressed[c.user]++
	}
	for _, user := range owners {
		if _, gone := r.cancelled.Load(user); gone && pressed[user] == 1 {
			n++
		}
	}
	return n
}

func (p *program) buy(ctx context.Context, user int64) (bool, error) {
	if _, gone := p.cancelled.Load(user); gone {
		return false, nil // the second click of a buyer who gave the unit back
	}
	c := p.click(user)
	yes, found, err := p.vm.call(ctx, c, "buy", glua.LNumber(p.numberOf(user)))
	c.answered.Store(true)
	if !found {
		return false, errNoBuy
	}
	if c.tx != nil {
		_ = c.tx.Rollback(ctx)
	}
	return err == nil && yes == glua.LTrue, err
}

func (p *program) click(user int64) *crowdClick { return &crowdClick{program: p, user: user} }

// noBuyer is the user of prepare and start, which redis-away and lost-reply do not reach. They reach what start puts off.
const noBuyer = 0

// crowdClick is the calls of a click of the crowd.
type crowdClick struct {
	*program
	user     int64
	tx       pgx.Tx
	answered atomic.Bool                   // what later has put off goes on
	put      []func(context.Context) error // by prepare
}

// faultless reports whether no fault reaches the calls.
func (c *crowdClick) faultless() bool { return c.user == noBuyer && !c.answered.Load() }

func (c *crowdClick) key(name string) string { return c.node.key(name) }

func (c *crowdClick) query(ctx context.Context, _ int, text string, args []any) (*table, error) {
	var rows pgx.Rows
	var err error
	if c.tx != nil {
		rows, err = c.tx.Query(ctx, text, args...)
	} else {
		rows, err = c.db.Query(ctx, text, args...)
	}
	if err != nil {
		return nil, err
	}
	t, err := readTable(rows)
	// A program can keep its answers back until all is written: then the kill comes in the middle of the writing.
	if err == nil && t.written && c.plan.has(Kill) && !c.faultless() && c.writes.Add(1) >= int64(max(1, c.plan.Stock/2)) {
		c.half()
	}
	if err == nil && c.loses() {
		err = errLostReply
	}
	return t, err
}

// loses reports whether the reply of a statement is lost: that of one in twenty-five, under LostReply.
func (c *crowdClick) loses() bool {
	if !c.plan.has(LostReply) || c.faultless() {
		return false
	}
	return rand.New(rand.NewPCG(c.plan.Seed, c.counter.Add(1))).IntN(25) == 0
}

func (c *crowdClick) begin(ctx context.Context, _ int, isolation string) (err error) {
	if c.tx != nil {
		return errNested
	}
	level, err := isolationLevel(isolation)
	if err != nil {
		return err
	}
	c.tx, err = c.db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	return err
}

func (c *crowdClick) end(ctx context.Context, _ int, commit bool) error {
	tx := c.tx
	c.tx = nil
	if tx == nil {
		return nil
	}
	if !commit {
		return tx.Rollback(context.WithoutCancel(ctx))
	}
	err := tx.Commit(ctx)
	if err == nil && c.loses() {
		err = errLostReply
	}
	return err
}

func (c *crowdClick) redis(ctx context.Context, _ int, args []any) (any, error) {
	if c.plan.has(RedisAway) && !c.faultless() {
		c.awayUntil.CompareAndSwap(0, time.Now().Add(redisPauseTime).UnixNano())
		if time.Now().UnixNano() < c.awayUntil.Load() || c.plan.Outlasts && !c.soldHalf() {
			pause(ctx, time.Millisecond)
			return nil, errRedisAway
		}
	}
	return redisReply(c.rdb.Do(ctx, args...))
}

func (c *crowdClick) think(ctx context.Context, _ int) error {
	c.lookUpPrice(ctx, c.user)
	if !c.answered.Load() && ctx.Err() == nil {
		c.priced.Store(c.user, true)
	}
	return ctx.Err()
}

// promise says that the buyer was told yes.
func (c *crowdClick) promise(context.Context, int) error {
	if c.user != noBuyer {
		c.node.tell(c.user)
	}
	return c.alive()
}

func (c *crowdClick) lock(ctx context.Context, _ int, name string) (func(), error) {
	return c.vm.lockOf(name).take(ctx)
}

func (c *crowdClick) later(do func(context.Context) error) {
	if c.id == observerID {
		c.put = append(c.put, do)
		return
	}
	c.laters.Go(func() {
		ctx, cancel := c.lasting()
		defer cancel()
		if c.alive() == nil {
			if err := do(ctx); err != nil && c.alive() == nil {
				c.print("later: " + err.Error() + "\n")
			}
		}
	})
}
