// Package lineage finds out whether Postgres has gone back to an older state than Redis knows: after a restore, or a
// failover to a standby that was behind.
//
// Postgres has one row with two values. The shop is drawn once and tells two shops apart; the incarnation is drawn
// again when Postgres has lost something. What Redis has of an older incarnation is worthless: its sessions name users,
// and its gates orders, that may no longer exist, or are others by now. So Redis keeps marks, and each process
// compares them with the row at its start, on every new connection to Postgres, and five times a second.
//
// The row also has a counter, the beat. It rises within 0.2 s after each transaction, and is marked in Redis once its
// own commit has succeeded: a Postgres with a smaller beat than Redis has seen lacks something. A position in the log
// would not do: a dump has none, and an ordinary role cannot read where the log of a promoted standby left that of its
// primary. The row goes wherever the data go, and a synchronous standby has every beat that was marked. Orders are
// noticed to the last one: if the server is another than the one that was marked, every order that the gates know must
// exist.
//
// A process that starts draws the new incarnation, deletes what Redis has of the old one, and marks it. A process that
// runs does none of that: it sells nothing more and ends, and its next start does it.
package lineage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"miaosha/seckill/rounds"
)

const (
	beatEvery = 200 * time.Millisecond
	beatApart = beatEvery / 2 // of all processes together
	beatLimit = time.Second
	// a process that was not seen for so long has ended, with every call that it had sent to Redis
	aliveFor = 3 * time.Second
	awaitFor = 6 * time.Second  // how long a start waits for the processes of another incarnation to end
	rowLimit = 2 * time.Second  // to read the row on a new connection, as for the connection itself
	startFor = time.Minute      // for the whole comparison at a start, without the deletion
	lookFor  = 30 * time.Second // for the comparison on a new connection
)

// Deps are the stores of the shop.
type Deps struct {
	DB       *pgxpool.Pool
	Postgres string          // its setting, such as --database-url (DATABASE_URL)
	Redis    []Redis         // that of the gates, and that of the sessions if it is another one
	Say      func(string)    // receives a line on what the start has found and done
	End      func(why error) // is called once, when this process must use the stores no more; nil for a command
	Log      *slog.Logger
}

// Lineage is the incarnation of the shop that a process belongs to.
type Lineage struct {
	deps   Deps
	name   string // of this process; "" for a command, which marks nothing where no process has
	rounds *rounds.Rounds

	ended context.Context // when this process must use the stores no more; its cause says why
	end   context.CancelCauseFunc
	once  sync.Once // guards the end

	beat     atomic.Int64 // the highest one that this process knows to be committed
	seen     atomic.Pointer[seen]
	compares singleflight.Group
	fault    string // of the last round

	mu  sync.Mutex
	row row // as of the last comparison
}

func newLineage(deps Deps) *Lineage {
	l := &Lineage{deps: deps, rounds: rounds.New()}
	l.ended, l.end = context.WithCancelCause(context.Background())
	l.seen.Store(&seen{})
	host, _ := os.Hostname()
	l.name = fmt.Sprintf("%s-%d", host, os.Getpid())
	return l
}

