//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

func (env *Environment) key(name string) string { return fmt.Sprintf("ms:{%d}:%s", env.Sale, name) }

// gateState is the gate and the journal of the sale at one moment.
type gateState struct {
	epoch, ops string
	stock      int
	tickets    []string         // of the journal, in the form of ticket_outcomes
	oldest     time.Time        // the grant of the first
	owners     map[string]owner // of the entries of the journal
	strays     []string         // takeovers of entries that have left the journal
}

// owner is the process that works on an entry of the journal, as the shop reads it: by the last takeover, if there was one.
type owner struct {
	process string // "" for none
	n       int    // how many owners the entry has had, 1 without a takeover
}

// readGate reads both in one transaction. It returns an error if there is no gate.
func (env *Environment) readGate(ctx context.Context) (r gateState, err error) {
	if env.sc.gateless {
		return r, nil
	}
	var gate *redis.SliceCmd
	var journal *redis.XMessageSliceCmd
	var taken *redis.MapStringStringCmd
	if _, err = env.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		gate = p.HMGet(ctx, env.key("gate"), "epoch", "ops", "stock")
		journal = p.XRange(ctx, env.key("journal2"), "-", "+")
		taken = p.HGetAll(ctx, env.key("takeovers"))
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
	r.owners = map[string]owner{}
	for i, m := range journal.Val() {
		wrote, _ := m.Values["owner"].(string)
		r.owners[m.ID] = owner{wrote, 1}
		epoch, _ := m.Values["epoch"].(string)
		tickets, _ := m.Values["tickets"].(string)
		for n, word := range strings.Fields(tickets) {
			if n%2 == 1 { // user, nonce, user, nonce
				r.tickets = append(r.tickets, epoch+":"+m.ID+":"+word)
			}
		}
		if i == 0 {
			r.oldest = grantedAt(epoch + ":" + m.ID + ":")
		}
	}
	for entry, text := range taken.Val() {
		count, rest, _ := strings.Cut(text, " ")
		_, process, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(count)
		if _, there := r.owners[entry]; there {
			r.owners[entry] = owner{process, n}
		} else {
			r.strays = append(r.strays, entry)
		}
	}
	return r, nil
}

// same reports whether the gate did not change between two reads.
func (g gateState) same(other gateState) bool {
	type state struct {
		epoch, ops     string
		stock, tickets int
	}
	return state{g.epoch, g.ops, g.stock, len(g.tickets)} == state{other.epoch, other.ops, other.stock, len(other.tickets)}
}

// gateMatches reports whether the gate offers the units of Postgres less the tickets in the journal (I6). Of a settled
// ticket that is still in the journal, the gate may have the ack or not, so the right stock is a range. gateMatches reads
// the gate before and after Postgres, and starts again if the gate has changed.
func (env *Environment) gateMatches(ctx context.Context) (matches bool, why string) {
	if env.sc.gateless {
		return true, ""
	}
	for range 20 {
		before, err := env.readGate(ctx)
		if err != nil {
			return false, err.Error()
		}
		rows, _ := env.pool.Query(ctx, `
			select stock, (select count(*) from ticket_outcomes where ticket = any($2)) as settled
			from   sales where id = $1`, env.Sale, before.tickets)
		sale, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Stock, Settled int }])
		if err != nil {
			return false, err.Error()
		}
		after, err := env.readGate(ctx)
		if err != nil {
			return false, err.Error()
		}
		if !before.same(after) {
			continue
		}
		waiting := len(before.tickets)
		least, most := max(0, sale.Stock-waiting), max(0, sale.Stock-waiting+sale.Settled)
		return least <= before.stock && before.stock <= most, fmt.Sprintf("gate %d, Postgres %d, in the journal %d of which settled %d",
			before.stock, sale.Stock, waiting, sale.Settled)
	}
	return false, "the gate never stopped changing"
}

// recovery is the time from the last fault until the gate was right, and until the older tickets were settled.
type recovery struct{ gate, tickets time.Duration }

const (
	gateBound    = time.Second      // I6
	ticketsBound = 15 * time.Second // for a ticket whose process has died: its beat is quiet for 5 s, and others look each second
	finalBound   = 60 * time.Second // for the last result of all buyers (I4)
)

// measureRecovery waits for both, while the sale goes on. A gate that is wrong for a minute is wrong for good: no bound
// is missed then, but a truth.
func (env *Environment) measureRecovery() (r recovery) {
	_, since := env.injected()
	if since.IsZero() {
		since = time.Now()
	}
	r.gate, r.tickets = -1, -1
	why := ""
	for began, most := time.Now(), env.longest(ticketsBound); time.Since(began) < most && (r.gate < 0 || r.tickets < 0); {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if r.gate < 0 {
			var matches bool
			if matches, why = env.gateMatches(ctx); matches {
				r.gate = time.Since(since)
			}
		}
		if g, err := env.readGate(ctx); err == nil && r.tickets < 0 && (len(g.tickets) == 0 || g.oldest.After(since)) {
			r.tickets = time.Since(since)
		}
		cancel()
		time.Sleep(10 * time.Millisecond)
	}
	bound := gateBound
	if env.sc.poison || env.sc.exhibition {
		// A poison message counts as a ticket until a process takes it over.
		bound = ticketsBound
	}
	if r.gate < 0 {
		env.Report("I6: the gate is wrong %v after the last fault: %s", sandboxtest.Hang, why)
	} else if r.gate > bound {
		env.Late("I6: the gate was right only %v after the last fault", formatBound(r.gate))
	}
	if r.tickets < 0 {
		env.Report("I4: tickets from before the last fault are in the journal %v after it", sandboxtest.Hang)
	} else if r.tickets > ticketsBound {
		env.Late("I4: tickets from before the last fault were in the journal until %v after it", formatBound(r.tickets))
	}
	return r
}
