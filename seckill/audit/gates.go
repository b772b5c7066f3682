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

	"miaosha/seckill"
)

// gateTries and gatePause give reconcile the time it is promised: a gate is wrong if it stays wrong for over a second.
const (
	gateTries = 6
	gatePause = 300 * time.Millisecond

	ticketLimit = 15 * time.Second // reclaim begins after 5, and settling has to be done well before 10
)

// sale is one whose journal is still there: a gate lives a day after the sale's end.
type sale struct {
	ID    int64
	Stock int
	Open  bool // only then is its gate held to its stock: nobody reconciles it afterwards
}

func sales(ctx context.Context, db *pgxpool.Pool) ([]sale, error) {
	rows, err := db.Query(ctx, `
		select id, stock, now() < ends_at
		from   sales
		where  state <> 'draft' and starts_at <= now() and ends_at > now() - interval '25 hours'
		order  by id desc
		limit  5000`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[sale])
}

// Gates holds every open sale's idle gate against Postgres (I6): with an empty journal, the gate's stock is the sale's.
// A sale whose gate is absent or being worked on proves nothing and breaks nothing. And no ticket may wait in a journal
// for longer than reclaim takes (I4).
func Gates(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (found []Finding, err error) {
	var is look
	for try := range gateTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(gatePause):
			}
		}
		was := is
		if is, err = lookAt(ctx, db, rdb); err != nil {
			return nil, fmt.Errorf("audit the gates: %w", err)
		}
		if try > 0 {
			is.since(was)
		}
		if len(is.wrong)+len(is.late) == 0 {
			return nil, nil
		}
	}
	if len(is.late) > 0 {
		found = append(found, Finding{"I4", "a ticket has waited in the journal for longer than reclaim takes", firstOf(is.late)})
	}
	if len(is.wrong) > 0 {
		found = append(found, Finding{"I6", "an idle gate's stock is not the sale's", firstOf(is.wrong)})
	}
	return found, nil
}

// look is what one try finds: by sale, what is to be shown.
type look struct {
	gates       map[int64]seckill.Reading
	wrong, late map[int64]string
}

// since forgets what wasn't so the last time. A gate that has moved in between is not idle; and one that has not was the
// same while Postgres was read, so the two readings belong together.
func (l look) since(was look) {
	maps.DeleteFunc(l.wrong, func(id int64, _ string) bool { return was.wrong[id] == "" || was.gates[id] != l.gates[id] })
	maps.DeleteFunc(l.late, func(id int64, _ string) bool { return was.late[id] == "" })
}

func lookAt(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (l look, err error) {
	l = look{wrong: map[int64]string{}, late: map[int64]string{}}
	all, err := sales(ctx, db)
	if err != nil || len(all) == 0 {
		return l, err
	}
	ids := make([]int64, len(all))
	for i, s := range all {
		ids[i] = s.ID
	}
	if l.gates, err = seckill.ReadGates(ctx, rdb, ids); err != nil {
		return l, err
	}
	waiting := slices.DeleteFunc(ids, func(id int64) bool { return l.gates[id].Waiting == 0 })
	if l.late, err = lateTickets(ctx, rdb, waiting); err != nil {
		return l, err
	}
	for _, s := range all {
		if g := l.gates[s.ID]; s.Open && g.Epoch != "" && g.Waiting == 0 && g.Stock != s.Stock {
			l.wrong[s.ID] = fmt.Sprintf("sale=%d gate=%d postgres=%d", s.ID, g.Stock, s.Stock)
		}
	}
	return l, nil
}

// lateTickets finds the journals whose oldest entry is too old, by Redis TIME: an entry's id begins with its time.
func lateTickets(ctx context.Context, rdb redis.UniversalClient, sales []int64) (late map[int64]string, err error) {
	late = map[int64]string{}
	if len(sales) == 0 {
		return late, nil
	}
	pipe := rdb.Pipeline()
	now, oldest := pipe.Time(ctx), make([]*redis.XMessageSliceCmd, len(sales))
	for i, id := range sales {
		oldest[i] = pipe.XRangeN(ctx, key(id, "journal"), "-", "+", 1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %d journals: %w", len(sales), err)
	}
	for i, id := range sales {
		for _, entry := range oldest[i].Val() {
			at, _, _ := strings.Cut(entry.ID, "-")
			ms, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("entry %q of sale %d's journal: %w", entry.ID, id, err)
			}
			if age := now.Val().Sub(time.UnixMilli(ms)); age > ticketLimit {
				late[id] = fmt.Sprintf("sale=%d entry=%s waits=%v", id, entry.ID, age.Truncate(time.Second))
			}
		}
	}
	return late, nil
}

// deadLetters says which sales have tickets that could not be settled. Each was answered, so no invariant is broken.
func deadLetters(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (notes []string, err error) {
	all, err := sales(ctx, db)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	pipe := rdb.Pipeline()
	lens := make([]*redis.IntCmd, len(all))
	for i, s := range all {
		lens[i] = pipe.XLen(ctx, key(s.ID, "dead"))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("count the dead letters of %d sales: %w", len(all), err)
	}
	for i, s := range all {
		switch n := lens[i].Val(); n {
		case 0:
		case 1:
			notes = append(notes, fmt.Sprintf("sale %d has 1 dead letter", s.ID))
		default:
			notes = append(notes, fmt.Sprintf("sale %d has %d dead letters", s.ID, n))
		}
	}
	return notes, nil
}

// key is a sale's key as package seckill names it; the tests hold the two together.
func key(sale int64, name string) string { return "ms:{" + strconv.FormatInt(sale, 10) + "}:" + name }

func firstOf(rows map[int64]string) []string {
	var first []string
	for _, id := range slices.Sorted(maps.Keys(rows))[:min(len(rows), shown)] {
		first = append(first, rows[id])
	}
	return first
}
