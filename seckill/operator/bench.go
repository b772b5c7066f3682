package operator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
)

// Bench drives a shop and reports.
type Bench struct {
	URL         string  `name:"url" placeholder:"URL" help:"A running shop. If not given, bench starts one, without captcha and rate limits, with a Redis and a database of its own, and removes them when it ends: in the sandbox a Postgres too, else the database is on the server of --database-url, where the user needs the right to create it."`
	Sale        int64   `placeholder:"ID" help:"An open sale of the shop at --url. If not given, bench creates one."`
	Buyers      string  `placeholder:"FILE" help:"Buyers of the shop at --url, as miaosha users writes them. If not given, bench creates them."`
	N           int     `short:"n" help:"Number of buyers; 0: as many as the shape needs (5000, or 15000 for each second)."`
	Stock       int     `help:"Units of the created sale; 0: the default of the shape (1000, or one for each buyer)."`
	Shape       string  `default:"capacity" enum:"capacity,open,second,ramp,soldout,impatient,slow,polls,streams,list,conns" help:"capacity: one purchase after the other on each connection; open: arrivals at --rate; second: all click within 0.1 s; ramp: 1, 10 and 100 times the capacity, or --rate, of a shop made slow for it; soldout: refusals; impatient: buyers hang up after milliseconds and click again; slow: beside 500 clients who send one byte at a time; polls: results; streams: 10000 event streams, which tell of the orders; list: the list of sales; conns: the memory for 10000 idle connections."`
	Seconds     int     `help:"How long new buyers arrive; 0: 10, or 2 in each round of --ladder; for conns, how long to wait after closing before the memory is read again."`
	Conns       int     `help:"Connections; 0: the default of the shape (128 for capacity)."`
	Rate        float64 `help:"Buyers a second, for open and ramp."`
	Poll        int     `default:"-1" help:"Percent of the accepted buyers who poll for their result; -1: the default of the shape (2 for capacity, slow and ramp, else all)."`
	Pay         int     `help:"Percent of the buyers with an order who pay, at the play-money cashier."`
	Captcha     bool    `help:"Every buyer solves a captcha first. The shop must reveal the answers, as the one that bench starts in the sandbox does."`
	Sales       int     `help:"With capacity, open and slow: open this many other sales, with a hundred buyers a second for all of them, and report their results. With polls and streams: spread the buyers over this many sales; those of polls then have no ticket."`
	Fill        int     `help:"In the sandbox: first create orders of the past year, up to this many, ten per user. With --url they stay."`
	Baseline    bool    `aliases:"yardstick" help:"Also drive a bare handler, before and after, and print the ratio. It answers a purchase with fixed JSON, whatever the shape requests from the shop."`
	Ops         string  `placeholder:"URL" help:"The ops address of the shop at --url, for its CPU time, memory and counters."`
	Ladder      bool    `help:"In the sandbox: the same crowd against shops that add one optimisation at a time, from a naive one to the whole shop."`
	Rounds      int     `default:"2" help:"How often --ladder measures each shop: upwards in odd rounds, downwards in even ones."`
	JSON        bool    `name:"json" help:"Print the report as JSON."`
	HTML        string  `name:"html" placeholder:"FILE" help:"Write the report as one HTML page with plots."`
	AllowRemote bool    `help:"Drive a shop that is not on this machine."`
}

// ErrMismatch reports that the orders do not match the results that the buyers received.
var ErrMismatch = errors.New("the orders do not match the results that the buyers received")

