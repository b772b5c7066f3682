package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
	"miaosha/seckill/sandbox"
)

// made is what a run has made, and in whose stores.
type made struct {
	own     bool // stores of its own, which are removed at its end
	removed error
	sales   []int64
	buyers  int
}

// end returns the error of a run, with what was stopped and what is left behind.
func (m *made) end(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && m.removed != nil:
		return fmt.Errorf("stopped, but not all of its stores could be removed; the next run removes the rest: %w",
			m.removed)
	case ctx.Err() != nil && m.own:
		return errors.New(
			"stopped: its shop has ended, and its Postgres, Redis and data are removed; nothing is left behind")
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %s", m.left())
	case err != nil && !m.own && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrMismatch):
		return fmt.Errorf("%w; %s", err, m.left())
	}
	return err
}

// left says what stays at a shop that runs on.
func (m *made) left() string {
	if len(m.sales) == 0 && m.buyers == 0 {
		return "nothing was made"
	}
	var all []string
	switch n := len(m.sales); {
	case n == 1:
		all = append(all, fmt.Sprintf("sale %d (miaosha sale close %[1]d)", m.sales[0]))
	case n > 1:
		all = append(all, fmt.Sprintf("the sales %d to %d", m.sales[0], m.sales[n-1]))
	}
	if m.buyers > 0 {
		all = append(all, fmt.Sprintf("%d buyers", m.buyers))
	}
	return strings.Join(all, " and ") + " stay at the shop"
}

// sameShopLimit is for a shop that shows its sales from memory, and from a standby.
const sameShopLimit = 5 * time.Second

// checkURL reports a --url where no shop is, or one that cannot use the stores of this command. It makes nothing.
func (b Bench) checkURL(ctx context.Context, env Env, cfg bench.Config) error {
	if _, err := bench.Look(ctx, cfg, max(1, b.Sale)); err != nil {
		return err
	}
	own := env.Backend.Sandbox()
	if !b.needsStores(env) || !own.Postgres && !own.Redis {
		return nil
	}
	if running, err := sandbox.Running(own); err != nil || running {
		return err
	}
	return fmt.Errorf(
		"--url: the shop at %s has other stores than this command, whose sandbox does not run: set DATABASE_URL and REDIS_URL, or --data-dir, as that shop does",
		b.URL)
}

// needsStores reports whether the run cannot do without the stores. With a shop, a sale and buyers they may be
// unreachable: the report lacks their part.
func (b Bench) needsStores(env Env) bool {
	return b.URL == "" || b.Sale == 0 || b.Buyers == "" || env.Backend.DatabaseURL != "" && env.Backend.RedisURL != ""
}

// checkSale reports a shop that does not show a sale as it is in the stores of this command: it has other stores.
func checkSale(ctx context.Context, cfg bench.Config, s *backend.Stores) error {
	var title string
	var starts time.Time
	err := s.Web.QueryRow(ctx, `select g.title, s.starts_at from sales s join goods g on g.id = s.goods_id where s.id = $1`, cfg.Sale).Scan(&title, &starts)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("--sale: sale %d not found in the database of this command", cfg.Sale)
	}
	for until := time.Now().Add(sameShopLimit); err == nil; {
		var shown bench.Shown
		shown, err = bench.Look(ctx, cfg, cfg.Sale)
		if err == nil && shown.Title == title && shown.StartAt.Sub(starts).Abs() < 2*time.Second {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf(
				"--url: the shop at %s does not show sale %d of this command's database, so it has other stores: set DATABASE_URL and REDIS_URL, or --data-dir, as that shop does",
				cfg.URL, cfg.Sale)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

// removeSales removes the sales, which no buyer has seen, and their goods, even after the end of ctx. A role that may
// not delete them closes them.
func removeSales(ctx context.Context, s *backend.Stores, m *made) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sameShopLimit)
	defer cancel()
	_, err := s.Web.Exec(ctx, `with gone as (delete from sales where id = any($1) returning goods_id) delete from goods where id in (select goods_id from gone)`, m.sales)
	if err == nil {
		m.sales = nil
		return nil
	}
	for _, id := range m.sales {
		if _, closing := goods.New(s.Web).Close(ctx, id); closing != nil {
			return errors.Join(err, closing)
		}
	}
	return nil
}
