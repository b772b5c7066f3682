package goods

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed demo.json
var demoJSON []byte

// The demo shop's plan, by the item's place in demo.json: the first few are always on sale, the next one opens again
// and again, the others wait in the slots of the time menu.
const (
	demoOpen  = 4                   // items that are on sale now
	demoLock  = 0x6d69616f_64656d6f // advisory lock: one process fills in at a time
	openFor   = 20 * time.Minute    // a sale that is on; they end one after the other
	soonIn    = 45 * time.Second    // until the opening one opens
	soonFor   = 10 * time.Minute
	soonAgain = 3 * time.Minute // after an opening, the next one is set
)

var demoTotals = []int{100, 50, 20, 5}

// Demo fills the shop with demo goods and keeps their sales fresh until ctx ends: some are open, one opens within a
// minute, others come later, and as sales end new ones begin, so that whoever has bought everything can buy again
// soon. A fault is told to report and tried again. The first filling is done when Demo calls ready.
func (s *Store) Demo(ctx context.Context, zone *time.Location, ready func(), report func(error)) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for start := true; ; {
		if err := s.fillDemo(ctx, zone, start); err == nil && start {
			start = false
			ready()
		} else if err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) fillDemo(ctx context.Context, zone *time.Location, start bool) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(demoLock)); err != nil {
			return fmt.Errorf("fill in demo sales: %w", err)
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
			if _, err := s.Publish(ctx, tx, it.id, terms); err != nil {
				return err
			}
		}
		return nil
	})
}

// demoItem is an item with what is known of its sales.
type demoItem struct {
	id, price int64
	live      bool      // a sale of it is to come, or is on and has units left
	soldOut   bool      // the newest one is on and has none
	started   time.Time // of its newest sale, also one to come; zero without any
}

// next gives the terms of the item's next sale if it is due now.
func (it demoItem) next(i int, now time.Time, zone *time.Location, start bool) (t Terms, due bool) {
	t.Total = demoTotals[i%len(demoTotals)]
	switch {
	case i < demoOpen:
		t.StartsAt, t.EndsAt = now, now.Add(openFor)
		if it.started.IsZero() {
			t.EndsAt = now.Add(openFor + time.Duration(i)*openFor/demoOpen)
		}
		if it.soldOut {
			t.StartsAt = now.Add(soonIn)
			return t, now.Sub(it.started) > soonAgain
		}
		return t, !it.live
	case i == demoOpen:
		t.StartsAt, t.EndsAt = now.Add(soonIn), now.Add(soonIn+soonFor)
		if start {
			return t, !it.started.After(now) // none is to come
		}
		return t, now.Sub(it.started) > soonAgain
	}
	var later []Slot
	for _, slot := range Slots(now.In(zone)) {
		if slot.State == "upcoming" {
			later = append(later, slot)
		}
	}
	slot := later[min(i-demoOpen-1, len(later)-1)]
	t.StartsAt, t.EndsAt = slot.StartAt, slot.EndAt
	return t, !it.live && !it.soldOut
}

// demoItems gives the demo goods in the order of demo.json, adding those that are missing.
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
	ids := map[string]demoItem{}
	rows, err := tx.Query(ctx, `
		select g.image, g.id,
		       coalesce(bool_or(s.ends_at > now() and (s.stock > 0 or s.starts_at > now())), false),
		       coalesce(bool_or(s.ends_at > now() and s.starts_at <= now() and s.stock = 0), false),
		       coalesce(max(s.starts_at), 'epoch')
		from   goods g left join sales s on s.goods_id = g.id and s.state in ('published', 'paused')
		where  g.demo
		group  by g.id`)
	if err != nil {
		return nil, fmt.Errorf("read the demo goods: %w", err)
	}
	var image string
	var it demoItem
	if _, err := pgx.ForEachRow(rows, []any{&image, &it.id, &it.live, &it.soldOut, &it.started}, func() error {
		it.soldOut = it.soldOut && !it.live
		if it.started.Unix() == 0 {
			it.started = time.Time{}
		}
		ids[image] = it
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the demo goods: %w", err)
	}
	items := make([]demoItem, 0, len(wanted))
	for _, w := range wanted {
		it, ok := ids[w.Image]
		if !ok {
			if it.id, err = s.AddItem(ctx, tx, Item{Title: w.Title, TitleEN: w.TitleEN, Image: w.Image,
				Detail: w.Detail, DetailEN: w.DetailEN, ListPrice: w.ListPrice, Demo: true}); err != nil {
				return nil, err
			}
		}
		it.price = w.Price
		items = append(items, it)
	}
	return items, nil
}
