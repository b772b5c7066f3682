package goods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// LockWait is how long a transaction waits for a sale's row, in Postgres' own queue. In a rush the row is always
	// locked, so none may give up at once; and a row that someone keeps for longer must not keep connections from the
	// other sales.
	LockWait = 100 * time.Millisecond

	// LongLockWait is for the tries after one that missed the lock: in a rush of many processes the queue is long,
	// though it moves. Few may wait so long at the same time.
	LongLockWait = 500 * time.Millisecond
)

// ErrLocked says that another transaction keeps a row locked that is needed. Nothing is decided.
var ErrLocked = errors.New("another transaction keeps the row locked")

// ErrSaleLocked is ErrLocked where the row is that of a sale.
var ErrSaleLocked = fmt.Errorf("the sale: %w", ErrLocked)

// hadLock is an error of a transaction of InTx that came after the sale's lock.
type hadLock struct{ error }

func (e hadLock) Unwrap() error { return e.error }

// saleTx is a transaction of InTx. Lock notes there that it had the sale's row.
type saleTx struct {
	pgx.Tx
	locked bool
}

// noting returns do with a saleTx.
func noting(do func(pgx.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		sale := &saleTx{Tx: tx}
		err := do(sale)
		if err != nil && sale.locked {
			err = hadLock{err}
		}
		return err
	}
}

// unlessMissed returns err, or missed in front of it if the time to wait for a lock was over.
func unlessMissed(err, missed error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "55P03" {
		return fmt.Errorf("%w: %w", missed, err)
	}
	return err
}

// InTx is pgx.BeginFunc for a ReadCommitted transaction that waits at most wait for each lock. Then the error is
// ErrLocked.
func InTx(ctx context.Context, db DB, wait time.Duration, do func(pgx.Tx) error) error {
	limit := fmt.Sprintf("set local lock_timeout = %d", wait.Milliseconds())
	if pool, ok := db.(interface {
		BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
	}); ok { // in one round trip
		return unlessMissed(pgx.BeginTxFunc(ctx, pool,
			pgx.TxOptions{BeginQuery: "begin isolation level read committed; " + limit}, noting(do)), ErrLocked)
	}
	return unlessMissed(pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// a part of another transaction, whose later statements wait as before
		var before string
		if err := tx.QueryRow(ctx, `select current_setting('lock_timeout')`).Scan(&before); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, limit); err != nil {
			return err
		}
		if err := noting(do)(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `select set_config('lock_timeout', $1, true)`, before)
		return err
	}), ErrLocked)
}

const (
	triesAtOnce = 4           // transactions of one sale at the same time
	slowAtOnce  = 2           // of all sales that missed their lock
	restFirst   = time.Second // after the second try in a row that missed the lock; it doubles
	// also how long a miss is remembered after the rest, and after a later try that had the lock
	restLast    = 10 * time.Second
	restOfCalls = 10 // someone who waits for the answer rests for this part of it
)

// LockedSales keeps the sales whose row is locked from taking the connections of the others. A try waits for its sale's
// turn before it takes a connection. If it missed the lock, the next one waits longer for it, and few of these run at
// the same time, of whatever sales; after each that misses again the sale rests, for longer each time. Once a try has
// the lock, the row is only busy, as that of a hot sale is: for a while all tries of the sale wait longer, and are not
// few. The zero value is ready for use.
type LockedSales struct {
	mu     sync.Mutex
	slow   chan struct{}         // one token per try of a sale that missed its lock
	bySale map[int64]*lockedSale // those with a try under way, and those that missed their lock
}

type lockedSale struct {
	tries  chan struct{} // one token per try
	users  int           // calls that have the sale
	missed int           // tries in a row
	since  time.Time     // the last miss, or the first try after it that had the lock
	had    time.Time     // when the last try ended that had the lock
}

// rest returns how long the sale rests after its last miss.
func (s *lockedSale) rest() time.Duration {
	if s.missed < 2 {
		return 0
	}
	return min(restFirst<<min(s.missed-2, 10), restLast)
}

// forgotten reports whether the last miss, or its end, is long ago.
func (s *lockedSale) forgotten() bool { return time.Since(s.since) > s.rest()+restLast }

// use returns a sale that stays until done is called.
func (l *LockedSales) use(sale int64) (s *lockedSale, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.bySale[sale]
	if s == nil {
		if l.bySale == nil {
			l.slow, l.bySale = make(chan struct{}, slowAtOnce), map[int64]*lockedSale{}
		}
		maps.DeleteFunc(l.bySale, func(_ int64, s *lockedSale) bool { return s.users == 0 && s.forgotten() })
		s = &lockedSale{tries: make(chan struct{}, triesAtOnce)}
		l.bySale[sale] = s
	}
	s.users++
	return s, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 && s.forgotten() {
			delete(l.bySale, sale)
		}
	}
}

