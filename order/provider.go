package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
)

// Provider takes the buyers' money and returns it. The shop may make each call again for the same payment,
// even after a call whose answer was lost: the payment's id is the idempotency key, and the provider does
// the work once. No call is made inside a transaction. A provider reports captures unasked, to Capture;
// Query finds those whose report was lost.
//
// A refusal of the provider is a RefusedError. Any other error means that nothing is known.
type Provider interface {
	// Name is stored with each payment. Two providers of a shop never have the same name.
	Name() string
	// Create registers an open payment and returns the address at which the buyer pays; "" if there is none.
	Create(ctx context.Context, p Payment) (url string, err error)
	// Query returns what became of a payment.
	Query(ctx context.Context, p Payment) (Found, error)
	// Refund returns the whole amount of a capture: p.ProviderRef is the provider's own reference of it, and captured
	// the payment that the provider knows it by. That is p.ID, but for a second capture of one payment. It returns nil
	// once the money is on its way back. A refusal means that none of the calls for p has returned money, and that none
	// will before the next one.
	Refund(ctx context.Context, p Payment, captured uuid.UUID) error

	// Verify returns nil if the provider has signed a message that came to the shop's address for notices, under a
	// key that no other provider has. ErrSignature if it has not, and ErrTime if its time is too far from all the
	// clocks: one that is right is enough. The header's names are in the canonical form of net/http.
	Verify(header map[string][]string, body []byte, clocks ...time.Time) error
	// Read returns a verified notice in the shop's own form, payment.Notice as JSON, which the shop then checks field
	// by field. An error means that the message is no notice.
	Read(body []byte) ([]byte, error)
}

// The refusals of Provider.Verify.
var (
	ErrSignature = errors.New("wrong signature")
	ErrTime      = errors.New("its timestamp is too far from now") // though the key has signed it
)

// Names that no provider outside the shop has: of the play-money cashier, and of payments that the staff confirmed by
// hand.
const (
	Cashier = "cashier"
	Hand    = "hand"
)

// Found is a provider's answer to Query.
type Found struct {
	Status string // one of those below
	Ref    string // of a capture
	Amount int64  // of a capture, in fen
	Why    string // it was declined
}

// What a provider finds.
const (
	FoundOpen     = "open"     // the buyer may still pay
	FoundDeclined = "declined" // it was refused, or nothing more can be paid
	FoundCaptured = "captured"
	FoundUnknown  = "unknown" // the provider never had it
)

// RefusedError is the provider's refusal of a payment or of a refund.
type RefusedError struct{ Why string }

func (e RefusedError) Error() string { return "the provider refuses: " + e.Why }

const (
	askAtOnce  = 8               // calls to one provider
	slowAnswer = 5 * time.Second // from the claim on; no claim comes sooner after another one
	slowWrite  = 2 * time.Second // of an answer
)

// claimed is a payment about which this process alone asks now.
type claimed struct {
	Payment
	CapturedAs uuid.UUID // the payment of which the provider knows
	Tries      int       // the number of this claim
}

// Start opens a payment for a user's order at provider, and returns the address at which the buyer pays.
// Its refusals are those of OpenPayment, and ErrRefused: the payment is declined. ErrProvider if the
// provider does not answer: the payment stays open, and the next Start is the same payment.
func (s *Store) Start(
	ctx context.Context, provider Provider, userID int64, orderID uuid.UUID,
) (p Payment, url string, err error) {
	if p, err = s.OpenPayment(ctx, provider.Name(), userID, orderID); err != nil {
		return p, "", err
	}
	url, err = provider.Create(ctx, p)
	var refused RefusedError
	switch {
	case errors.As(err, &refused):
		return p, "", errors.Join(ErrRefused, s.Decline(ctx, p, refused.Why))
	case err != nil:
		return p, "", fmt.Errorf("%w: create payment %s: %w", ErrProvider, p.ID, err)
	}
	return p, url, nil
}

