package boundary

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

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// run is what the processes of one run of a program share.
type run struct {
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

// process is a program as a strategy, on one node.
type process struct {
	*lab.Node
	*run
	vm      *program.VM
	opened  error         // why there is no vm
	started chan struct{} // closed when start has returned
	failed  error         // of start
	laters  sync.WaitGroup
}

func newProcess(n *lab.Node, shared *run) *process {
	p := &process{Node: n, run: shared, started: make(chan struct{})}
	p.vm, p.opened = program.OpenVM(n.Ctx, shared.code, n.Plan.Seed+uint64(n.ID+1), shared.print)
	return p
}

// Prepare calls prepare, if the program has it.
func (p *process) Prepare(ctx context.Context) error {
	if p.opened != nil {
		return p.opened
	}
	c := p.click(noBuyer)
	_, _, err := p.vm.Call(ctx, c, "prepare")
	for ; err == nil && len(c.put) > 0; c.put = c.put[1:] {
		// no work of prepare goes on beside the crowd, where nothing counts or kills it
		err = c.put[0](ctx)
	}
	if text := (redis.Error)(nil); refused(err) || errors.As(err, &text) { // a wrong statement, not a lost connection
		err = program.Error{Text: lab.OneLine(err.Error())}
	}
	return err
}

// refused reports whether Postgres has refused a statement for what it says.
func refused(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && !slices.ContainsFunc([]string{"08", "53", "57P", "58", "XX"},
		func(outage string) bool { return strings.HasPrefix(pg.Code, outage) })
}

// Run calls start, if the program has it, and at the end waits for the work that later has put off.
func (p *process) Run(ctx context.Context) error {
	if p.failed = p.opened; p.failed == nil {
		lasting, cancel := p.lasting() // the crowd may be gone before a journal is read
		c := p.click(noBuyer)
		_, _, p.failed = p.vm.Call(lasting, c, "start")
		c.answered.Store(true)
		cancel()
	}
	close(p.started)
	<-ctx.Done()
	p.laters.Wait()
	return nil
}

// Ready waits until start has returned: what it does beside the crowd, no fault would reach.
func (p *process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*program.LimitsIn(ctx).Trial)
	defer cancel()
	select {
	case <-p.started:
		return p.Node.Ready(ctx)
	case <-ctx.Done():
		p.Kill()
		return lab.EndlessError{Text: fmt.Sprintf("start has not returned within %v", 2*program.LimitsIn(ctx).Trial)}
	}
}

