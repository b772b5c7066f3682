package experiments

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runFailover sells 200 units on a primary with a standby, and lets the primary die after 100 buyers were told yes. The
// standby is promoted, and the sale goes on there until it is sold out.
//
// It is a model: primary and standby are two sets of tables in one schema, and a goroutine copies a log from one to the
// other, 10 ms late, as a network between two rooms. The order of commits, the moment in which a buyer is told, and
// what a standby does not have yet are as in Postgres or MySQL. What takes its time there (elections, fencing,
// connections) is left out.
//
// Asynchronous: the buyer is told after the commit on the primary. What the standby has not received when the primary
// dies did not happen: its buyers were told yes and have no order, and their units are sold again. The database did not
// lose a byte that it had promised to keep elsewhere. Only the shop had promised more.
//
// Synchronous: the buyer is told when the standby has the commit. Each click waits for the way there and back, and
// nothing that was told is lost.
//
// Synchronous for a while, as MySQL's semi-synchronous replication (rpl_semi_sync_source_timeout) and as scripts that
// switch the standby off when it is slow: if the standby does not answer for 20 ms, the primary goes on alone. A
// network that stalls before the machine dies is the ordinary case, and then the promise is not kept.
//
// The figures are told: buyers who were told yes; lost: those of them without an order in the end; beyond: buyers who
// were told yes beyond the stock; p99_ms: the time until a buyer was told.
func runFailover(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `
		create table item (server text primary key, stock int not null);
		create table orders (server text not null, user_id int not null, primary key (server, user_id));
		create table log (lsn int generated always as identity, user_id int not null)`, failoverConns+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	fail := func(patience time.Duration, stalls bool) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return failOver(ctx, w, patience, stalls) }
	}
	return tryAll(ctx, []variant{
		{"asynchronous standby", paced(fail(0, false))},
		{"synchronous for 20 ms, then alone", fail(failoverPatience, true)},
		{"synchronous standby", fail(time.Minute, false)},
	})
}

const (
	failoverUnits    = 200
	failoverDies     = 100 // yeses after which the primary dies
	failoverConns    = 4
	failoverLag      = 10 * time.Millisecond // from the primary to the standby
	failoverPatience = 20 * time.Millisecond
	failoverStall    = 60 // yeses after which the network between the two stalls
)

// servers are a primary and its standby.
type servers struct {
	workspace
	told    atomic.Int64  // buyers who were told yes
	dead    chan struct{} // closed when the primary dies
	stalled chan struct{} // closed when the network stalls

	mu       sync.Mutex
	received map[int32]bool // buyers whose orders the standby has
	arrived  chan struct{}  // closed and replaced when it has received more
}