// Run drives the shop and prints the report. It returns ErrBroken or ErrMismatch if orders are wrong.
func (b Bench) Run(ctx context.Context, env Env) (err error) {
	if b.Ladder {
		if b.Shape != "capacity" {
			return errors.New("--shape: not with --ladder, whose crowd has a shape of its own")
		}
		b.Shape, b.Seconds = bench.LadderShape, cmp.Or(b.Seconds, ladderSeconds)
	}
	b.Seconds = cmp.Or(b.Seconds, 10)
	shape, _ := bench.ShapeNamed(b.Shape)
	b.N = cmp.Or(b.N, shape.Buyers(b.Seconds))
	b.Stock = cmp.Or(b.Stock, shape.Stock(b.N))
	b.Conns = cmp.Or(b.Conns, shape.Conns)
	if b.Poll == -1 {
		b.Poll = shape.Poll
	}
	cfg := bench.Config{URL: cmp.Or(b.URL, "http://127.0.0.1:1"), AllowRemote: b.AllowRemote, Sale: b.Sale,
		Shape: b.Shape, Seconds: b.Seconds,
		Conns: b.Conns, Rate: b.Rate, Poll: b.Poll, Pay: b.Pay, Captcha: b.Captcha}
	if err := b.validate(cfg, env, shape); err != nil {
		return err
	}
	if b.Ladder {
		return b.climb(ctx, env, cfg)
	}
	var m made
	defer func() { err = m.end(ctx, err) }()
	p := env.progress()
	if b.URL != "" {
		if err := b.checkURL(ctx, env, cfg); err != nil {
			return err
		}
	}
	r := bench.Report{At: time.Now().UTC().Truncate(time.Second), Machine: bench.Machine(), Origin: env.Origin,
		Shape: b.Shape, Poll: b.Poll, Pay: b.Pay, Captcha: b.Captcha}
	if b.Ops != "" {
		cfg.Usage = func(ctx context.Context) (bench.Usage, error) { return bench.MetricsUsage(ctx, b.Ops) }
	}
	if b.URL == "" {
		var remove func() error
		if env, remove, err = env.ownStores(ctx); err != nil {
			return err
		}
		m.own = true
		defer func() {
			m.removed = remove()
			err = errors.Join(err, m.removed)
		}()
		p.step("bench: starting a shop with stores of its own, which are removed at the end")
		defer context.AfterFunc(ctx, func() {
			fmt.Fprintln(env.Err,
				"bench: stopping; ending the shop and removing its stores")
		})()
		shop, err := startChild(ctx, env, b.serveArgs()...)
		if err != nil {
			return fmt.Errorf("start a shop: %w", err)
		}
		defer shop.stop()
		cfg.URL = shop.url
		if b.Ops, err = shop.nextURL(ctx, "metrics"); err != nil {
			return fmt.Errorf("start a shop: %w", err)
		}
		cfg.Usage = func(context.Context) (bench.Usage, error) { return bench.ProcessUsage(shop.pid()) }
	}
	r.URL = cfg.URL
	do := func(s *backend.Stores) error { return b.drive(ctx, env, cfg, s, &r, &m) }
	if b.needsStores(env) {
		err = env.withStores(ctx, do)
	} else {
		err = do(nil)
	}
	if err != nil {
		return err
	}
	wrong := verdict(r)
	if wrong != nil {
		r.Wrong = wrong.Error()
	}
	text := func(w io.Writer) error {
		r.Write(w)
		return nil
	}
	if err := env.writeReport(b.HTML, b.JSON, r, r.HTML, text); err != nil {
		return err
	}
	if !m.own && len(m.sales)+m.buyers > 0 {
		p.step("bench: %s", m.left())
	}
	return wrong
}

// A ramp offers up to 100 times the capacity, which the bench can only do if the capacity is low. A
// settle transaction takes at most what is queued, so these two limit a shop to 200 to 400
// purchases a second, in batches that are small beside the sales of a turn.
const rampPause, rampQueue = "150ms", "60"

// serveArgs returns the command line of the shop that bench starts.
func (b Bench) serveArgs() []string {
	args := []string{"serve", "--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--rate", "off", "--ip-rate", "off",
		"--max-conns-share", "100"}
	if b.Captcha {
		args = append(args, "--captcha", "math", "--captcha-answers")
	} else {
		args = append(args, "--captcha", "off")
	}
	if b.Shape == "ramp" {
		args = append(args, "--settle-pause", rampPause, "--qmax", rampQueue)
	}
	return args
}

