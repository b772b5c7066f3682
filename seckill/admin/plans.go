package admin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
)

// Refusals of the plans.
var (
	ErrNoPlan     = errors.New("plan not found")
	ErrNotPlanned = errors.New("the plan was already carried out or cancelled")
)

// PlanError names a field of a new plan that has an invalid value.
type PlanError struct{ Field, Reason string }

func (e PlanError) Error() string { return e.Field + ": " + e.Reason }

// Plan is a change of a sale's state at a time.
type Plan struct {
	ID        int64      `json:"id"`
	Action    string     `json:"action"` // publish, pause, resume, close
	At        time.Time  `json:"at"`
	State     string     `json:"state"` // planned, done, failed, cancelled
	Why       string     `json:"why"`   // it failed: the reason of a goods.TransitionError, or NotStaff
	DoneAt    *time.Time `json:"done_at"`
	ByUser    *int64     `json:"by_user"`
	CreatedAt time.Time  `json:"created_at"`
}

// planned are the changes that can be planned.
var planned = map[string]SaleChange{
	"publish": (*goods.Store).PublishDraft, "pause": (*goods.Store).Pause, "resume": (*goods.Store).Resume,
	"close": (*goods.Store).Close,
}

// NotStaff is why a plan failed whose planner was no administrator at its time, or was disabled.
const NotStaff = "not_staff"

const plansShown = 100

// Plans returns the newest plans of a sale.
func (s *Store) Plans(ctx context.Context, sale int64) ([]Plan, error) {
	rows, _ := s.db.Query(ctx, `
		select id, action, at, state, why, done_at, by_user, created_at
		from   sale_plans
		where  sale_id = $1
		order  by id desc
		limit  $2`, sale, plansShown)
	plans, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Plan])
	if err != nil {
		return nil, fmt.Errorf("read the plans of sale %d: %w", sale, err)
	}
	return plans, nil
}

// AddPlan plans a change of a sale and returns the plan's id. It returns goods.ErrNoSale, a PlanError for a change that
// cannot be planned and a time that is over by the database's clock, or a goods.InvalidError for a time that no sale
// has.
func (s *Store) AddPlan(ctx context.Context, by By, sale int64, do string, at time.Time) (id int64, err error) {
	if planned[do] == nil {
		return 0, PlanError{"action", "value"}
	}
	if err := goods.CheckTime("at", at); err != nil {
		return 0, err
	}
	a := &action{name: "plan.create", subject: saleSubject(sale),
		after: map[string]any{"action": do, "at": at}, result: &id}
	err = s.act(ctx, by, a, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			insert into sale_plans (sale_id, action, at, by_user)
			select $1, $2, $3::timestamptz, nullif($4::bigint, 0) where $3::timestamptz > clock_timestamp()
			returning id`, sale, do, at, by.UserID).Scan(&id)
		if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "sale_plans_sale_id_fkey" {
			return goods.ErrNoSale
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return PlanError{"at", "past"}
		}
		if err != nil {
			return fmt.Errorf("plan to %s sale %d: %w", do, sale, err)
		}
		return nil
	})
	return id, err
}

// CancelPlan takes a plan back. It returns ErrNoPlan, or ErrNotPlanned if it was carried out or cancelled before.
func (s *Store) CancelPlan(ctx context.Context, by By, id int64) error {
	a := &action{name: "plan.cancel"}
	return s.act(ctx, by, a, func(tx pgx.Tx) error {
		var sale int64
		var do, state string
		var at time.Time
		err := tx.QueryRow(ctx, `select sale_id, action, at, state from sale_plans where id = $1 for no key update`, id).Scan(&sale, &do, &at, &state)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoPlan
		}
		if err != nil {
			return fmt.Errorf("read plan %d: %w", id, err)
		}
		if state != "planned" {
			return ErrNotPlanned
		}
		a.subject, a.before = saleSubject(sale), map[string]any{"action": do, "at": at}
		return endPlan(ctx, tx, id, "cancelled", "")
	})
}

func endPlan(ctx context.Context, tx pgx.Tx, id int64, state, why string) error {
	_, err := tx.Exec(ctx, `
		update sale_plans set state = $2, why = $3, done_at = clock_timestamp()
		where  id = $1 and state = 'planned'`, id, state, why)
	if err != nil {
		return fmt.Errorf("end plan %d: %w", id, err)
	}
	return nil
}

// RunPlans carries out plans when they are due, until ctx ends. Any number of processes may run it: a plan is done by
// the one that has locked its row, and by another if that one dies. A plan that is late is done late. report hears of
// faults, after which the plan is tried again.
func (s *Store) RunPlans(ctx context.Context, report func(error)) error {
	var more bool
	pause := func(time.Duration) time.Duration {
		if more {
			return 0
		}
		return 800*time.Millisecond + rand.N(400*time.Millisecond)
	}
	s.plans.Run(ctx, planLimit, pause, func(limited context.Context) {
		did, err := s.runPlan(limited)
		if more = did && err == nil; err != nil && ctx.Err() == nil {
			report(err)
		}
	})
	return nil
}

// planLimit is the time for one plan.
const planLimit = 3 * time.Second

// runPlan carries out one plan that is due, if there is one. The change, the plan's result and the line in the log are
// one transaction, so each happens once, whatever dies. A change that the sale refuses ends the plan as failed, and so
// does a planner who may no longer act. The plans of one sale are done one after the other: while a process has the
// first one, the others of the sale wait, and other sales do not. A plan of a sale whose row is locked is left for a
// later round, and comes after the others.
func (s *Store) runPlan(ctx context.Context) (did bool, err error) {
	var sale int64
	slow, resting := s.locked.Slow()
	began := time.Now()
	err = pgx.BeginTxFunc(ctx, s.db, goods.ReadCommitted, func(tx pgx.Tx) error {
		var id, by int64
		var do string
		var mayAct bool
		err := tx.QueryRow(ctx, `
			select id, sale_id, action, coalesce(by_user, 0),
			       by_user is null or exists (select from users where id = by_user and role = 'admin' and disabled_at is null)
			from   sale_plans p
			where  state = 'planned' and at <= statement_timestamp() and sale_id <> all($1)
			and    not exists (select from sale_plans former
			                   where  former.sale_id = p.sale_id and former.state = 'planned' and (former.at, former.id) < (p.at, p.id))
			order  by sale_id = any($2), at, id
			limit  1
			for    no key update skip locked`, resting, slow).Scan(&id, &sale, &do, &by, &mayAct)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the plans: %w", err)
		}
		did = true
		a := &action{name: "sale." + do, subject: saleSubject(sale)}
		wait := goods.LockWait
		if slices.Contains(slow, sale) {
			wait = goods.LongLockWait
		}
		var refused goods.TransitionError
		if !mayAct {
			refused.Reason = NotStaff
		} else if err := goods.InTx(ctx, tx, wait, func(tx pgx.Tx) error {
			_, err := changeSale(ctx, tx, a, sale, planned[do])
			return err
		}); err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("carry out plan %d: %w", id, err)
		}
		state := "done"
		if refused.Reason != "" {
			state, a.name = "failed", "plan.fail"
			a.after = map[string]any{"action": do, "why": refused.Reason}
		}
		if err := endPlan(ctx, tx, id, state, refused.Reason); err != nil {
			return err
		}
		return a.write(ctx, tx, By{UserID: by, From: fmt.Sprintf("plan %d", id)})
	})
	if did {
		s.locked.Note(sale, began, err)
	}
	if errors.Is(err, goods.ErrSaleLocked) {
		err = nil
	}
	return did, err
}
