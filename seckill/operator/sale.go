package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/backend"
	"miaosha/web"
)

// Sale has the commands that make, show and change sales. Without a verb it makes one and publishes it. The states of a
// sale are in goods/change.go.
type Sale struct {
	TimeZone string `name:"time-zone" env:"MIAOSHA_TIME_ZONE" default:"Local" help:"The shop's time zone, for times without one."`

	New     SaleNew     `cmd:"" default:"withargs" help:"Create and publish a sale at once; print only its id (sale without a verb)."`
	Draft   SaleDraft   `cmd:"" help:"Create a sale that no buyer sees yet; print only its id."`
	List    SaleList    `cmd:"" help:"List drafts, and all sales that ended less than a day ago or not yet, with their units and orders."`
	Publish SalePublish `cmd:"" help:"Publish a draft: its stock goes into the gate, at the earliest ten minutes before it opens."`
	Pause   SalePause   `cmd:"" help:"Pause a published sale: it grants no more tickets. Granted tickets are settled; orders can be paid."`
	Resume  SaleResume  `cmd:"" help:"Publish a paused sale again."`
	Close   SaleClose   `cmd:"" help:"End a sale or a draft for good. Unsettled tickets are refused; orders can be paid."`
	Add     SaleAdd     `cmd:"" help:"Add units to a sale, or take unsold ones back."`
	Window  SaleWindow  `cmd:"" help:"Move the start or the end of a sale. The start of an open sale cannot move."`
}

func (c Sale) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("--time-zone: %q is not known", c.TimeZone)
	}
	return zone, nil
}

// SaleNew creates and publishes a sale.
type SaleNew struct {
	Title     string `required:"" help:"Title of the product."`
	Price     int64  `default:"1" help:"In fen, at most 999999999."`
	ListPrice int64  `default:"0" help:"The regular price shown beside it, in fen."`
	Stock     int    `default:"100" help:"Units."`
	Start     string `default:"now" help:"now, a delay (30s, +10m), the next time of a day (20:00), or a time (2026-11-11 20:00, 2026-11-11T20:00:00+08:00)."`
	End       string `default:"1h" help:"A duration after the start (+1h), or a time as for --start."`
	Image     string `placeholder:"PATH" help:"A picture of the shop, such as goods/kettle.svg, or an uploaded one: /pictures/..."`
	Detail    string `help:"A sentence or two."`
}

// Run publishes the sale and prints its id.
func (c SaleNew) Run(ctx context.Context, env Env, in *Sale) error {
	return c.create(ctx, env, in, goods.Published)
}

func (c SaleNew) create(ctx context.Context, env Env, in *Sale, state string) error {
	zone, err := in.zone()
	if err != nil {
		return err
	}
	from, to, err := goods.ParseWindow(c.Start, c.End, time.Now().In(zone))
	terms := goods.Terms{Price: c.Price, Total: c.Stock, StartsAt: from, EndsAt: to}
	if err == nil {
		err = terms.Validate()
	}
	if err != nil {
		return flagError(err)
	}
	return env.withShop(ctx, func(s *backend.Stores) error {
		item := goods.Item{Title: c.Title, Image: c.Image, Detail: c.Detail, ListPrice: c.ListPrice}
		store := admin.New(s.Web, order.Config{}, nil)
		if err := checkImage(ctx, store, c.Image); err != nil {
			return flagError(err)
		}
		id, err := store.AddSale(ctx, admin.By{From: "miaosha sale"},
			admin.NewSale{Item: item, Terms: terms, State: state})
		if err == nil {
			_, err = fmt.Fprintln(env.Out, id)
			env.sayWhere(s)
		}
		return flagError(err)
	})
}

// checkImage returns an InvalidError if the shop does not have the image: none, a drawing of its own, or an uploaded
// picture.
func checkImage(ctx context.Context, store *admin.Store, image string) error {
	own := web.OwnPictures()
	if image == "" || slices.Contains(own, image) {
		return nil
	}
	err := admin.ErrNoPicture
	if name, uploaded := strings.CutPrefix(image, "/pictures/"); uploaded {
		_, err = store.Picture(ctx, name)
	}
	if errors.Is(err, admin.ErrNoPicture) {
		return goods.InvalidError{Field: "image", Reason: "unknown", Text: fmt.Sprintf(
			"the shop has no picture %q. It has %s, and those uploaded in the back office: /pictures/...",
			image, strings.Join(own, ", "))}
	}
	return err
}

// flagError names the flag of a value that package goods refuses, and where to look after a change whose commit had no
// answer.
func flagError(err error) error {
	if errors.Is(err, admin.ErrUnsure) {
		return fmt.Errorf("%w; see miaosha sale list before you run it again", err)
	}
	if invalid := (goods.InvalidError{}); errors.As(err, &invalid) {
		return fmt.Errorf("--%w", invalid)
	}
	return err
}

// SaleDraft creates a draft, with the flags of SaleNew.
type SaleDraft struct {
	SaleNew `embed:""`
}

// Run creates the draft and prints its id.
func (c SaleDraft) Run(ctx context.Context, env Env, in *Sale) error {
	return c.create(ctx, env, in, goods.Draft)
}

// SaleList lists the sales.
type SaleList struct {
	JSON bool `name:"json" help:"As JSON."`
}

// Run prints one line for each sale, or a JSON array.
func (c SaleList) Run(ctx context.Context, env Env, in *Sale) error {
	zone, err := in.zone()
	if err != nil {
		return err
	}
	return env.withShop(ctx, func(s *backend.Stores) error {
		sales, err := goods.New(s.Web).List(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			e := json.NewEncoder(env.Out)
			e.SetIndent("", "  ")
			return e.Encode(sales)
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tSTATE\tSTART\tEND\tTOTAL\tLEFT\tPENDING\tPAID\tTITLE")
		for _, l := range sales {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", l.ID, l.State,
				l.StartsAt.In(zone).Format(time.DateTime),
				l.EndsAt.In(zone).Format(time.DateTime), l.Total, l.Stock, l.Pending, l.Paid, l.Title)
		}
		return w.Flush()
	})
}