// turn returns how long a try may wait for the lock, whether it is one of the few of slow sales, and whether it must
// not be made yet: unless another one had the lock since its caller came.
func (l *LockedSales) turn(s *lockedSale, came time.Time) (wait time.Duration, slow, rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.forgotten() {
		s.missed = 0
		return LockWait, false, false
	}
	return LongLockWait, s.missed > 0, time.Since(s.since) < s.rest()/restOfCalls && s.had.Before(came)
}

// note notes how a try ended. One that was done had the lock, and so had one that was refused or failed after it.
func (l *LockedSales) note(s *lockedSale, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil, errors.As(err, new(hadLock)):
		s.had = time.Now()
		if s.missed > 0 {
			s.missed, s.since = 0, s.had
		}
	case errors.Is(err, ErrSaleLocked) && !began.Before(s.since): // of several tries at once, one counts
		s.since = time.Now()
		if !began.Before(s.had) { // else the row goes from one transaction to the next
			s.missed++
		}
	}
}

// Once calls do when it is the sale's turn, with the time that it may wait for each lock. It returns ErrLocked, maybe
// without a call, if another transaction keeps the row.
func (l *LockedSales) Once(ctx context.Context, sale int64, do func(wait time.Duration) error) error {
	return l.once(ctx, sale, false, do)
}

// Insist is Try for the few calls of the staff: each waits long, and the sale does not rest.
func (l *LockedSales) Insist(ctx context.Context, sale int64, do func(wait time.Duration) error) error {
	err := l.once(ctx, sale, true, do)
	if errors.Is(err, ErrSaleLocked) {
		err = l.once(ctx, sale, true, do)
	}
	return err
}

func (l *LockedSales) once(ctx context.Context, sale int64, insists bool, do func(wait time.Duration) error) error {
	s, done := l.use(sale)
	defer done()
	came := time.Now()
	for _, turns := range []chan struct{}{s.tries, l.slow} {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrLocked, ctx.Err())
		}
		wait, slow, rests := l.turn(s, came)
		if insists {
			wait, slow, rests = LongLockWait, true, false
		}
		if rests {
			break
		}
		if !slow || turns == l.slow {
			began := time.Now()
			err := do(wait)
			l.note(s, began, err)
			return err
		}
	}
	return ErrLocked
}

// Try is Once for someone who waits for the answer: after a first try that missed the lock it makes a longer one.
func (l *LockedSales) Try(ctx context.Context, sale int64, do func(wait time.Duration) error) error {
	err := l.Once(ctx, sale, do)
	if errors.Is(err, ErrSaleLocked) {
		err = l.Once(ctx, sale, do)
	}
	return err
}

// InTx tries a transaction that locks the sale's row. As a part of another transaction it tries once, without a turn,
// and waits as long for a lock as that does: whoever began that one waited for the turn.
func (l *LockedSales) InTx(ctx context.Context, db DB, sale int64, do func(pgx.Tx) error) error {
	if tx, ok := db.(pgx.Tx); ok {
		return unlessMissed(pgx.BeginFunc(ctx, tx, noting(do)), ErrLocked)
	}
	return l.Try(ctx, sale, func(wait time.Duration) error { return InTx(ctx, db, wait, do) })
}

// OnceInTx is InTx for a part of the background, which tries once: there is a later round.
func (l *LockedSales) OnceInTx(ctx context.Context, db DB, sale int64, do func(pgx.Tx) error) error {
	return l.Once(ctx, sale, func(wait time.Duration) error { return InTx(ctx, db, wait, do) })
}

// Note notes how a try ended that another function has made.
func (l *LockedSales) Note(sale int64, began time.Time, err error) {
	s, done := l.use(sale)
	defer done()
	l.note(s, began, err)
}

// Slow returns the sales whose last try missed the lock, and those of them that rest: a part of the background leaves
// these, and takes the slow ones after the others.
func (l *LockedSales) Slow() (slow, resting []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slow, resting = []int64{}, []int64{}
	for sale, s := range l.bySale {
		if s.missed > 0 && !s.forgotten() {
			slow = append(slow, sale)
			if time.Since(s.since) < s.rest() {
				resting = append(resting, sale)
			}
		}
	}
	return slow, resting
}