// lasting returns a context for work that a process finishes when it stops in order. A kill ends it.
func (p *process) lasting() (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Ctx), lab.CleanupTimeout)
	stop := context.AfterFunc(p.Ctx, func() {
		if p.Alive() != nil {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// Buy calls buy. Under Cancel one buyer in three returns the unit, and a refused one presses again.
func (p *process) Buy(ctx context.Context, user int64) (bool, error) {
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
		if err != nil || !p.Plan.Has(lab.Cancel) {
			return yes, err
		}
		if yes && p.RNG(user+3*lab.MaxBuyers).IntN(3) == 0 {
			lab.Pause(ctx, 20*time.Millisecond)
			if _, _, err := p.vm.Call(ctx, p.click(user), "cancel", glua.LNumber(p.NumberOf(user))); err != nil {
				return false, err
			}
			p.cancelled.Store(user, true)
			p.TakeBack(user)
			return false, nil
		}
		if yes {
			return true, nil
		}
		if again, err := p.PressesAgain(ctx, refused, tries); err != nil || !again {
			return false, err
		}
	}
}

// lateFactor is how many buyers for each unit come before one is late.
const lateFactor = 4

// late counts the orders of buyers before whom lateFactor times as many had come as there are units. A crowd comes all
// at once, so that a smaller number would be chance.
func (r *run) late(owners []int64, stock int) (n int) {
	for _, user := range owners {
		if position, ok := r.positions.Load(user); ok && position.(int64) > int64(lateFactor*stock) {
			n++
		}
	}
	return n
}

// unpriced counts the orders of buyers for whom no click has called think.
func (r *run) unpriced(owners []int64) (n int) {
	for _, user := range owners {
		if _, priced := r.priced.Load(user); !priced {
			n++
		}
	}
	return n
}

// kept counts the orders of buyers who have cancelled: cancel has not removed them. It counts only buyers who pressed
// once: the second click of a buyer may write an order after the first one has cancelled.
func (r *run) kept(p lab.Plan, owners []int64) (n int) {
	pressed := map[int64]int{}
	for _, c := range p.Clicks() {
		pressed[c.User]++
	}
	for _, user := range owners {
		if _, gone := r.cancelled.Load(user); gone && pressed[user] == 1 {
			n++
		}
	}
	return n
}

func (p *process) buy(ctx context.Context, user int64) (bool, error) {
	if _, gone := p.cancelled.Load(user); gone {
		return false, nil // the second click of a buyer who gave the unit back
	}
	c := p.click(user)
	yes, found, err := p.vm.Call(ctx, c, "buy", glua.LNumber(p.NumberOf(user)))
	c.answered.Store(true)
	if !found {
		return false, program.ErrNoBuy
	}
	if c.tx != nil {
		_ = c.tx.Rollback(ctx)
	}
	return err == nil && yes == glua.LTrue, err
}

func (p *process) click(user int64) *crowdClick { return &crowdClick{process: p, user: user} }

// noBuyer is the user of prepare and start, which redis-away and lost-reply do not reach. They reach what start puts
// off.
const noBuyer = 0

// crowdClick is the calls of a click of the crowd.
type crowdClick struct {
	*process
	user     int64
	tx       pgx.Tx
	answered atomic.Bool                   // what later has put off goes on
	put      []func(context.Context) error // by prepare
}

// faultless reports whether no fault reaches the calls.
func (c *crowdClick) faultless() bool { return c.user == noBuyer && !c.answered.Load() }

func (c *crowdClick) Key(name string) string { return c.Node.Key(name) }

func (c *crowdClick) Query(ctx context.Context, _ int, text string, args []any) (*program.Table, error) {
	var rows pgx.Rows
	var err error
	if c.tx != nil {
		rows, err = c.tx.Query(ctx, text, args...)
	} else {
		rows, err = c.DB.Query(ctx, text, args...)
	}
	if err != nil {
		return nil, err
	}
	t, err := program.ReadTable(rows)
	// A program can keep its answers back until all is written: then the kill comes in the middle of the writing.
	if err == nil && t.Written && c.Plan.Has(lab.Kill) && !c.faultless() &&
		c.writes.Add(1) >= int64(max(1, c.Plan.Stock/2)) {
		c.Half()
	}
	if err == nil && c.loses() {
		err = program.ErrLostReply
	}
	return t, err
}

// loses reports whether the reply of a statement is lost: that of one in twenty-five, under LostReply.
func (c *crowdClick) loses() bool {
	if !c.Plan.Has(lab.LostReply) || c.faultless() {
		return false
	}
	return rand.New(rand.NewPCG(c.Plan.Seed, c.counter.Add(1))).IntN(25) == 0
}

func (c *crowdClick) Begin(ctx context.Context, _ int, isolation string) (err error) {
	if c.tx != nil {
		return program.ErrNested
	}
	level, err := program.IsolationLevel(isolation)
	if err != nil {
		return err
	}
	c.tx, err = c.DB.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	return err
}

func (c *crowdClick) End(ctx context.Context, _ int, commit bool) error {
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
		err = program.ErrLostReply
	}
	return err
}

func (c *crowdClick) Command(ctx context.Context, _ int, args []any) (any, error) {
	if c.Plan.Has(lab.RedisAway) && !c.faultless() {
		c.awayUntil.CompareAndSwap(0, time.Now().Add(lab.RedisPauseTime).UnixNano())
		if time.Now().UnixNano() < c.awayUntil.Load() || c.Plan.Outlasts && !c.SoldHalf() {
			lab.Pause(ctx, time.Millisecond)
			return nil, program.ErrRedisAway
		}
	}
	return program.RedisReply(c.Redis.Do(ctx, args...))
}

func (c *crowdClick) Think(ctx context.Context, _ int) error {
	c.LookUpPrice(ctx, c.user)
	if !c.answered.Load() && ctx.Err() == nil {
		c.priced.Store(c.user, true)
	}
	return ctx.Err()
}

// Promise says that the buyer was told yes.
func (c *crowdClick) Promise(context.Context, int) error {
	if c.user != noBuyer {
		c.Node.Tell(c.user)
	}
	return c.Alive()
}

func (c *crowdClick) Lock(ctx context.Context, _ int, name string) (func(), error) {
	return c.vm.LockOf(name).Take(ctx)
}

func (c *crowdClick) Later(do func(context.Context) error) {
	if c.ID == lab.ObserverID {
		c.put = append(c.put, do)
		return
	}
	c.laters.Go(func() {
		ctx, cancel := c.lasting()
		defer cancel()
		if c.Alive() == nil {
			if err := do(ctx); err != nil && c.Alive() == nil {
				c.print("later: " + err.Error() + "\n")
			}
		}
	})
}