// failOver sells until the primary dies, and then at the standby. Each commit waits for the standby for at most
// patience. stalls: before the primary dies, the network between the two stalls.
func failOver(ctx context.Context, w workspace, patience time.Duration, stalls bool) (row Finding, err error) {
	if _, err := w.Admin.Exec(ctx, `truncate item, orders, log restart identity`); err != nil {
		return row, err
	}
	if _, err := w.Admin.Exec(ctx, `insert into item values ('primary', $1), ('standby', $1)`, failoverUnits); err != nil {
		return row, err
	}
	v := &servers{workspace: w, received: map[int32]bool{}, arrived: make(chan struct{}), dead: make(chan struct{}),
		stalled: make(chan struct{})}
	show(ctx, func() map[string]float64 { return map[string]float64{"told": float64(v.told.Load())} })
	fall := sync.OnceFunc(func() { close(v.dead) })
	var took []time.Duration
	var yes []int32
	var mu sync.Mutex
	var next atomic.Int32
	crowd := func(server string, buy func(user int32) (bool, error)) error {
		var buyers errgroup.Group
		for range failoverConns {
			buyers.Go(func() error {
				for ctx.Err() == nil {
					user, clicked := next.Add(1), time.Now()
					ok, err := buy(user)
					if err != nil || !ok {
						return err
					}
					mu.Lock()
					yes, took = append(yes, user), append(took, time.Since(clicked))
					switch n := v.told.Add(1); {
					case n == failoverStall && stalls:
						close(v.stalled)
					case n == failoverDies && server == "primary":
						fall()
					}
					mu.Unlock()
				}
				return nil
			})
		}
		return buyers.Wait()
	}
	var replication sync.WaitGroup
	var copyErr error
	replication.Go(func() { copyErr = v.replicate(ctx) })
	err = crowd("primary", func(user int32) (bool, error) {
		told, err := v.buyAtPrimary(ctx, user, patience)
		if err != nil {
			fall()
		}
		return told, err
	})
	fall() // also if the experiment was stopped
	replication.Wait()
	if err = errors.Join(err, copyErr, ctx.Err()); err != nil {
		return row, err
	}
	if err = crowd("standby", func(user int32) (bool, error) { return v.sell(ctx, "standby", user) }); err != nil {
		return row, err
	}
	var lost float64
	err = w.Admin.QueryRow(ctx, `select count(*) from unnest($1::int[]) as told (user_id)
		where not exists (select from orders o where server = 'standby' and o.user_id = told.user_id)`, yes).Scan(&lost)
	told := float64(v.told.Load())
	result := verdict(lost == 0 && told <= failoverUnits, Wrong)
	if patience == 0 && lost == 0 { // no commit in the last 10 ms
		result = Busy
	}
	return Finding{Verdict: result, Figures: map[string]float64{"told": told, "lost": lost,
		"beyond": max(0, told-failoverUnits), "p99_ms": inMS(lab.Percentile(took, 99))}}, err
}

// sell takes a unit at a server and writes the order, and the log if it is the primary. It reports false if none is
// left.
func (v *servers) sell(ctx context.Context, server string, user int32) (sold bool, err error) {
	err = pgx.BeginFunc(ctx, v.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `update item set stock = stock - 1 where server = $1 and stock > 0`, server)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		sold = true
		if _, err = tx.Exec(ctx, `insert into orders values ($1, $2)`, server, user); err == nil && server == "primary" {
			// in the order of the commits: the row is locked
			_, err = tx.Exec(ctx, `insert into log (user_id) values ($1)`, user)
		}
		return err
	})
	return sold && err == nil, err
}

// buyAtPrimary sells, and reports true when the buyer may be told. It reports false when the primary is dead.
func (v *servers) buyAtPrimary(ctx context.Context, user int32, patience time.Duration) (told bool, err error) {
	select {
	case <-v.dead:
		return false, nil
	default:
	}
	if sold, err := v.sell(ctx, "primary", user); err != nil || !sold {
		return false, err
	}
	//lab:here
	alone := time.After(patience)
	for {
		received, arrived := v.standbyHas(user)
		if received {
			return true, nil
		}
		select {
		case <-arrived:
		case <-alone:
			return true, nil
		case <-v.dead:
			return false, nil // the buyer has no reply
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	//lab:end
}

// standbyHas reports whether the standby has a buyer's order. arrived is closed when it has received more.
func (v *servers) standbyHas(user int32) (received bool, arrived <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.received[user], v.arrived
}

// replicate copies the log to the standby until the primary is dead. What is on its way then is lost.
func (v *servers) replicate(ctx context.Context) error {
	for last := 0; ; {
		var users []int32
		err := v.db.QueryRow(ctx, `select coalesce(max(lsn), $1), coalesce(array_agg(user_id), '{}') from log where lsn > $1`, last).Scan(&last, &users)
		if err != nil {
			return err
		}
		//lab:here
		delay := time.After(failoverLag)
		select {
		case <-v.stalled:
			delay = nil // nothing passes any more
		default:
		}
		select {
		case <-delay:
		case <-v.dead:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		//lab:end
		err = pgx.BeginFunc(ctx, v.db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into orders select 'standby', unnest($1::int[])`, users)
			if err == nil {
				_, err = tx.Exec(ctx, `update item set stock = stock - $1 where server = 'standby'`, len(users))
			}
			return err
		})
		if err != nil {
			return err
		}
		v.mu.Lock()
		for _, user := range users {
			v.received[user] = true
		}
		close(v.arrived)
		v.arrived = make(chan struct{})
		v.mu.Unlock()
	}
}