// Open compares Postgres with what Redis has seen, for a process that will run. It draws a new incarnation if Postgres
// lacks something, and takes Redis over from the one before. An error is a line for the operator that names the
// setting.
func Open(ctx context.Context, deps Deps) (*Lineage, error) {
	whole := ctx // a deletion takes as long as there are keys
	ctx, cancel := context.WithTimeout(ctx, startFor)
	defer cancel()
	l := newLineage(deps)
	row, all, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	if why, err := l.gap(ctx, deps.DB, row, all, ""); err != nil {
		return nil, err
	} else if why != "" {
		drawn, err := draw(ctx, deps.DB, row, all)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", deps.Postgres, err)
		}
		if drawn {
			deps.Say("Postgres has gone back, by a restore or a failover: " + why)
			deps.Say("  a new incarnation of the shop begins: everybody logs in again, and no id is given twice")
		}
		if row, err = l.readRow(ctx, deps.DB); err != nil {
			return nil, err
		}
	}
	l.row = row
	waiting, cancelWaiting := context.WithTimeout(ctx, rowLimit)
	s, err := current(waiting, deps.DB)
	cancelWaiting()
	if err != nil { // while a synchronous standby is down a shop may start; its first beat brings the numbers
		deps.Log.Warn("the numbers of Postgres are not marked yet, will retry", "err", err)
	}
	l.beat.Store(s.Beat)
	l.seen.Store(&s)
	for i, m := range all {
		if m.Incarnation == row.Incarnation && m.Server != row.Server() {
			deps.Say("Postgres is another server than before, or a restored copy; it has all that " +
				deps.Redis[i].Setting + " has seen")
			break
		}
	}
	for _, r := range deps.Redis {
		if err := l.adopt(whole, r); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Look compares as Open does, for a command. It changes nothing: what a process has to do at its start is an error.
func Look(ctx context.Context, deps Deps) (*Lineage, error) {
	ctx, cancel := context.WithTimeout(ctx, startFor)
	defer cancel()
	l := newLineage(deps)
	l.name = ""
	row, all, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	why, err := l.gap(ctx, deps.DB, row, all, "")
	for i, m := range all {
		if err == nil && why == "" && m.Shop != "" && m.Incarnation != row.Incarnation {
			why = deps.Redis[i].Setting + " has the data of an older incarnation of it"
		}
	}
	if err == nil && why != "" {
		err = fmt.Errorf(
			"%s: Postgres has gone back, by a restore or a failover (%s): start the shop (miaosha serve), which takes that over; then run this command again",
			l.deps.Postgres, why)
	}
	l.row = row
	l.beat.Store(row.Beat)
	return l, err
}

// read reads the marks and then the row: the other way round a shop that runs would seem to have lost what it has
// written between. It refuses a Redis of another shop.
func (l *Lineage) read(ctx context.Context) (at row, all []marks, err error) {
	all = make([]marks, len(l.deps.Redis))
	for i, r := range l.deps.Redis {
		for tries := 0; ; tries++ { // a Redis that is slow for a moment may be opened, see package backend
			if all[i], err = r.marks(ctx); err == nil || tries == 10 || pause(ctx) != nil {
				break
			}
		}
		if err != nil {
			return at, nil, err
		}
	}
	if at, err = l.readRow(ctx, l.deps.DB); err != nil {
		return at, nil, err
	}
	for i, m := range all {
		if m.Shop != "" && m.Shop != at.Shop {
			return at, nil, l.deps.Redis[i].ofAnotherShop(at.Shop, m.Shop)
		}
	}
	return at, all, nil
}

func (l *Lineage) readRow(ctx context.Context, db querier) (row, error) {
	at, err := readRow(ctx, db)
	if err != nil {
		err = fmt.Errorf("%s: %w", l.deps.Postgres, err)
	}
	return at, err
}

// gap says what Postgres lacks of what Redis has seen, or "". was is the server that this process has used, "" at a
// start: what it has told Redis of that one is looked for, though another process may have marked the next one by now.
func (l *Lineage) gap(ctx context.Context, db querier, at row, all []marks, was string) (string, error) {
	follows, other := false, false
	for i, m := range all {
		switch {
		case m.Shop == "":
		case m.Incarnation == at.Incarnation:
			follows = true
			if m.Beat > at.Beat {
				return fmt.Sprintf("it is at beat %d, and %s has seen beat %d", at.Beat,
					l.deps.Redis[i].Setting, m.Beat), nil
			}
			if m.Server == at.Server() && (was == "" || was == at.Server()) {
				continue
			}
			if n, err := l.deps.Redis[i].ordersMissing(ctx, db); err != nil {
				return "", err
			} else if n > 0 {
				return fmt.Sprintf("orders that %s knows and that it lacks: %d", l.deps.Redis[i].Setting, n), nil
			}
		case m.Incarnation == at.Former:
			follows = true
		default:
			other = true
		}
	}
	if other && !follows {
		return "its incarnation is older than the one that Redis has", nil
	}
	return "", nil
}

// adopt makes a Redis one of this incarnation. It deletes what is there of another one, and first waits until no
// process uses it any more. One process deletes, the others wait for it. A kill on the way repeats it at the next
// start.
func (l *Lineage) adopt(ctx context.Context, r Redis) error {
	if err := l.awaitOthers(ctx, r); err != nil {
		return err
	}
	me := uuid.NewString()
	for {
		m, err := r.marks(ctx)
		if err != nil {
			return err
		}
		if m.Shop == l.row.Shop && m.Incarnation != l.row.Incarnation {
			if alone, err := r.alone(ctx, me); err != nil {
				return err
			} else if !alone {
				if err := pause(ctx); err != nil {
					return err
				}
				continue
			}
			if err = l.replace(ctx, r, me); err == nil {
				continue // with the marks of now
			}
			return err
		}
		if m.Shop == "" {
			if has, err := r.hasKeys(ctx); err != nil {
				return err
			} else if has {
				l.deps.Say(fmt.Sprintf("%s has no marks of a shop yet: its keys are taken for those of this one",
					r.Setting))
			}
		}
		other, err := l.mark(ctx, r, "")
		if err == nil && other != "" {
			err = r.ofAnother(l.row, other)
		}
		return err
	}
}

// replace deletes what a Redis has of another incarnation, and then marks it as one of this incarnation. The caller is
// alone under the name me.
func (l *Lineage) replace(ctx context.Context, r Redis, me string) error {
	defer r.notAlone(ctx, me)
	m, err := r.marks(ctx) // another process may have done it a moment ago
	if err != nil || m.Shop != l.row.Shop || m.Incarnation == l.row.Incarnation {
		return err
	}
	keys, entries, err := r.deleteAll(ctx, me)
	if err != nil {
		return err
	}
	l.deps.Say(fmt.Sprintf(
		"  %s: %d keys of the former incarnation are deleted, with %d journal entries that are not settled any more",
		r.Setting, keys, entries))
	other, err := l.mark(ctx, r, m.Incarnation)
	if err == nil && other != "" {
		err = r.ofAnother(l.row, other)
	}
	return err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(beatEvery):
		return nil
	}
}

