package payment_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/audit"
	"miaosha/seckill/payment"
	"miaosha/seckill/sandbox/sandboxtest"
)

const (
	noticeSecret = "the provider signs with these 32 b"
	price        = 9900
)

// TestMain runs the tests, or this binary is one of their processes: a provider, or one that refunds.
func TestMain(m *testing.M) {
	switch role, arg := os.Getenv("PAYMENT_TEST_ROLE"), os.Getenv("PAYMENT_TEST_ARG"); role {
	case "provider":
		runProvider(arg)
	case "refunds":
		runRefunds(arg, os.Getenv("PAYMENT_TEST_DATABASE"))
	default:
		sandboxtest.Main(m)
	}
}

// runRefunds refunds what is due at the provider, until it is killed or stdin ends.
func runRefunds(provider, database string) {
	db, err := pgxpool.New(context.Background(), database)
	must(err)
	go order.New(db, order.Config{PayWithin: time.Hour}).DrainRefunds(context.Background(), remote(provider, 2500*time.Millisecond))
	io.Copy(io.Discard, os.Stdin)
}

func remote(provider string, timeout time.Duration) *payment.Remote {
	return payment.New(payment.Config{Name: "wechat", URL: provider + "/shop", Secret: secret, Timeout: timeout})
}

// process starts this binary in a role. It ends with the test.
func process(t *testing.T, role, arg, database string) (cmd *exec.Cmd, out io.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAYMENT_TEST_ROLE="+role, "PAYMENT_TEST_ARG="+arg, "PAYMENT_TEST_DATABASE="+database)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return cmd, out
}

