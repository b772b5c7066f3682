//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

func (w *World) key(name string) string { return fmt.Sprintf("ms:{%d}:%s", w.Sale, name) }

// gateReading is a sale's gate and journal at one moment.
type gateReading struct {
	epoch, ops string
	stock      int
	tickets    []string // of the journal, as ticket_results has them
	oldest     time.Time
}

// readGate reads both in one transaction; an error where there is no gate.
func (w *World) readGate(ctx context.Context) (r gateReading, err error) {
	if w.sc.gateless {
		return r, nil
	}
	var gate *redis.SliceCmd
	var journal *redis.XMessageSliceCmd
	if _, err = w.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		gate = p.HMGet(ctx, w.key("gate"), "epoch", "ops", "stock")
		journal = p.XRange(ctx, w.key("journal"), "-", "+")
		return nil
	}); err != nil {
		return r, err
	}
	v := gate.Val()
	r.epoch, _ = v[0].(string)
	r.ops, _ = v[1].(string)
	text, _ := v[2].(string)
	if r.stock, err = strconv.Atoi(text); err != nil {
		return r, fmt.Errorf("no gate: %v", v)
	}
	for i, m := range journal.Val() {
		epoch, _ := m.Values["epoch"].(string)
		nonce, _ := m.Values["nonce"].(string)
		r.tickets = append(r.tickets, epoch+":"+m.ID+":"+nonce)
		if i == 0 {
			r.oldest = granted(r.tickets[0])
		}
	}
	return r, nil
}

// gateIsRight tells whether the gate offers what Postgres has, less the tickets in the journal (I6). Of those that are
// settled and whose entry is still there the gate may know or not know: they leave a range. It looks at the gate before
// and after Postgres: if it moved, it is asked again.
func (w *World) gateIsRight(ctx context.Context) (right bool, why string) {
	if w.sc.gateless {
		return true, ""
	}
	for range 20 {
		before, err := w.readGate(ctx)
		if err != nil {
			return false, err.Error()
		}
		var stock, settled int
		if err := w.pool.QueryRow(ctx, `
			select stock, (select count(*) from ticket_results where ticket = any($2)) from sales where id = $1`,
			w.Sale, before.tickets).Scan(&stock, &settled); err != nil {
			return false, err.Error()
		}
		after, err := w.readGate(ctx)
		if err != nil {
			return false, err.Error()
		}
		if before.epoch != after.epoch || before.ops != after.ops || before.stock != after.stock || len(before.tickets) != len(after.tickets) {
			continue
		}
		least, most := max(0, stock-len(before.tickets)), max(0, stock-len(before.tickets)+settled)
		return least <= before.stock && before.stock <= most, fmt.Sprintf("gate %d, Postgres %d, in the journal %d of which settled %d",
			before.stock, stock, len(before.tickets), settled)
	}
	return false, "it never stood still"
}

// recovery is how long after the last fault the gate was right, and the tickets of before it were settled.
type recovery struct{ gate, tickets time.Duration }

const (
	gateBound    = time.Second      // I6
	ticketsBound = 15 * time.Second // of an orphan: reclaim looks each second for what is idle for 5 s
	finalBound   = 60 * time.Second // of everything, for everybody (I4)
)

// recover measures it. The sale goes on meanwhile.
func (w *World) recover() (r recovery) {
	_, since := w.struck()
	if since.IsZero() {
		since = time.Now()
	}
	r.gate, r.tickets = -1, -1
	why := ""
	for time.Since(since) < ticketsBound && (r.gate < 0 || r.tickets < 0) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if r.gate < 0 {
			var right bool
			if right, why = w.gateIsRight(ctx); right {
				r.gate = time.Since(since)
			}
		}
		if g, err := w.readGate(ctx); err == nil && r.tickets < 0 && (len(g.tickets) == 0 || g.oldest.After(since)) {
			r.tickets = time.Since(since)
		}
		cancel()
		time.Sleep(10 * time.Millisecond)
	}
	if r.gate < 0 {
		w.Violate("I6: the gate is not right %v after the last fault: %s", ticketsBound, why)
	} else if r.gate > gateBound && !w.sc.poison { // poison looks like tickets until somebody claims it
		w.Violate("I6: the gate was right only %v after the last fault", r.gate.Round(time.Millisecond))
	}
	if r.tickets < 0 {
		w.Violate("I4: tickets of before the last fault are in the journal %v after it", ticketsBound)
	}
	return r
}
