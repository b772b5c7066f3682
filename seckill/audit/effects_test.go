package audit_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Each rule of the database that is taken away is found by its effect, whatever stands in its place, and nothing that is tried stays.
func TestEffects(t *testing.T) {
	t.Parallel()
	db, _, _ := activeShop(t)
	tried := func() (meanings []string) {
		t.Helper()
		found, err := audit.Effects(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			meanings = append(meanings, f.Meaning)
		}
		return meanings
	}
	count := func() (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `select (select count(*) from orders) + (select count(*) from payments) + (select count(*) from sales) + (select count(*) from order_events)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	rows := count()
	if got := tried(); len(got) > 0 {
		t.Errorf("of a whole schema: %v", got)
	}
	if got := count(); got != rows {
		t.Errorf("%d rows are left, there were %d", got, rows)
	}
	for _, test := range []struct {
		change string
		want   []string
	}{
		{`alter table sales drop constraint stock_within_total`, []string{"the database lets the stock of a sale fall below zero", "the database lets a sale have more units than its total"}},
		{`alter table orders drop constraint one_order_per_user_and_sale`, []string{"the database gives a user two orders in a sale"}},
		{`alter table orders drop constraint one_order_per_ticket`, []string{"the database gives a ticket two orders"}},
		{`alter table ticket_results drop constraint ticket_results_pkey`, []string{"the database gives a ticket two results"}},
		{`drop index one_capture_per_order`, []string{"the database lets two payments of an order be captured"}},
		{`alter table payments drop constraint one_payment_per_reference`, []string{"the database lets one reference be that of two payments"}},
		{`alter table orders disable trigger orders_begin_as_pending`, []string{"the database lets an order begin as paid"}},
		{`drop trigger order_events_are_append_only on order_events`, []string{"the database lets the history of an order be changed"}},
		{`drop trigger only_archived_rows_go on order_events`, []string{"the database lets the history of an order be deleted"}},
		{`create or replace function orders_updated() returns trigger language plpgsql as 'begin return null; end'`,
			[]string{"the database lets a paid order be pending again", "the database lets a paid order be cancelled", "a change of an order is not in its history"}},
		{`create or replace function sales_changed() returns trigger language plpgsql as 'begin return new; end'`, []string{"a change of a sale takes no new epoch"}},
	} {
		before := tried()
		if _, err := db.Exec(t.Context(), test.change); err != nil {
			t.Fatalf("%s: %v", test.change, err)
		}
		got := tried()
		for _, want := range test.want {
			if !slices.Contains(got, want) || slices.Contains(before, want) {
				t.Errorf("%s: found %v after %v, want %s too", test.change, got, before, want)
			}
		}
	}
}

// No effect is tried where a shop is at work.
func TestEffectsAreForACopy(t *testing.T) {
	t.Parallel()
	db := sandboxtest.DB(t)
	cfg := db.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "miaosha"
	shop, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer shop.Close(t.Context())
	if _, err := audit.Effects(t.Context(), db); !errors.Is(err, audit.ErrInUse) {
		t.Errorf("beside a shop: %v, want ErrInUse", err)
	}
}