// AskOpen asks a provider about open payments, and records what it says. A payment is asked about half a
// minute after it was opened, then after twice that time and so on, and every two seconds in the last ten
// before its order's payment deadline: a lost notice then loses no paid order. It never delays the
// expiry. A capture that is found later is refund_due, as a late notice is. A day after the deadline the
// payment is closed by the first answer that it is still open, and without an answer it is asked about once a day.
// The number is of the payments that moved.
func (s *Store) AskOpen(ctx context.Context, provider Provider) (int, error) {
	return s.ask(ctx, provider, `
		with due as (
		     select id
		     from   payments
		     where  status = 'open' and provider = $1 and ask_at <= statement_timestamp()
		     order  by ask_at
		     limit  $2
		     for    update skip locked
		)
		update payments p
		set    asked_at = clock_timestamp(), tries = p.tries + 1, why = '', ask_at = case
		       when o.status = 'pending' and o.expires_at > statement_timestamp()
		       then least(clock_timestamp() + interval '30 seconds' * 2 ^ least(p.tries, 7),
		                  greatest(clock_timestamp() + interval '2 seconds', o.expires_at - interval '10 seconds'))
		       when o.expires_at > statement_timestamp() - interval '1 day'
		       then clock_timestamp() + interval '30 seconds' * 2 ^ least(p.tries, 7)
		       else clock_timestamp() + interval '1 day' end
		from   due, orders o
		where  p.id = due.id and o.id = p.order_id
		returning p.id, p.order_id, p.amount, p.status, p.provider, '' as provider_ref, o.expires_at as pay_until, p.created_at, p.updated_at,
		          p.id as captured_as, p.tries`,
		func(limited context.Context, p claimed) error {
			found, err := provider.Query(limited, p.Payment)
			if err != nil {
				return err
			}
			writing, cancel := toWrite(ctx)
			defer cancel()
			return s.record(writing, p.Payment, found)
		})
}

// toWrite returns the time to write an answer. It does not end with the time of the call or of the round: the answer
// may have come at its last moment.
func toWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), slowWrite)
}

// record records what a provider found about an open payment.
func (s *Store) record(ctx context.Context, p Payment, found Found) (err error) {
	switch {
	case found.Status == FoundCaptured:
		_, err = s.Capture(ctx, Captured{p.Provider, p.OrderID, p.ID, found.Amount, found.Ref})
	case found.Status == FoundDeclined:
		err = s.Decline(ctx, p, found.Why)
	case found.Status == FoundUnknown: // until a minute after the order's payment deadline its Create may be on the way
		if err = s.decline(ctx, p, "the provider never had it", time.Minute); errors.Is(err, ErrWrongStatus) {
			return errStillOpen
		}
	case found.Status == FoundOpen && time.Since(p.PayUntil) > 23*time.Hour: // a day by the database's clock
		return s.closeLate(ctx, p)
	default:
		return errStillOpen
	}
	if errors.Is(err, ErrWrongStatus) {
		return nil // its notice was faster
	}
	return err
}

// closeLate closes an open payment when the provider has been asked for the last time: a day after the payment deadline
// of its order, which is no longer pending. Money that comes for it later is recorded by Capture, and is refund_due.
func (s *Store) closeLate(ctx context.Context, p Payment) error {
	_, err := s.db.Exec(ctx, `
		update payments set status = 'closed', updated_at = now()
		where  id = $1 and status = 'open'
		and    exists (select from orders o where o.id = order_id and o.status <> 'pending' and o.expires_at < statement_timestamp() - interval '1 day')`, p.ID)
	if err != nil {
		return fmt.Errorf("close payment %s: %w", p.ID, err)
	}
	return errStillOpen
}

// errStillOpen is a payment of which nothing new was found. It is no fault.
var errStillOpen = errors.New("still open")

// errClosedBefore is a refund that the provider has made and that was no longer due: another answer closed it,
// or the staff did.
var errClosedBefore = errors.New(
	"the provider has returned the money, and the refund was closed before its answer came: " +
		"if it was closed by hand, the money may have been returned twice")

