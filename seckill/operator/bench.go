package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"miaosha/goods"
	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
)

// Bench drives a shop and reports.
type Bench struct {
	URL         string  `name:"url" placeholder:"URL" help:"A running shop. If not given, one is started for it on the same stores, without captcha and rate limits."`
	Sale        int64   `placeholder:"ID" help:"An open sale. If not given, one is made."`
	Buyers      string  `placeholder:"FILE" help:"Buyers as miaosha users writes them. If not given, they are made."`
	N           int     `short:"n" help:"How many buyers; 0: as many as the shape needs (5000, or 15000 for each second)."`
	Stock       int     `help:"Units of the sale that is made; 0: as the shape has it (1000, or enough for all)."`
	Shape       string  `default:"capacity" enum:"capacity,open,second,ramp,soldout,impatient,slow,polls,list,conns" help:"capacity: one purchase after the other; open: at --rate; second: all click within 0.1 s; ramp: 1, 10 and 100 times the capacity, or --rate, of a shop made slow for it; soldout: refusals; impatient: who hang up after milliseconds and click again; slow: beside 500 who send a byte at a time; polls: results; list: the list of sales; conns: the memory for 10000 idle connections."`
	Seconds     int     `default:"10" help:"How long new buyers come; for conns, how long after their end the memory is read again."`
	Conns       int     `help:"Connections; 0: as the shape has it (128 for capacity)."`
	Rate        float64 `help:"Buyers a second, for open and ramp."`
	Poll        int     `default:"-1" help:"Percent of the accepted who poll until they know; -1: as the shape has it (2 for capacity, slow and ramp, else all)."`
	Pay         int     `help:"Percent of those with an order who pay, at the play-money cashier."`
	Captcha     bool    `help:"Every buyer solves a sum first. The shop has to tell the answers, as the one does that is started for it in the sandbox."`
	Sales       int     `help:"Open so many other sales, with a hundred buyers a second between them, and report how those are served. With capacity, open and slow."`
	Fill        int     `help:"In the sandbox: first have so many old users and orders in the tables. They stay there."`
	Yardstick   bool    `help:"Drive a bare handler too, before and after, and print the ratio. It answers a purchase with fixed JSON, whatever the shape asks the shop for."`
	Ops         string  `placeholder:"URL" help:"The ops address of the shop at --url, for its CPU time and memory."`
	JSON        bool    `name:"json" help:"Print the report as JSON."`
	HTML        string  `name:"html" placeholder:"FILE" help:"Write the report as one page with plots."`
	AllowRemote bool    `help:"Drive a shop that is not on this machine."`
}

// ErrMismatch says that the orders are not those that buyers were promised.
var ErrMismatch = errors.New("the orders are not those that buyers were told of")

// Run drives, audits and reports. ErrBroken or ErrMismatch if what was sold is not right, after the report.
func (b Bench) Run(ctx context.Context, d Desk) error {
	shape, _ := bench.Needs(b.Shape)
	b.N = cmp.Or(b.N, shape.Buyers(b.Seconds))
	b.Stock = cmp.Or(b.Stock, shape.Stock(b.N))
	b.Conns = cmp.Or(b.Conns, shape.Conns)
	if b.Poll == -1 {
		b.Poll = shape.Poll
	}
	cfg := bench.Config{URL: cmp.Or(b.URL, "http://127.0.0.1:1"), AllowRemote: b.AllowRemote, Sale: b.Sale, Shape: b.Shape, Seconds: b.Seconds,
		Conns: b.Conns, Rate: b.Rate, Poll: b.Poll, Pay: b.Pay, Captcha: b.Captcha}
	if err := b.validate(cfg, d, shape); err != nil {
		return err
	}
	r := bench.Report{At: time.Now().UTC().Truncate(time.Second), Machine: bench.Machine(), Shape: b.Shape, Poll: b.Poll, Pay: b.Pay, Captcha: b.Captcha}
	if b.Ops != "" {
		cfg.Usage = func(ctx context.Context) (bench.Usage, error) { return bench.OfMetrics(ctx, b.Ops) }
	}
	if b.URL == "" {
		shop, err := startChild(ctx, d, b.serve()...)
		if err != nil {
			return fmt.Errorf("start a shop: %w", err)
		}
		defer shop.stop()
		cfg.URL = shop.url
		cfg.Usage = func(context.Context) (bench.Usage, error) { return bench.OfProcess(shop.pid()) }
	}
	r.URL = cfg.URL
	// With a shop, a sale and buyers given, the stores may be out of reach; what only they tell is left out.
	do := func(s *backend.Stores) error { return b.drive(ctx, d, cfg, s, &r) }
	var err error
	if b.URL != "" && b.Sale != 0 && b.Buyers != "" && (d.Backend.DatabaseURL == "" || d.Backend.RedisURL == "") {
		err = do(nil)
	} else {
		err = d.withStores(ctx, do)
	}
	if err != nil {
		return err
	}
	if err := b.write(d.Out, r); err != nil {
		return err
	}
	return verdict(r)
}