func (b Bench) validate(cfg bench.Config, env Env, shape bench.Shape) error {
	switch {
	case b.N < 1 || b.N > bench.MaxBuyers:
		return fmt.Errorf("-n: 1 to %d", bench.MaxBuyers)
	case b.Stock < 1 || b.Stock > math.MaxInt32:
		return errors.New("--stock: at least 1")
	case b.Buyers != "" && b.Sale == 0:
		return errors.New("--sale: required with --buyers")
	case b.URL == "" && b.Ops != "":
		return errors.New("--ops: only with --url")
	case b.URL == "" && b.Sale != 0:
		return errors.New("--sale: only with --url: a shop that bench starts has no sale yet")
	case b.Sales < 0 || b.Sales > maxColdSales && !shape.Spreads || b.Sales > maxSpread:
		return fmt.Errorf("--sales: 0 to %d, with polls and streams to %d", maxColdSales, maxSpread)
	case b.Sales > 0 && shape.Spreads && b.Sale != 0:
		return errors.New("--sale: not with --sales, which creates those of the buyers")
	case b.Sales > 0 && !shape.AllowsCold && !shape.Spreads:
		return fmt.Errorf("--sales: not with --shape %s", b.Shape)
	case b.Fill < 0 || b.Fill > maxFill:
		return fmt.Errorf("--fill: 0 to %d", maxFill)
	case b.Fill > 0 && !env.Backend.Sandboxed():
		return errors.New("--fill: only in the sandbox")
	case b.Captcha && b.URL == "" && !env.Backend.Sandboxed():
		return errors.New(
			"--captcha: bench starts a shop that reveals the answers only in the sandbox; use --url for a running one")
	case b.Ladder && (env.Backend.DatabaseURL != "" || env.Backend.RedisURL != ""):
		return errors.New("--ladder: only in the sandbox: it runs shops that are slow on purpose")
	case b.Rounds < 1 || b.Rounds > 20:
		return errors.New("--rounds: 1 to 20")
	case b.Ladder && (b.URL != "" || b.Rate != 0 || b.Pay != 0 || b.Captcha || b.Sales != 0 ||
		b.Fill != 0 || b.Baseline):
		return errors.New("--ladder: not with --url, --rate, --pay, --captcha, --sales, --fill or --baseline")
	case b.Baseline && (b.Shape == "conns" || b.Shape == "ramp"):
		return fmt.Errorf("--baseline: not with --shape %s, which does not measure speed", b.Shape)
	}
	if err := env.Backend.RequireSecret(); err != nil && (b.URL == "" || b.Buyers == "") {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	conns := b.Conns
	if b.Shape == "streams" {
		conns += b.N
	}
	return bench.RaiseFileLimit(conns)
}

// drive runs the turns and the audit and fills in r. s is nil if the stores are unreachable.
func (b Bench) drive(
	ctx context.Context, env Env, cfg bench.Config, s *backend.Stores, r *bench.Report, m *made,
) (err error) {
	p, ends := env.progress(), time.Now().Add(time.Hour)
	sales := []int64{cfg.Sale} // those of the buyers
	switch shape, _ := bench.ShapeNamed(b.Shape); {
	case shape.Spreads && b.Sales > 0:
		if sales, err = openGates(ctx, s, b.Sales, b.N/b.Sales+1, ends); err != nil {
			return err
		}
		m.sales, cfg.Sale, cfg.Spread = append(m.sales, sales...), sales[0], true
		b.Sales = 0
	case cfg.Sale == 0:
		r.Stock = b.Stock
		began := time.Now().Add(-time.Minute) // the lot of its opening is over
		cfg.Sale, err = goods.New(s.Web).Sell(ctx, goods.Item{Title: "bench " + b.Shape},
			goods.Terms{Price: 1, Total: b.Stock, StartsAt: began, EndsAt: ends})
		if err != nil {
			return err
		}
		m.sales, sales = append(m.sales, cfg.Sale), []int64{cfg.Sale}
	}
	var cold []int64 // created early, so that the shop has built their gates before it is measured
	if b.Sales > 0 {
		cold, err = openSales(ctx, s, b.Sales, bench.ColdBuyers(b.Seconds), ends)
		if m.sales = append(m.sales, cold...); err != nil {
			return err
		}
	}
	if b.URL != "" && s != nil {
		if err := checkSale(ctx, cfg, s); err != nil {
			return errors.Join(err, removeSales(ctx, s, m))
		}
		p.step("bench: driving %s, and making its buyers in %s", b.URL, s.Where())
	}
	if b.Fill > 0 {
		if r.Filled, err = fill(ctx, s.Web, b.Fill, env.Err); err != nil {
			return err
		}
	}
	if b.Sales > 0 {
		if cfg.Cold, err = mintBuyers(ctx, env, s, bench.ColdBuyers(b.Seconds), cold, ends); err != nil {
			return err
		}
		m.buyers += len(cfg.Cold)
	}
	var buyers []bench.Buyer
	if b.Buyers != "" {
		buyers, err = openBuyers(b.Buyers)
	} else {
		buyers, err = mintBuyers(ctx, env, s, b.N, sales, ends)
		m.buyers += len(buyers)
	}
	if err != nil {
		return err
	}
	r.Buyers = len(buyers)
	before := 0
	if s != nil {
		cfg.Spent, cfg.Sold, cfg.Committed = storesSpent(s, b.Ops), unitsSold(s, sales...), committedAt(s, sales)
		if before, err = countOrders(ctx, s, sales...); err != nil {
			return err
		}
	}
	var y bench.Baseline
	if y.Before, err = b.driveBaseline(ctx, env); err != nil {
		return err
	}
	if r.Turns, err = bench.Run(ctx, cfg, buyers, env.Err); err != nil {
		return err
	}
	if y.After, err = b.driveBaseline(ctx, env); err != nil {
		return err
	}
	if b.Baseline {
		figure, _ := r.Headline()
		y.Ratio = math.Round(100*figure/((y.Before+y.After)/2)) / 100
		r.Baseline = &y
	}
	if s == nil {
		return nil
	}
	after, err := countOrders(ctx, s, sales...)
	if err != nil {
		return err
	}
	after -= before
	r.Orders = &after
	if cold != nil {
		n := 0 // the run has waited for its own sale only
		for began := time.Now(); err == nil && int64(n) < r.Turns[0].Cold.Accepted &&
			time.Since(began) < coldSettleLimit; time.Sleep(20 * time.Millisecond) {
			n, err = countOrders(ctx, s, cold...)
		}
		if err != nil {
			return err
		}
		r.Cold = &n
	}
	p.step("bench: counting orders, and auditing")
	r.Audit, err = runAudit(ctx, s)
	return err
}

// storesSpent returns a function that reads what the stores have used, and the counters of the shop at ops if that is
// not "".
func storesSpent(s *backend.Stores, ops string) func(context.Context) bench.Spent {
	return func(ctx context.Context) bench.Spent {
		spent := bench.Spent{Postgres: postgresCPU(ctx, s.Web), Redis: redisCPU(ctx, s.Redis)}
		if ops != "" {
			spent.Counters, _ = bench.MetricsCounters(ctx, ops) // unknown is 0
		}
		return spent
	}
}

// unitsSold returns a function that counts the sold units. It is called ten times a second, so it reads only the rows
// of the sales.
func unitsSold(s *backend.Stores, sales ...int64) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		rows, _ := s.Web.Query(ctx, `select sum(total - stock)::int from sales where id = any($1)`, sales)
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	}
}