// awaitOthers waits until no process of another incarnation, or of a copy of the database, uses a Redis.
func (l *Lineage) awaitOthers(ctx context.Context, r Redis) error {
	for deadline := time.Now().Add(awaitFor); ; {
		other, err := r.otherProcess(ctx, l.process())
		if err != nil || other == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf(
				"%s: process %s uses it with another copy of this shop's database, or one of before a restore: two databases can't share one Redis; stop that process, or give this one another Redis",
				r.Setting, other)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// process is what this process is called in Redis: incarnation, database and name.
func (l *Lineage) process() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row.Incarnation + " " + l.row.Database + " " + l.name
}

// mark marks what this process has seen, and that it lives. It returns the shop and the incarnation of the marks if
// they are another's.
func (l *Lineage) mark(ctx context.Context, r Redis, former string) (other string, err error) {
	process := ""
	if l.name != "" {
		process = l.process()
	}
	l.mu.Lock()
	at := l.row
	l.mu.Unlock()
	return r.mark(ctx, process, at, former, *l.seen.Load())
}

// Connected compares a new connection to Postgres with what this process knows, before its first use. It returns an
// error if the connection must not be used.
func (l *Lineage) Connected(ctx context.Context, conn *pgx.Conn) error {
	if err := l.Ended(); err != nil {
		return err
	}
	highest := l.beat.Load() // before the row is read
	reading, cancel := context.WithTimeout(ctx, rowLimit)
	at, err := l.readRow(reading, conn)
	cancel()
	if err != nil {
		return err
	}
	return l.meet(ctx, conn, at, highest)
}

// meet compares the row of a server with what this process knows. highest is a beat that this process had seen before.
func (l *Lineage) meet(ctx context.Context, db querier, at row, highest int64) error {
	l.mu.Lock()
	was := l.row
	l.mu.Unlock()
	switch {
	case at.Shop != was.Shop || at.Incarnation != was.Incarnation:
		return l.stop(fmt.Errorf(
			"%s: Postgres has another incarnation of the shop (%s, this process is of %s): a restore or a failover has come between",
			l.deps.Postgres, short(at.Incarnation), short(was.Incarnation)))
	case at.Beat < highest:
		return l.goneBack(fmt.Sprintf("it is at beat %d, this process has seen beat %d", at.Beat, highest))
	case at.Server() == was.Server() && at.Started == was.Started:
		return nil
	}
	_, err, _ := l.compares.Do(at.Server()+at.Started, func() (any, error) { return nil, l.compare(ctx, db) })
	if err != nil && l.Ended() == nil && at.Server() == was.Server() {
		return nil // a restart lacks nothing that its beat does not show; it is compared again at the next look
	}
	return err
}

// compare compares another server with the marks. Until Redis replies, it is not used.
func (l *Lineage) compare(ctx context.Context, db querier) error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	all := make([]marks, len(l.deps.Redis))
	for i, r := range l.deps.Redis {
		var err error
		if all[i], err = r.marks(ctx); err != nil {
			return fmt.Errorf("compare another Postgres with what Redis has seen: %w", err)
		}
	}
	at, err := l.readRow(ctx, db) // after the marks: it may have gone on since
	if err != nil {
		return err
	}
	for i, m := range all {
		if m.Shop != "" && (m.Shop != at.Shop || m.Incarnation != at.Incarnation) {
			return l.stop(l.deps.Redis[i].ofAnother(at, m.Shop+" "+m.Incarnation))
		}
	}
	l.mu.Lock()
	was := l.row.Server()
	l.mu.Unlock()
	why, err := l.gap(ctx, db, at, all, was)
	if err != nil {
		return fmt.Errorf("compare another Postgres with what Redis has seen: %w", err)
	}
	if why != "" {
		return l.goneBack(why)
	}
	l.mu.Lock()
	moved := at.Server() != l.row.Server()
	l.row = at
	l.mu.Unlock()
	if moved {
		l.deps.Log.Info("Postgres is another server now, or a restored copy; it has all that Redis has seen",
			"server", at.Server())
	}
	return nil
}