// A ramp is to a hundred times the capacity, which is only within the tool's reach where that is low: a settle
// transaction takes what is queued, so these two allow 200 to 400 purchases a second, in lumps that are small beside what a
// turn sells.
const rampPause, rampQueue = "150ms", "60"

// serve is how the shop is started that is to be measured.
func (b Bench) serve() []string {
	args := []string{"serve", "--addr", "127.0.0.1:0", "--ops-addr", "off", "--rate", "off", "--ip-rate", "off"}
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

func (b Bench) validate(cfg bench.Config, d Desk, shape bench.Shape) error {
	switch {
	case b.N < 1 || b.N > bench.MaxBuyers:
		return fmt.Errorf("-n: 1 to %d", bench.MaxBuyers)
	case b.Stock < 1 || b.Stock > math.MaxInt32:
		return errors.New("--stock: at least 1")
	case b.Buyers != "" && b.Sale == 0:
		return errors.New("--sale: required with --buyers")
	case b.URL == "" && b.Ops != "":
		return errors.New("--ops: only with --url")
	case b.Sales < 0 || b.Sales > mostCold:
		return fmt.Errorf("--sales: 0 to %d", mostCold)
	case b.Sales > 0 && !shape.Alone:
		return fmt.Errorf("--sales: not with --shape %s", b.Shape)
	case b.Fill < 0 || b.Fill > mostFilled:
		return fmt.Errorf("--fill: 0 to %d", mostFilled)
	case b.Fill > 0 && !d.Backend.Sandboxed():
		return errors.New("--fill: only in the sandbox")
	case b.Captcha && b.URL == "" && (d.Backend.DatabaseURL != "" || d.Backend.RedisURL != ""):
		return errors.New("--captcha: a shop that tells the answers is started in the sandbox only; --url for a running one")
	case b.Yardstick && (b.Shape == "conns" || b.Shape == "ramp"):
		return fmt.Errorf("--yardstick: not with --shape %s, whose figure is not one of speed", b.Shape)
	}
	if err := d.Backend.RequireSecret(); err != nil && (b.URL == "" || b.Buyers == "") {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	return bench.RoomFor(b.Conns)
}

// drive has the sale, the buyers, the turns and the audit. s is nil where the stores are out of reach.
func (b Bench) drive(ctx context.Context, d Desk, cfg bench.Config, s *backend.Stores, r *bench.Report) (err error) {
	ends := time.Now().Add(time.Hour)
	if b.Fill > 0 {
		if r.Filled, err = fill(ctx, s.Web, b.Fill, d.Err); err != nil {
			return err
		}
	}
	if b.URL == "" {
		if err := swept(ctx, s, d.Err); err != nil {
			return err
		}
	}
	if cfg.Sale == 0 {
		r.Stock = b.Stock
		cfg.Sale, err = goods.New(s.Web).Sell(ctx, goods.Item{Title: "bench " + b.Shape}, goods.Terms{Price: 1, Total: b.Stock, StartsAt: time.Now(), EndsAt: ends})
		if err != nil {
			return err
		}
	}
	var cold []int64 // first of all, so that the shop has set their gates up by the time that it is measured
	if b.Sales > 0 {
		if cold, err = openSales(ctx, s, b.Sales, bench.ColdBuyers(b.Seconds), ends); err != nil {
			return err
		}
		if cfg.Cold, err = mintBuyers(ctx, d, s, bench.ColdBuyers(b.Seconds), cold, ends); err != nil {
			return err
		}
	}
	var buyers []bench.Buyer
	if b.Buyers != "" {
		buyers, err = openBuyers(b.Buyers)
	} else {
		buyers, err = mintBuyers(ctx, d, s, b.N, []int64{cfg.Sale}, ends)
	}
	if err != nil {
		return err
	}
	r.Buyers = len(buyers)
	count := func(ctx context.Context, sales ...int64) (n int, err error) {
		if err = s.Web.QueryRow(ctx, `select count(*) from orders where sale_id = any($1)`, sales).Scan(&n); err != nil {
			err = fmt.Errorf("count the orders of %d sales: %w", len(sales), err)
		}
		return n, err
	}
	before := 0
	if s != nil {
		cfg.Sold = func(ctx context.Context) (n int, err error) { // the sale's row alone: it is asked ten times a second
			err = s.Web.QueryRow(ctx, `select total - stock from sales where id = $1`, cfg.Sale).Scan(&n)
			return n, err
		}
		if before, err = count(ctx, cfg.Sale); err != nil {
			return err
		}
	}
	var y bench.Yardstick
	if y.Before, err = b.bare(ctx, d); err != nil {
		return err
	}
	if r.Turns, err = bench.Run(ctx, cfg, buyers, d.Err); err != nil {
		return err
	}
	if y.After, err = b.bare(ctx, d); err != nil {
		return err
	}
	if b.Yardstick {
		figure, _ := r.Headline()
		y.Ratio = math.Round(100*figure/((y.Before+y.After)/2)) / 100
		r.Yardstick = &y
	}
	if s == nil {
		return nil
	}
	after, err := count(ctx, cfg.Sale)
	if err != nil {
		return err
	}
	after -= before
	r.Orders = &after
	if cold != nil {
		// The run has waited for its own sale only.
		n := 0
		for began := time.Now(); err == nil && int64(n) < r.Turns[0].Cold.Accepted && time.Since(began) < coldSettles; time.Sleep(20 * time.Millisecond) {
			n, err = count(ctx, cold...)
		}
		if err != nil {
			return err
		}
		r.Cold = &n
	}
	var said bytes.Buffer
	clean, err := audit.Run(ctx, s.Web, s.Redis, &said)
	r.Audit = &bench.Audit{Clean: clean, Said: said.String()}
	return err
}

// sweeps is how long the shop may take to cancel what nobody paid while no shop was open.
const sweeps = 5 * time.Minute

// swept waits until it has: what earlier runs bought is neither to slow this one down nor to be found by its audit.
func swept(ctx context.Context, s *backend.Stores, progress io.Writer) error {
	for began := time.Now(); time.Since(began) < sweeps; {
		var due bool
		err := s.Web.QueryRow(ctx, `select exists (select from orders where status = 'pending' and expires_at <= now())`).Scan(&due)
		if err != nil {
			return fmt.Errorf("look for overdue orders: %w", err)
		}
		if !due {
			return nil
		}
		fmt.Fprintln(progress, "waiting until the shop has cancelled what earlier buyers did not pay")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return errors.New("overdue orders of earlier runs are still not cancelled")
}

// bare drives the yardstick, in a process of its own as the shop is.
func (b Bench) bare(ctx context.Context, d Desk) (float64, error) {
	if !b.Yardstick {
		return 0, nil
	}
	child, err := startChild(ctx, d, "yardstick")
	if err != nil {
		return 0, fmt.Errorf("start the yardstick: %w", err)
	}
	defer child.stop()
	return bench.Bare(ctx, child.url, b.Conns, time.Duration(min(b.Seconds, 3))*time.Second)
}

// verdict compares what buyers were told with what is on the books. A request that got no answer may have been accepted,
// and so may one that was told busy because the gate was slow.
func verdict(r bench.Report) error {
	if r.Audit == nil {
		return nil
	}
	if !r.Audit.Clean {
		return ErrBroken
	}
	var accepted, unheard, lost int64
	for _, t := range r.Turns {
		accepted += t.Accepted
		unheard += t.Failed + t.Aborted + t.RefusedBy["busy"]
		lost += min(t.Accepted, t.Outcomes["sold_out"]+t.Outcomes["closed"]+t.Outcomes["invalid"])
		if c := t.Cold; c != nil && (int64(*r.Cold) < c.Accepted || int64(*r.Cold) > c.Accepted+c.Failed+c.RefusedBy["busy"]) {
			return fmt.Errorf("%w: at the other sales %d were accepted and there are %d orders", ErrMismatch, c.Accepted, *r.Cold)
		}
	}
	if n := int64(*r.Orders); n > accepted+unheard || n < accepted-lost {
		return fmt.Errorf("%w: %d were accepted, %d of those in vain, %d got no answer, and there are %d orders", ErrMismatch, accepted, lost, unheard, n)
	}
	return nil
}

func (b Bench) write(w io.Writer, r bench.Report) error {
	if b.HTML != "" {
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil {
			return err
		}
		if err := os.WriteFile(b.HTML, page.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if b.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	r.Write(w)
	return nil
}
