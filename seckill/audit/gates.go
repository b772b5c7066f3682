package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/gate"
)

// A gate breaks I6 only if it is wrong for more than a second: reconcile has this time to correct it.
const (
	gateTries = 6
	gatePause = 300 * time.Millisecond

	ticketLimit = 15 * time.Second // reclaim starts after 5 s, and then settling takes well under 10 s
)

// sale is a sale that may still have a journal. A gate lives until one day after the end of its sale.
type sale struct {
	ID    int64
	Stock int
	Open  bool // reconcile corrects the gate of an open sale only, so only its stock is checked
}

func sales(ctx context.Context, db *pgxpool.Pool) ([]sale, error) {
	rows, _ := db.Query(ctx, `
		select id, stock, now() < ends_at as open
		from   sales
		where  state <> 'draft' and starts_at <= now() and ends_at > now() - interval '25 hours'
		order  by id desc
		limit  5000`)
	return pgx.CollectRows(rows, pgx.RowToStructByName[sale])
}

// Gates checks the gate of each open sale against Postgres: if its journal is empty, its stock must be the sale's stock
// (I6). It skips a sale whose gate is absent or has tickets in the journal. Gates also checks that a gate counts as
// many tickets as its journal has (I6), that no ticket waits in a journal for longer than reclaim needs (I4), and that
// no big gate refuses buyers for two address lives while units are left and none is sold (I5).
func Gates(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (found []Finding, err error) {
	return gates(ctx, db, rdb, func(int) {
		select {
		case <-ctx.Done():
		case <-time.After(gatePause):
		}
	})
}

// gates calls pause before each try but the first.
func gates(
	ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, pause func(try int),
) (found []Finding, err error) {
	var now observation
	for try := range gateTries {
		if try > 0 {
			pause(try)
		}
		before := now
		if now, err = observe(ctx, db, rdb); err != nil {
			return nil, fmt.Errorf("audit the gates: %w", err)
		}
		if try > 0 {
			now.keepRepeated(before)
		}
		if len(now.wrong)+len(now.miscounted)+len(now.overdue)+len(now.unsold) == 0 {
			return nil, nil
		}
	}
	if len(now.overdue) > 0 {
		found = append(found, Finding{"I4", "a ticket has waited in the journal for longer than reclaim needs",
			firstRows(now.overdue)})
	}
	if len(now.unsold) > 0 {
		found = append(found, Finding{"I5",
			"buyers are told to wait while units are left, and none was sold for two address lives",
			firstRows(now.unsold)})
	}
	if len(now.wrong) > 0 {
		found = append(found, Finding{"I6", "an idle gate's stock is not the sale's", firstRows(now.wrong)})
	}
	if len(now.miscounted) > 0 {
		found = append(found, Finding{"I6", "a gate does not count the tickets in its journal right",
			firstRows(now.miscounted)})
	}
	return found, nil
}

// observation is the result of one try. The other maps have the text of a finding's row for each sale.
type observation struct {
	gates                              map[int64]gate.State
	wrong, miscounted, overdue, unsold map[int64]string
}

// keepRepeated deletes each entry that the observation before it does not have. It also deletes a gate that changed
// between the two: such a gate is not idle. A gate that did not change was the same while Postgres was read, so the two
// stocks belong together.
func (o observation) keepRepeated(before observation) {
	maps.DeleteFunc(o.wrong, func(id int64, _ string) bool {
		return before.wrong[id] == "" || before.gates[id] != o.gates[id]
	})
	maps.DeleteFunc(o.miscounted, func(id int64, _ string) bool { return before.miscounted[id] == "" })
	maps.DeleteFunc(o.overdue, func(id int64, _ string) bool { return before.overdue[id] == "" })
	maps.DeleteFunc(o.unsold, func(id int64, _ string) bool { return before.unsold[id] == "" })
}

// observe reads the gates outside the breaker: the audit must see the gates even where the shop works without them.
func observe(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (o observation, err error) {
	o = observation{wrong: map[int64]string{}, miscounted: map[int64]string{}, overdue: map[int64]string{},
		unsold: map[int64]string{}}
	all, err := sales(ctx, db)
	if err != nil || len(all) == 0 {
		return o, err
	}
	ids := make([]int64, len(all))
	for i, s := range all {
		ids[i] = s.ID
	}
	if o.gates, err = gate.States(ctx, rdb, ids); err != nil {
		return o, err
	}
	refusing, err := gate.Refusals(ctx, rdb, ids)
	if err != nil {
		return o, err
	}
	waiting := slices.DeleteFunc(ids, func(id int64) bool { return o.gates[id].Entries == 0 })
	if o.overdue, err = overdueTickets(ctx, rdb, waiting); err != nil {
		return o, err
	}
	if o.miscounted, err = miscounted(ctx, rdb, waiting); err != nil {
		return o, err
	}
	for _, s := range all {
		if r := refusing[s.ID]; s.Open && s.Stock > 0 && r.For > 2*r.Life {
			o.unsold[s.ID] = fmt.Sprintf("sale=%d left=%d refuses=%v", s.ID, s.Stock, r.For.Truncate(time.Second))
		}
		if g := o.gates[s.ID]; s.Open && g.Epoch != 0 && g.Entries == 0 && g.Stock != s.Stock {
			o.wrong[s.ID] = fmt.Sprintf("sale=%d gate=%d postgres=%d", s.ID, g.Stock, s.Stock)
		}
	}
	return o, nil
}

// miscounted compares the tickets that gates count with those in their journals.
func miscounted(ctx context.Context, rdb redis.UniversalClient, sales []int64) (wrong map[int64]string, err error) {
	wrong = map[int64]string{}
	for _, sale := range sales {
		counted, has, err := gate.CountJournal(ctx, rdb, sale)
		if err != nil {
			return nil, err
		}
		if counted != has {
			wrong[sale] = fmt.Sprintf("sale=%d gate=%d journal=%d", sale, counted, has)
		}
	}
	return wrong, nil
}

// overdueTickets returns the oldest ticket of each journal if it is too old.
func overdueTickets(
	ctx context.Context, rdb redis.UniversalClient, sales []int64,
) (overdue map[int64]string, err error) {
	overdue = map[int64]string{}
	oldest, err := oldestTickets(ctx, rdb, sales)
	for id, t := range oldest {
		if t.age > ticketLimit {
			overdue[id] = fmt.Sprintf("sale=%d entry=%s waits=%v", id, t.entry, t.age.Truncate(time.Second))
		}
	}
	return overdue, err
}

// waits says for how long a journal entry waits.
type waits struct {
	entry string
	age   time.Duration
}

// oldestTickets returns the oldest entry of each sale's journal by Redis TIME. The id of a journal entry starts with
// its time.
func oldestTickets(ctx context.Context, rdb redis.UniversalClient, sales []int64) (map[int64]waits, error) {
	found := map[int64]waits{}
	if len(sales) == 0 {
		return found, nil
	}
	pipe := rdb.Pipeline()
	now, oldest := pipe.Time(ctx), make([]*redis.XMessageSliceCmd, len(sales))
	for i, id := range sales {
		oldest[i] = pipe.XRangeN(ctx, gate.JournalKey(id), "-", "+", 1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %d journals: %w", len(sales), err)
	}
	for i, reply := range oldest {
		id := sales[i]
		for _, entry := range reply.Val() {
			at, _, _ := strings.Cut(entry.ID, "-")
			ms, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("entry %q of sale %d's journal: %w", entry.ID, id, err)
			}
			found[id] = waits{entry.ID, now.Val().Sub(time.UnixMilli(ms))}
		}
	}
	return found, nil
}

// deadLetters returns a note for each sale with tickets that could not be settled, with the oldest of them. Their
// buyers have a result, so no invariant is broken.
func deadLetters(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (notes []Finding, err error) {
	all, err := sales(ctx, db)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	pipe := rdb.Pipeline()
	lens, oldest := make([]*redis.IntCmd, len(all)), make([]*redis.XMessageSliceCmd, len(all))
	for i, s := range all {
		lens[i] = pipe.XLen(ctx, gate.DeadKey(s.ID))
		oldest[i] = pipe.XRangeN(ctx, gate.DeadKey(s.ID), "-", "+", maxRows)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the dead letters of %d sales: %w", len(all), err)
	}
	for i, s := range all {
		n := lens[i].Val()
		if n == 0 {
			continue
		}
		note := Finding{Meaning: fmt.Sprintf("sale %d has %d dead letters", s.ID, n)}
		if n == 1 {
			note.Meaning = fmt.Sprintf("sale %d has 1 dead letter", s.ID)
		}
		for _, letter := range oldest[i].Val() {
			note.Rows = append(note.Rows, letterRow(letter))
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// letterRow writes a dead letter on one line: when it was written, by the clock of Redis, and its fields. Those of the
// journal entry begin with was_.
func letterRow(letter redis.XMessage) string {
	at, _, _ := strings.Cut(letter.ID, "-")
	ms, _ := strconv.ParseInt(at, 10, 64)
	row := time.UnixMilli(ms).UTC().Format(time.RFC3339)
	for _, name := range slices.Sorted(maps.Keys(letter.Values)) {
		row += fmt.Sprintf(" %s=%v", name, letter.Values[name])
	}
	return row
}

// firstRows returns the rows of the lowest sale ids, at most maxRows.
func firstRows(rows map[int64]string) []string {
	var first []string
	for _, id := range slices.Sorted(maps.Keys(rows))[:min(len(rows), maxRows)] {
		first = append(first, rows[id])
	}
	return first
}