// DrainRefunds asks a provider for the refunds that are due, and marks those that it makes as refunded. It
// returns their number. A refund is a payment that is refund_due, and goes this way:
//
//	due ----- claimed: tries + 1 -------> asking
//	asking -- yes, to any claim --------> refunded
//	asking -- no clear answer: unknown -> due, at ask_at
//	asking -- no, to the newest claim --> refused, which is due without ask_at
//	refused - AskAgain -----------------> due
//	refused - ReturnByHand -------------> refunded
//
// An unknown one comes again after 5 s, 10 s and so on, at last every ten minutes, so the failing ones do
// not stop the others. Its money may be on its way, so the next call is the same refund. Of a refused one no
// call is out, and none is made before the staff says so: only there, or if the shop cannot ask the
// provider, the staff closes it. Calls for one refund never overlap.
func (s *Store) DrainRefunds(ctx context.Context, provider Provider) (int, error) {
	return s.ask(ctx, provider, `
		with due as (
		     select id
		     from   payments
		     where  status = 'refund_due' and provider = $1 and ask_at <= statement_timestamp()
		     order  by ask_at
		     limit  $2
		     for    update skip locked
		)
		update payments p
		set    asked_at = clock_timestamp(), tries = p.tries + 1,
		       ask_at = clock_timestamp() + least(interval '5 seconds' * 2 ^ least(p.tries, 10), interval '10 minutes')
		from   due, orders o
		where  p.id = due.id and o.id = p.order_id
		returning p.id, p.order_id, p.amount, p.status, p.provider, p.provider_ref, o.expires_at as pay_until, p.created_at, p.updated_at,
		          coalesce(p.captured_as, p.id) as captured_as, p.tries`,
		func(limited context.Context, p claimed) error {
			if err := provider.Refund(limited, p.Payment, p.CapturedAs); err != nil {
				return err
			}
			writing, cancel := toWrite(ctx)
			defer cancel()
			tag, err := s.db.Exec(writing, `
				update payments set status = 'refunded', why = '', updated_at = now() where id = $1 and status = 'refund_due'`, p.ID)
			if err != nil {
				return fmt.Errorf("mark it refunded: %w", err)
			}
			if tag.RowsAffected() == 0 {
				return errClosedBefore
			}
			return nil
		})
}

// ask claims payments with a statement and calls do for each, some at a time, until no more are due. The
// claim sets the time of the next try, so that several processes do not ask about the same payment, and one
// that dies leaves its payments for later. No more are claimed than are asked at once, so all calls have
// ended before the next claim of their payments. The reason of a fault is stored with its payment, and a
// refusal ends the asking, unless a newer claim has come meanwhile: then the answer is an old one. The first
// fault is returned, and each errClosedBefore.
func (s *Store) ask(
	ctx context.Context, provider Provider, claim string, do func(context.Context, claimed) error,
) (int, error) {
	var moved, failed atomic.Int64
	var mu sync.Mutex
	var first, closed error
	for n := askAtOnce; n == askAtOnce && ctx.Err() == nil; {
		limited, cancel := context.WithTimeout(ctx, slowAnswer)
		var due []claimed
		err := goods.Again(func() (err error) {
			rows, _ := s.db.Query(ctx, claim, provider.Name(), askAtOnce)
			due, err = pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
			return err
		})
		if err != nil {
			cancel()
			return int(moved.Load()), errors.Join(fmt.Errorf("claim payments of %s: %w", provider.Name(), err), first,
				closed)
		}
		n = len(due)
		var g errgroup.Group
		for _, p := range due {
			g.Go(func() error {
				err := do(limited, p)
				if err == nil {
					moved.Add(1)
				}
				if err == nil || errors.Is(err, errStillOpen) {
					return nil
				}
				if errors.Is(err, errClosedBefore) {
					mu.Lock()
					defer mu.Unlock()
					closed = errors.Join(closed, fmt.Errorf("payment %s at %s: %w", p.ID, p.Provider, err))
					return nil
				}
				failed.Add(1)
				return errors.Join(fmt.Errorf("payment %s at %s: %w", p.ID, p.Provider, err), s.note(ctx, p, err))
			})
		}
		first = cmp.Or(first, g.Wait())
		cancel()
	}
	if n := failed.Load(); n > 1 {
		first = fmt.Errorf("%d payments, the first: %w", n, first)
	}
	return int(moved.Load()), errors.Join(first, closed)
}

// note stores what a call about a payment came to, unless a newer one was made since. A refund that is refused is not
// asked for again.
func (s *Store) note(ctx context.Context, p claimed, fault error) error {
	refused, no := errors.AsType[RefusedError](fault)
	why := fault.Error()
	if no {
		why = refused.Why
	}
	_, err := s.db.Exec(ctx, `
		update payments set why = left($4, 200), ask_at = case when $5 and status = 'refund_due' then null else ask_at end
		where  id = $1 and status = $2 and tries = $3::integer`, p.ID, p.Status, p.Tries, why, no)
	return err
}
