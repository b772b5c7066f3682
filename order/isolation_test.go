package order_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Whatever isolation the role or the database has by default, buyers who pay, cancel and look at once, beside the sweeper, hear what
// they hear under read committed.
func TestAnotherDefaultIsolation(t *testing.T) {
	for name, alter := range map[string]string{
		"of the database": `alter database %1$I set default_transaction_isolation = 'serializable'`,
		"of the role":     `alter role %2$I in database %1$I set default_transaction_isolation = 'repeatable read'`,
	} {
		t.Run(name, func(t *testing.T) {
			url := sandboxtest.DatabaseURL(t)
			first, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			_, err = first.Exec(t.Context(), `do $$ begin execute format($f$`+alter+`$f$, current_database(), current_user); end $$`)
			first.Close()
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			cfg.MaxConns = 16
			db, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s := testShop{order.New(db, order.Config{PayWithin: time.Hour}), db}
			if level := s.read(t, `select current_setting('transaction_isolation')`)[0]; level == "read committed" {
				t.Fatal("the default is read committed")
			}
			const n = 40
			sale, provider := s.sell(t, n), newBooks("wechat")
			var crowd sync.WaitGroup
			ids := make([]uuid.UUID, n)
			for i := range ids {
				ids[i] = s.buy(t, sale, int64(i+1))
			}
			stop := make(chan struct{})
			var sweeper sync.WaitGroup
			for what, round := range map[string]func(context.Context) (int, error){
				"expire": s.Expire,
				"ask":    func(ctx context.Context) (int, error) { return s.AskOpen(ctx, provider) },
				"refund": func(ctx context.Context) (int, error) { return s.DrainRefunds(ctx, provider) },
			} {
				sweeper.Go(func() {
					for {
						if _, err := round(t.Context()); err != nil {
							t.Errorf("%s: %v", what, err)
						}
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			for i, id := range ids {
				user := int64(i + 1)
				crowd.Go(func() {
					if i%2 == 1 {
						expect(t, s.Cancel(t.Context(), user, id), nil)
						return
					}
					both := func(do func()) {
						var two sync.WaitGroup
						two.Go(do)
						two.Go(do)
						two.Wait()
					}
					both(func() {
						p, err := s.OpenPayment(t.Context(), "wechat", user, id)
						expect(t, err, nil)
						_, err = s.PaymentOf(t.Context(), user, p.ID)
						expect(t, err, nil)
					})
					both(func() {
						c := order.Captured{Provider: "wechat", OrderID: id, Amount: price, Ref: id.String()}
						if status, err := s.Capture(t.Context(), c); err != nil || status != "captured" {
							t.Errorf("capture: %q, %v", status, err)
						}
					})
					expect(t, s.Refund(t.Context(), id), nil)
				})
				crowd.Go(func() {
					_, err := s.OfUser(t.Context(), user)
					expect(t, err, nil)
					_, err = s.Payments(t.Context(), user, id)
					expect(t, err, nil)
				})
			}
			crowd.Wait()
			close(stop)
			sweeper.Wait()
			if left := s.stock(t, sale); left != n {
				t.Errorf("%d units are left, want %d", left, n)
			}
			s.checkInvariants(t)
		})
	}
}