// SaleID is the sale that a verb is about.
type SaleID struct {
	ID int64 `arg:"" help:"The sale's id."`
}

// SalePublish publishes a draft.
type SalePublish struct{ SaleID }

// Run publishes the draft.
func (c SalePublish) Run(ctx context.Context, env Env, in *Sale) error {
	return c.change(ctx, env, in, "publish", (*goods.Store).PublishDraft)
}

// SalePause pauses a sale.
type SalePause struct{ SaleID }

// Run pauses the sale.
func (c SalePause) Run(ctx context.Context, env Env, in *Sale) error {
	return c.change(ctx, env, in, "pause", (*goods.Store).Pause)
}

// SaleResume publishes a paused sale again.
type SaleResume struct{ SaleID }

// Run resumes the sale.
func (c SaleResume) Run(ctx context.Context, env Env, in *Sale) error {
	return c.change(ctx, env, in, "resume", (*goods.Store).Resume)
}

// SaleClose closes a sale.
type SaleClose struct{ SaleID }

// Run closes the sale.
func (c SaleClose) Run(ctx context.Context, env Env, in *Sale) error {
	return c.change(ctx, env, in, "close", (*goods.Store).Close)
}

// SaleAdd adds units to a sale.
type SaleAdd struct {
	SaleID
	Units int `required:"" help:"How many; --units=-5 takes five unsold ones back."`
}

// Run adds the units.
func (c SaleAdd) Run(ctx context.Context, env Env, in *Sale) error {
	return c.change(ctx, env, in, "units", func(s *goods.Store, ctx context.Context, id int64) (int64, error) {
		return s.AddUnits(ctx, id, c.Units)
	})
}

// SaleWindow moves the window of a sale.
type SaleWindow struct {
	SaleID
	Start string `placeholder:"T" help:"As for a new sale; without it the start stays."`
	End   string `placeholder:"T" help:"A duration after the start, or a time; without it the end stays."`
}

// Run moves the window.
func (c SaleWindow) Run(ctx context.Context, env Env, in *Sale) error {
	zone, err := in.zone()
	if err != nil {
		return err
	}
	if c.Start == "" && c.End == "" {
		return errors.New("--start, --end: one of them is needed")
	}
	return c.change(ctx, env, in, "window", func(s *goods.Store, ctx context.Context, id int64) (int64, error) {
		sale, _, err := s.StateOf(ctx, id)
		if err != nil {
			return 0, err
		}
		from, to := sale.StartsAt, sale.EndsAt
		if c.Start != "" {
			from, err = goods.ParseStart(c.Start, time.Now().In(zone))
		}
		if err == nil && c.End != "" {
			to, err = goods.ParseEnd(c.End, from.In(zone))
		}
		if err != nil {
			return 0, err
		}
		return s.Move(ctx, id, from, to)
	})
}

// change makes a change of the sale, which the log calls sale.<do>, and says on standard error what became of its gate.
func (c SaleID) change(ctx context.Context, env Env, in *Sale, do string, change admin.SaleChange) error {
	zone, err := in.zone()
	if err != nil {
		return err
	}
	return env.withShop(ctx, func(s *backend.Stores) error {
		_, err = admin.New(s.Web, order.Config{}, nil).ChangeSale(ctx, admin.By{From: "miaosha sale " + do},
			do, c.ID, change)
		if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "42501" {
			return errors.New(
				"this role of Postgres may not change sales: set DATABASE_URL to that of an owner (see deploy/README.md)")
		}
		if errors.Is(err, goods.ErrNoSale) {
			return fmt.Errorf("sale %d: %w", c.ID, err)
		}
		if err != nil {
			return flagError(err)
		}
		_, err = fmt.Fprintf(env.Err, "%s (changed: %s)\n", awaitGate(ctx, s, goods.New(s.Web), c.ID, zone), s.Where())
		return err
	})
}

const (
	gateLimit = 2 * time.Second // a running shop needs a fraction of it
	gatePause = 30 * time.Millisecond
)

// awaitGate waits until the sale's gate has followed a change that is committed, and returns what to say of it.
func awaitGate(ctx context.Context, s *backend.Stores, sales *goods.Store, id int64, zone *time.Location) string {
	ctx, cancel := context.WithTimeout(ctx, gateLimit)
	defer cancel()
	for {
		g, sale, err := admin.ReadGate(ctx, s.Redis, sales, id)
		switch {
		case err != nil:
		case g.State == admin.GateReady && sale.State == goods.Published:
			return fmt.Sprintf("the stock is in the gate: it has %d units", g.Units)
		case g.State == admin.GateReady:
			return fmt.Sprintf("the gate is %s and has %d units", sale.State, g.Units)
		case g.State == admin.GateLater:
			return fmt.Sprintf("the sale has no gate yet: it gets one at %s, ten minutes before it opens",
				g.From.In(zone).Format(time.DateTime))
		case g.State == admin.GateBeyond:
			return fmt.Sprintf(
				"%d other sales are open or about to open, and no more have a gate: close some, or move this one",
				goods.MostNear)
		case g.State == admin.GateNone && sale.State == goods.Draft:
			return "a draft has no gate"
		case g.State == admin.GateNone:
			return "the sale has no gate"
		}
		select {
		case <-ctx.Done():
			return "the sale is changed, but its gate has not followed yet: " +
				"no shop with a gate runs, or a store does not answer"
		case <-time.After(gatePause):
		}
	}
}