// committedAt returns a function that reads when each order was written, by its id.
func committedAt(s *backend.Stores, sales []int64) func(context.Context) (map[string]time.Time, error) {
	return func(ctx context.Context) (map[string]time.Time, error) {
		rows, _ := s.Web.Query(ctx, `select id::text, created_at from orders where sale_id = any($1)`, sales)
		committed := map[string]time.Time{}
		var id string
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error { committed[id] = at; return nil })
		return committed, err
	}
}

func runAudit(ctx context.Context, s *backend.Stores) (*bench.Audit, error) {
	var said bytes.Buffer
	clean, err := audit.Run(ctx, s.Web, s.Redis, &said)
	return &bench.Audit{Clean: clean, Said: said.String()}, err
}

func countOrders(ctx context.Context, s *backend.Stores, sales ...int64) (int, error) {
	rows, _ := s.Web.Query(ctx, `select count(*) from orders where sale_id = any($1)`, sales)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("count the orders of %d sales: %w", len(sales), err)
	}
	return n, nil
}

// driveBaseline returns the speed of a baseline in a process of its own, like the shop.
func (b Bench) driveBaseline(ctx context.Context, env Env) (float64, error) {
	if !b.Baseline {
		return 0, nil
	}
	env.progress().step("bench: driving a bare handler, to compare with")
	child, err := startChild(ctx, env, "baseline")
	if err != nil {
		return 0, fmt.Errorf("start the baseline: %w", err)
	}
	defer child.stop()
	return bench.DriveBaseline(ctx, child.url, b.Conns, time.Duration(min(b.Seconds, 3))*time.Second)
}

// verdict compares the results that the buyers received with the orders in Postgres. A request without a
// response may have been accepted, and so may one that was refused as busy because the gate was slow.
func verdict(r bench.Report) error {
	if r.Audit == nil {
		return nil
	}
	if !r.Audit.Clean {
		return ErrBroken
	}
	var accepted, unanswered, inVain int64
	for _, t := range r.Turns {
		accepted += t.Accepted
		unanswered += t.Failed + t.Aborted + t.RefusedBy["busy"]
		inVain += min(t.Accepted, t.Outcomes["sold_out"]+t.Outcomes["closed"]+t.Outcomes["invalid"])
		if c := t.Cold; c != nil && (int64(*r.Cold) < c.Accepted ||
			int64(*r.Cold) > c.Accepted+c.Failed+c.RefusedBy["busy"]) {
			return fmt.Errorf("%w: at the other sales %d buyers were accepted, and there are %d orders", ErrMismatch,
				c.Accepted, *r.Cold)
		}
	}
	if n := int64(*r.Orders); n > accepted+unanswered || n < accepted-inVain {
		return fmt.Errorf(
			"%w: %d buyers were accepted (%d of them refused later), %d got no response, and there are %d orders",
			ErrMismatch, accepted, inVain, unanswered, n)
	}
	return nil
}