func (l *Lineage) goneBack(why string) error {
	return l.stop(fmt.Errorf("%s: Postgres has gone back, by a restore or a failover: %s", l.deps.Postgres, why))
}

// stop ends this process's use of the stores, once.
func (l *Lineage) stop(why error) error {
	why = fmt.Errorf("%w; this process sells nothing more and ends", why)
	l.once.Do(func() {
		l.end(why)
		if l.deps.End != nil {
			l.deps.End(why)
		}
	})
	return l.Ended()
}

// Ended returns why this process must use the stores no more, or nil.
func (l *Lineage) Ended() error { return context.Cause(l.ended) }

// Run beats and marks until ctx ends, and then takes this process out of Redis. It returns an error as soon as this
// process must use the stores no more.
func (l *Lineage) Run(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ended, cancel)()
	l.rounds.Run(running, beatLimit, rounds.Every(beatEvery), l.round)
	if l.ended.Err() != nil {
		return l.Ended() // its last mark of life stays: no other process takes over before it has run out
	}
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), beatLimit)
	defer cancelLast()
	l.round(last)
	for _, r := range l.deps.Redis {
		r.leave(last, l.process())
	}
	return l.Ended()
}

// Mark marks what a command has written.
func (l *Lineage) Mark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatLimit)
	defer cancel()
	l.round(ctx)
}

// round beats in Postgres and marks in Redis.
func (l *Lineage) round(ctx context.Context) {
	err := l.look(ctx)
	for _, r := range l.deps.Redis {
		if l.ended.Err() != nil {
			return
		}
		// even while Postgres does not reply
		marking, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatLimit)
		other, fault := l.mark(marking, r, "")
		cancel()
		if err = errors.Join(err, fault); other != "" {
			l.mu.Lock()
			at := l.row
			l.mu.Unlock()
			l.stop(r.ofAnother(at, other))
		}
	}
	l.report(ctx, err)
}

// look reads the row, and beats if anything was written since the last beat of any process.
func (l *Lineage) look(ctx context.Context) error {
	highest := l.beat.Load()
	at, err := l.readRow(ctx, l.deps.DB)
	if err != nil {
		return err
	}
	if err := l.meet(ctx, l.deps.DB, at, highest); err != nil || !at.Written {
		return err
	}
	apart := beatApart
	if l.name == "" { // a command has one round
		apart = 0
	}
	s, done, err := beat(ctx, l.deps.DB, at.Incarnation, apart)
	if err != nil || !done { // another process has beaten a moment ago
		return err
	}
	if s.Beat <= highest {
		l.goneBack(fmt.Sprintf("it is at beat %d, this process has seen beat %d", s.Beat, highest))
		return nil
	}
	l.beat.Store(s.Beat)
	l.seen.Store(&s)
	return nil
}

// report logs a fault of the rounds once, until another comes or all is well again.
func (l *Lineage) report(ctx context.Context, err error) {
	text := ""
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) && l.ended.Err() == nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if l.fault == "" && text != "" {
		l.deps.Log.Warn("can't compare Postgres with Redis, will retry", "err", text)
	}
	l.fault = text
}

func short(id string) string { return id[:min(8, len(id))] }
