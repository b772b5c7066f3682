package goods

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/rounds"
)

//go:embed demo.json
var demoJSON []byte

// The plan of the demo shop, by an item's position in demo.json. The first demoOpen items are
// always on sale. The next one is the opening item: a sale of it opens again and again. The others
// are sold in later slots of the time menu.
const (
	demoLock   = 0x6d69616f_64656d6f // advisory lock: one process publishes at a time
	demoOpen   = 4                   // items that are on sale now
	fillEvery  = 5 * time.Second
	fillLimit  = time.Minute      // for one round
	openFor    = 20 * time.Minute // length of their sales; the first ones end one after the other
	opensIn    = 45 * time.Second // from publishing a sale of the opening item until it opens
	opensAgain = 3 * time.Minute  // from an opening until the next sale is published
	// length of that sale: it ends when the next one opens, so that the list shows one open sale of the item
	openingFor = opensAgain + opensIn
)

var demoTotals = []int{100, 50, 20, 5}

// Demo adds the demo goods and keeps publishing sales of them until ctx ends: some are open, one
// opens within a minute, others open later. When a sale ends or is sold out, the next one follows,
// so a buyer can always buy again. Demo calls ready after the first round, and reports faults.
func (s *Store) Demo(ctx context.Context, zone *time.Location, ready func(), report func(error)) error {
	start := true
	rounds.New().Run(ctx, fillLimit, rounds.Every(fillEvery), func(limited context.Context) {
		if err := s.fillDemo(limited, zone, start); err == nil && start {
			start = false
			ready()
		} else if err != nil && ctx.Err() == nil {
			report(err)
		}
	})
	return nil
}

func (s *Store) fillDemo(ctx context.Context, zone *time.Location, start bool) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(demoLock)); err != nil {
			return fmt.Errorf("publish demo sales: %w", err)
		}
		items, err := s.demoItems(ctx, tx)
		if err != nil {
			return err
		}
		now := time.Now()
		for i, it := range items {
			terms, due := it.next(i, now, zone, start)
			if !due {
				continue
			}
			terms.Price = it.price
			if _, err := s.Publish(ctx, tx, it.ID, terms); err != nil {
				return err
			}
		}
		return nil
	})
}

// demoItem is a demo item and the state of its sales.
type demoItem struct {
	ID      int64
	Image   string
	Live    bool      // a sale of it is upcoming, or is open and has units left
	SoldOut bool      // a sale of it is open and has no units left
	Started time.Time // start of its newest sale, which may be upcoming; zero without a sale
	price   int64
}

// next returns the terms of the item's next sale, and whether it is due now. i is the item's
// position in demo.json; start reports whether this is the process's first round.
func (it demoItem) next(i int, now time.Time, zone *time.Location, start bool) (t Terms, due bool) {
	t.Total = demoTotals[i%len(demoTotals)]
	switch {
	case i < demoOpen:
		t.StartsAt, t.EndsAt = now, now.Add(openFor)
		if it.Started.IsZero() {
			t.EndsAt = now.Add(openFor + time.Duration(i)*openFor/demoOpen)
		}
		if it.SoldOut && !it.Live {
			t.StartsAt = now.Add(opensIn)
			return t, now.Sub(it.Started) > opensAgain
		}
		return t, !it.Live
	case i == demoOpen:
		t.StartsAt, t.EndsAt = now.Add(opensIn), now.Add(opensIn+openingFor)
		if start {
			return t, !it.Started.After(now) // no sale is upcoming
		}
		return t, now.Sub(it.Started) > opensAgain
	}
	later := slices.DeleteFunc(Slots(now.In(zone)), func(slot Slot) bool { return slot.State != "upcoming" })
	slot := later[min(i-demoOpen-1, len(later)-1)]
	t.StartsAt, t.EndsAt = slot.StartAt, slot.EndAt
	return t, !it.Live && !it.SoldOut
}

// demoItems returns the demo goods in the order of demo.json. It adds those that are missing.
func (s *Store) demoItems(ctx context.Context, tx pgx.Tx) ([]demoItem, error) {
	var wanted []struct {
		Image, Title, Detail string
		TitleEN              string `json:"title_en"`
		DetailEN             string `json:"detail_en"`
		ListPrice            int64  `json:"list_price"`
		Price                int64
	}
	if err := json.Unmarshal(demoJSON, &wanted); err != nil {
		return nil, fmt.Errorf("read demo.json: %w", err)
	}
	rows, _ := tx.Query(ctx, `
		select g.image, g.id,
		       coalesce(bool_or(s.ends_at > now() and (s.stock > 0 or s.starts_at > now())), false) as live,
		       coalesce(bool_or(s.ends_at > now() and s.starts_at <= now() and s.stock = 0), false) as sold_out,
		       coalesce(max(s.starts_at), '0001-01-01 00:00Z') as started
		from   goods g left join sales s on s.goods_id = g.id and s.state in ('published', 'paused')
		where  g.demo
		group  by g.id`)
	known, err := pgx.CollectRows(rows, pgx.RowToStructByName[demoItem])
	if err != nil {
		return nil, fmt.Errorf("read the demo goods: %w", err)
	}
	items := make([]demoItem, len(wanted))
	for i, w := range wanted {
		n := slices.IndexFunc(known, func(it demoItem) bool { return it.Image == w.Image })
		if n >= 0 {
			items[i] = known[n]
		} else if items[i].ID, err = s.AddItem(ctx, tx, Item{Title: w.Title, TitleEN: w.TitleEN, Image: w.Image,
			Detail: w.Detail, DetailEN: w.DetailEN, ListPrice: w.ListPrice, Demo: true}); err != nil {
			return nil, err
		}
		items[i].price = w.Price
	}
	return items, nil
}