// shop is a Store on a fresh database, with the orders of one sale, and a provider in a process of its own.
type shop struct {
	*order.Store
	db       *pgxpool.Pool
	database string
	provider string // its address
	wechat   *payment.Remote
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{database: sandboxtest.DatabaseURL(t)}
	var err error
	if s.db, err = pgxpool.New(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	s.Store = order.New(s.db, order.Config{PayWithin: time.Hour})
	notices := httptest.NewServer(http.HandlerFunc(s.serveNotice))
	t.Cleanup(notices.Close)
	_, out := process(t, "provider", notices.URL, "")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.provider = strings.TrimSpace(line)
	s.wechat = remote(s.provider, 200*time.Millisecond)
	return s
}

// serveNotice takes a notice as the shop's handler does.
func (s *shop) serveNotice(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var n payment.Notice
	if err = errors.Join(err, payment.Verify(r.Header, []byte(noticeSecret), body, time.Now()), json.Unmarshal(body, &n)); err == nil {
		c := order.Captured{Provider: s.wechat.Name(), OrderID: uuid.MustParse(n.OrderID), PaymentID: uuid.MustParse(n.PaymentID), Amount: n.Amount, Ref: n.Ref}
		if n.Declined != "" {
			_, err = s.DeclineNoticed(r.Context(), c, n.Declined)
		} else {
			_, err = s.Capture(r.Context(), c)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// buy places an order for each script, of the users 1, 2 and so on, and tells the provider the scripts.
func (s *shop) buy(t *testing.T, scripts ...script) (ids []uuid.UUID) {
	t.Helper()
	now := time.Now()
	sale, err := goods.New(s.db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: price, Total: len(scripts), StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var tickets []order.Ticket
	for i := range scripts {
		tickets = append(tickets, order.Ticket{ID: fmt.Sprint("t", i+1), UserID: int64(i + 1)})
	}
	ids, byOrder := make([]uuid.UUID, len(scripts)), map[string]script{}
	err = pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		locked, err := goods.Lock(t.Context(), tx, sale)
		if err != nil {
			return err
		}
		results, err := s.Place(t.Context(), tx, locked, tickets)
		for _, r := range results {
			ids[r.UserID-1] = r.OrderID
			byOrder[r.OrderID.String()] = scripts[r.UserID-1]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(byOrder)
	post(t, s.provider+"/scripts", body)
	return ids
}

func post(t *testing.T, url string, body []byte) {
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, resp.Status)
	}
}

// start opens the payment of an order, again while the provider does not answer, and pays it.
func (s *shop) start(t *testing.T, user int64, id uuid.UUID) {
	var url string
	var err error
	for range 20 {
		if _, url, err = s.Start(t.Context(), s.wechat, user, id); !errors.Is(err, order.ErrProvider) {
			break
		}
	}
	if err != nil {
		t.Error(err)
		return
	}
	post(t, url, nil)
}

// books returns what the provider has done, by order.
func (s *shop) books(t *testing.T) (books map[string]money) {
	t.Helper()
	resp, err := http.Get(s.provider + "/books")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&books); err != nil {
		t.Fatal(err)
	}
	return books
}

// settle runs two rounds at once, and again, until none of the payments is in the status.
func (s *shop) settle(t *testing.T, status string, ids []uuid.UUID, round func(context.Context, order.Provider) (int, error)) {
	t.Helper()
	sandboxtest.Until(t, "no payment is "+status, func() bool {
		if _, err := s.db.Exec(t.Context(), `update payments set ask_at = now() where status = $1 and order_id = any($2)`, status, ids); err != nil {
			t.Fatal(err)
		}
		var crowd sync.WaitGroup
		for range 2 {
			crowd.Go(func() { round(t.Context(), s.wechat) }) // its fault is the provider's, and stored with the payment
		}
		crowd.Wait()
		var left int
		if err := s.db.QueryRow(t.Context(), `select count(*) from payments where status = $1 and order_id = any($2)`, status, ids).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}

// check compares what became of each order: its status, its payments, and how often the provider took and returned money.
func (s *shop) check(t *testing.T, want map[uuid.UUID]string) {
	t.Helper()
	got, books := map[uuid.UUID]string{}, s.books(t)
	rows, _ := s.db.Query(t.Context(), `select o.id, o.status || ' ' || string_agg(p.status, ' ') from orders o left join payments p on p.order_id = o.id group by o.id`)
	var id uuid.UUID
	var became string
	if _, err := pgx.ForEachRow(rows, []any{&id, &became}, func() error {
		m := books[id.String()]
		got[id] = fmt.Sprintf("%s, taken %d, returned %d", became, m.Captured, m.Refunded)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if found, err := audit.Postgres(t.Context(), s.db); err != nil || len(found) > 0 {
		t.Errorf("the audit finds %v, %v", found, err)
	}
}

// Whatever the provider loses, repeats, delays or refuses: each capture is recorded once, and each refund is made once.
func TestABadProvider(t *testing.T) {
	s := newShop(t)
	var scripts []script
	for _, notice := range []string{"once", "lost", "repeated", "late", "reordered"} {
		for _, fault := range []string{"", "down", "silent", "refused"} {
			scripts = append(scripts, script{notice, fault})
		}
	}
	ids := s.buy(t, scripts...)
	var crowd sync.WaitGroup
	var late, refused []uuid.UUID
	for i, id := range ids {
		crowd.Go(func() { s.start(t, int64(i+1), id) })
		if scripts[i].Notice == "late" {
			late = append(late, id)
		}
		if scripts[i].Fault == "refused" {
			refused = append(refused, id)
		}
	}
	crowd.Wait()

	s.settle(t, "open", slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return slices.Contains(late, id) }), s.AskOpen)
	if _, err := s.db.Exec(t.Context(), `update orders set expires_at = clock_timestamp() where id = any($1)`, late); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context()); n != len(late) || err != nil {
		t.Fatalf("%d orders expired, %v; want %d", n, err, len(late))
	}
	crowd.Go(func() { post(t, s.provider+"/late", nil) })
	s.settle(t, "open", late, s.AskOpen)
	crowd.Wait()

	want := map[uuid.UUID]string{}
	for i, id := range ids {
		switch {
		case scripts[i].Notice == "late":
			want[id] = "cancelled refund_due, taken 1, returned 0"
		case scripts[i].Fault == "":
			want[id] = "paid captured, taken 1, returned 0"
		default:
			if err := s.Refund(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			want[id] = "refunded refund_due, taken 1, returned 0"
		}
	}
	s.check(t, want)

	// The provider refuses a refund once, so this client waits for its answer.
	if _, err := s.DrainRefunds(t.Context(), remote(s.provider, 2*time.Second)); err == nil {
		t.Error("a round with refused refunds has no error")
	}
	var why int
	if err := s.db.QueryRow(t.Context(), `select count(*) from payments where order_id = any($1) and status = 'refund_due' and why like '%no balance'`,
		refused).Scan(&why); why != len(refused) || err != nil {
		t.Errorf("%d refused refunds have their reason, %v; want %d", why, err, len(refused))
	}
	s.settle(t, "refund_due", ids, s.DrainRefunds)
	post(t, s.provider+"/late", nil)
	for id, became := range maps.All(want) {
		want[id] = strings.NewReplacer("refund_due", "refunded", "returned 0", "returned 1").Replace(became)
		if strings.HasPrefix(became, "paid") {
			want[id] = became
		}
	}
	s.check(t, want)
}

// A process is killed when the provider has returned the money, and before the payment is marked. Another one makes the same
// refund, which the provider does not do twice.
func TestARefundThatIsKilledIsMadeOnce(t *testing.T) {
	s := newShop(t)
	id := s.buy(t, script{"once", "silent"})[0]
	s.start(t, 1, id)
	if err := s.Refund(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	closing := func() error {
		return s.ReturnByHand(t.Context(), s.payments(t, id)[0], []string{"wechat"}, "bank 1")
	}
	cmd, _ := process(t, "refunds", s.provider, s.database)
	sandboxtest.Until(t, "the money goes back", func() bool { return s.books(t)[id.String()].Refunded == 1 })
	if err := closing(); !errors.Is(err, order.ErrMayRefund) {
		t.Errorf("the staff closes it while the provider is silent: %v, want ErrMayRefund", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	s.check(t, map[uuid.UUID]string{id: "refunded refund_due, taken 1, returned 1"})
	if err := closing(); !errors.Is(err, order.ErrMayRefund) {
		t.Errorf("the staff closes it while the outcome is unknown: %v, want ErrMayRefund", err)
	}
	var claimed time.Duration
	err := s.db.QueryRow(t.Context(), `
		update payments set ask_at = ask_at + interval '1 hour' where order_id = $1 returning ask_at - interval '1 hour' - asked_at`, id).Scan(&claimed)
	if err != nil || claimed < 5*time.Second || claimed > 6*time.Second {
		t.Errorf("the killed process has it for %v, %v; want five seconds", claimed, err)
	}
	if n, err := s.DrainRefunds(t.Context(), s.wechat); n != 0 || err != nil {
		t.Errorf("while it has it: %d, %v; want none", n, err)
	}
	s.settle(t, "refund_due", []uuid.UUID{id}, s.DrainRefunds)
	s.check(t, map[uuid.UUID]string{id: "refunded refunded, taken 1, returned 1"})
	if calls := s.books(t)[id.String()].Calls["refund"]; calls < 2 {
		t.Errorf("the provider was asked %d times, want once by each process", calls)
	}
}

// A provider without a balance refuses. Then the shop does not ask it, until the staff says so or closes the refund, and the invariants hold
// again. A payment that was captured twice is returned twice, under its own id.
func TestARefusedRefundIsClosedOrAskedForAgain(t *testing.T) {
	s := newShop(t)
	ids := s.buy(t, script{"once", "refused"}, script{"once", "refused"}, script{"twice", ""})
	for i, id := range ids {
		s.start(t, int64(i+1), id)
		if err := s.Refund(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	closed, again := s.payments(t, ids[0])[0], s.payments(t, ids[1])[0]
	asked := []string{"wechat"}
	patient := remote(s.provider, 2*time.Second)
	if n, err := s.DrainRefunds(t.Context(), patient); n != 2 || err == nil || !strings.Contains(err.Error(), "2 payments") {
		t.Errorf("%d payments were returned, %v; want the two of one payment, and two refusals", n, err)
	}
	if n, err := s.DrainRefunds(t.Context(), patient); n != 0 || err != nil {
		t.Errorf("what is refused is asked for again: %d, %v", n, err)
	}
	s.check(t, map[uuid.UUID]string{ids[0]: "refunded refund_due, taken 1, returned 0", ids[1]: "refunded refund_due, taken 1, returned 0",
		ids[2]: "refunded refunded refunded, taken 2, returned 2"})
	if _, err := s.db.Exec(t.Context(), `update payments set updated_at = now() - interval '1 hour' where status = 'refund_due'`); err != nil {
		t.Fatal(err)
	}
	if found, err := audit.Postgres(t.Context(), s.db); err != nil || len(found) != 1 {
		t.Errorf("the audit finds %v, %v; want I7 for what waits for the staff", found, err)
	}
	if err := s.ReturnByHand(t.Context(), closed, asked, "bank 1"); err != nil {
		t.Error(err)
	}
	if _, _, err := s.AskAgain(t.Context(), again, asked); err != nil {
		t.Error(err)
	}
	if err := s.ReturnByHand(t.Context(), again, asked, "bank 1"); !errors.Is(err, order.ErrMayRefund) {
		t.Errorf("closing what is asked for again: %v, want ErrMayRefund", err)
	}
	s.settle(t, "refund_due", ids, s.DrainRefunds)
	s.check(t, map[uuid.UUID]string{ids[0]: "refunded refunded, taken 1, returned 0", ids[1]: "refunded refunded, taken 1, returned 1",
		ids[2]: "refunded refunded refunded, taken 2, returned 2"})
	if calls := s.books(t)[ids[0].String()].Calls["refund"]; calls != 1 {
		t.Errorf("the provider was asked %d times for what the staff closed, want once", calls)
	}
}

// payments returns the payments of an order.
func (s *shop) payments(t *testing.T, id uuid.UUID) []uuid.UUID {
	t.Helper()
	rows, _ := s.db.Query(t.Context(), `select id from payments where order_id = $1 order by id`, id)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ids) == 0 {
		t.Fatalf("the payments of order %s: %v, %v", id, ids, err)
	}
	return ids
}
