// Package schedules looks for the shortest schedule in which a student's program goes wrong: two or three buyers, one
// statement at a time, few switches and faults. It works inside the child process of package boundary, on the stores
// of that process.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	glua "github.com/yuin/gopher-lua"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// Stall is a fault of a Schedule: the process stands still until its keys in Redis have expired, and another buyer goes
// on.
const Stall = "stall"

// Clicks of a Schedule, beside TwoBuyers and OneBuyer.
const (
	ThreeBuyers = "three buyers"                  // one click each
	OneTwice    = "two buyers, one of them twice" // the second click of one comes before the other buyer
)

// Bounds of a schedule.
const (
	trialSteps = 150
	clickTries = 4 // of a buyer who got no answer
)

// fewTried is a number of schedules before which a search has seen too little to end: each fault of an exercise that a
// schedule shows is among these. A machine that has not tried as many has twice its time more.
const fewTried = 64

// search looks for the shortest schedule in which a program goes wrong. It runs one schedule after the other: two or
// three buyers, one statement at a time. A schedule with one switch from a buyer to another, or with one fault, comes
// before those with two. The idea of few switches is that of CHESS (Musuvathi and others, 2008), and that a statement
// which waits for a lock lets the others go on is that of Postgres' isolation tester.
type search struct {
	program.Limits
	ns     *lab.Namespace
	stores lab.Stores
	server *miniredis.Miniredis
	rdb    *redis.Client
	code   *glua.FunctionProto
	plan   lab.Plan
	print  func(string)
	stuck  func(problem, text string) // ends the process: its Redis no longer answers
	conns  []*pgx.Conn                // of the buyers
	see    *pgx.Conn                  // reads the state, as OpenEye says
	tried  int
	began  time.Time
	spent  time.Duration // in code and statements of the program, beside the time of the search

	numbers []int64           // of the buyers of the schedule that runs, from buyer 1
	foreign bool              // the schedule has written an order of no buyer
	plain   *strings.Replacer // shows a number as that of the buyer
}

// scene is who clicks.
type scene struct {
	clicks string
	users  []int64
	stock  int
}

// move is what a schedule does at one of its choices.
type move struct {
	at    int    // the choice, from 0
	buyer int    // switches to this one, from 0; -1 for none
	fault string // of the buyer whose turn it is
}

// Found is what a search has found.
type Found struct {
	Kind, Problem, Text string
	Schedule            *lab.Schedule
	Steps               []lab.ScheduleStep
}

// Search returns nil if no schedule shows a fault.
func Search(ctx context.Context, st lab.Stores, server *miniredis.Miniredis, code *glua.FunctionProto, p lab.Plan,
	print func(string),
	stuck func(problem, text string)) (f *Found, err error) {
	s := &search{Limits: program.LimitsIn(ctx), stores: st, server: server, code: code, plan: p,
		print: print, stuck: stuck}
	s.rdb = redis.NewClient(&redis.Options{Addr: server.Addr(), Password: st.Redis.(*redis.Client).Options().Password,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: s.Trial / 2})
	defer s.rdb.Close()
	if s.ns, err = lab.OpenNamespace(ctx, st, lab.Tables); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	s.conns = make([]*pgx.Conn, 3)
	s.numberBuyers()
	s.began = time.Now()
	until := s.began.Add(s.Search)
	// To sell one unit twice says more than a double click does, and two buyers are easier to follow than three. The
	// many schedules with two moves come late, so that the time does not end before a shorter one of the others.
	pairs, double, twice, three := &act{}, &act{}, &act{}, &act{}
	pairs.begin(scene{lab.TwoBuyers, []int64{1, 2}, 1}, scene{lab.TwoBuyers, []int64{1, 2}, 2})
	if p.DoubleClicks > 0 {
		double.begin(scene{lab.OneBuyer, []int64{1, 1}, 2})
		twice.begin(scene{OneTwice, []int64{1, 1, 2}, 2}) // the second click may take the unit of the other buyer
	}
	three.begin(scene{ThreeBuyers, []int64{1, 2, 3}, 2})
	for _, a := range []*act{pairs, pairs, double, double, twice, pairs, double, three, three} {
		if f, err = s.deeper(ctx, a, until); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// act is a part of the search: some scenes, and their schedules with one more move than those that were tried.
type act struct {
	depth int // switches and faults of the schedules in next
	next  []candidate
}

type candidate struct {
	scene
	moves []move
}

func (a *act) begin(scenes ...scene) {
	for _, sc := range scenes {
		a.next = append(a.next, candidate{sc, nil})
	}
}

// deeper tries the next schedules of an act. Of those with equally many moves a unit that stays unsold is the least
// that can be found.
func (s *search) deeper(ctx context.Context, a *act, until time.Time) (unsold *Found, err error) {
	level, depth := a.next, a.depth
	a.next, a.depth = nil, depth+1
	if depth < 2 && len(level) > 0 && len(level[0].users) < 3 {
		until = until.Add(s.Search) // a slow machine finds those, too
	}
	for _, c := range level {
		if time.Now().After(until.Add(s.more())) || s.tried >= s.Schedules {
			break
		}
		if own := time.Since(s.began) - s.spent; s.spent > s.Search && s.spent > 4*own {
			// on a busy machine both take longer
			return &Found{Kind: lab.Failed, Problem: lab.Endless, Steps: []lab.ScheduleStep{},
				Text: fmt.Sprintf(
					"the program's own code and statements leave no time for a search: they take %v in %d schedules",
					s.spent.Round(time.Second), s.tried)}, nil
		}
		t, err := s.try(ctx, c.scene, c.moves, s.Trial)
		if err != nil {
			return nil, err
		}
		s.tried++
		kind := t.verdict()
		if kind == lab.StaysUnsold && unsold != nil {
			continue
		}
		if kind == lab.Failed || kind != "" && depth > 0 {
			t, kind = s.again(ctx, t)
		}
		switch kind {
		case "":
		case lab.StaysUnsold:
			unsold = t.explain()
			continue
		default:
			return t.explain(), nil
		}
		for _, m := range t.moves() {
			a.next = append(a.next, candidate{c.scene, append(slices.Clone(c.moves), m)})
		}
	}
	// Switches come before faults.
	slices.SortStableFunc(a.next, func(a, b candidate) int { return faultsOf(a.moves) - faultsOf(b.moves) })
	return unsold, nil
}

// more returns the time that a search has beside its own: for what the program has spent, and on a machine that is too
// slow.
func (s *search) more() time.Duration {
	more := min(s.spent, 2*s.Search)
	if s.tried < fewTried {
		more += 2 * s.Search
	}
	return more
}

func faultsOf(moves []move) (n int) {
	for _, m := range moves {
		if m.fault != "" {
			n++
		}
	}
	return n
}

// again runs the schedule once more, with twice the time. It returns that run and its verdict, or t and "" if the
// machine's own timing may have caused it. A program may know which of its tries this is: of four tries, two faults of
// one kind are enough. To take too long on a busy machine is none.
func (s *search) again(ctx context.Context, t *trial) (*trial, string) {
	kinds := []string{t.verdict()}
	for len(kinds) < 4 {
		next, err := s.try(ctx, t.scene, t.schedule, 2*s.Trial)
		if err != nil {
			break
		}
		kind := next.verdict()
		if kind != "" && slices.Contains(kinds, kind) {
			return next, kind
		}
		if kinds = append(kinds, kind); t.verdict() == lab.Failed {
			break
		}
	}
	return t, ""
}

func (s *search) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := s.ns.PoolConfig(s.stores, 1)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg.ConnConfig)
}

func (s *search) close(ctx context.Context) error {
	for _, c := range append(slices.Clone(s.conns), s.see) {
		if c != nil {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}
	return s.ns.Close(ctx)
}

// reset makes the stores as they are before the first click. The connections come first: one that a schedule has left
// in a transaction has locks.
func (s *search) reset(ctx context.Context, stock int) (err error) {
	for i := range s.conns {
		if s.conns[i], err = clean(ctx, s.conns[i], s.connect); err != nil {
			return err
		}
	}
	look := func(ctx context.Context) (*pgx.Conn, error) { return lab.OpenEye(ctx, s.stores.DatabaseURL) }
	if s.see, err = clean(ctx, s.see, look); err != nil {
		return err
	}
	if _, err = s.see.Exec(ctx, `set lock_timeout = 5`); err != nil {
		return err
	}
	s.server.SetError("")
	s.server.FlushAll()
	return s.ns.Restart(ctx, stock, s.plan.Before)
}

// clean returns a connection without a transaction, locks or settings: c, or a new one in its place.
func clean(ctx context.Context, c *pgx.Conn, connect func(context.Context) (*pgx.Conn, error)) (*pgx.Conn, error) {
	if c != nil && !c.IsClosed() {
		if _, err := c.PgConn().Exec(ctx, `discard all`).ReadAll(); err == nil {
			return c, nil
		}
		_ = c.Close(ctx)
	}
	return connect(ctx)
}

// numberBuyers draws the numbers that the program's buyers have in the next schedule, see the other one: what a program
// knows of a buyer who has not come is nothing. What is left by a division stays as it is for the buyers 1, 2 and 3.
func (s *search) numberBuyers() {
	s.numbers, s.foreign = nil, false
	var plain []string
	for buyer := range int64(3) {
		number := 60*(2000+rand.Int64N(14000)) + buyer + 1
		s.numbers = append(s.numbers, number)
		plain = append(plain, strconv.FormatInt(number, 10), strconv.FormatInt(buyer+1, 10))
	}
	s.plain = strings.NewReplacer(plain...)
}

// forNobody reports whether one of the orders belongs to none of the buyers.
func (s *search) forNobody(orders string) bool {
	if orders == unreadable {
		return false
	}
	return slices.ContainsFunc(strings.Fields(orders), func(owner string) bool {
		number, err := strconv.ParseInt(owner, 10, 64)
		return err != nil || !slices.Contains(s.numbers, number)
	})
}

// state reads what all can see. A table that is locked or gone reads as "?". An error comes from the connection.
func (s *search) state(ctx context.Context) (lab.RowState, error) {
	state := lab.RowState{Stock: unreadable, Orders: unreadable, Units: "", Keys: map[string]string{}}
	results, err := s.see.PgConn().Exec(ctx, fmt.Sprintf(`
		begin read only; -- it may meet a function of the program
		select coalesce((select string_agg(stock::text, ' ') from (select stock from only %[1]s.item limit %[2]d) i), ''),
		       coalesce((select string_agg(user_id::text, ' ' order by id) from (select id, user_id from only %[1]s.orders order by id limit %[2]d) o), ''),
		       coalesce((select string_agg(coalesce(owner::text, '-'), ' ' order by id) from (select id, owner from only %[1]s.units order by id limit %[2]d) u), '');
		commit`, s.ns.Schema, maxRows)).ReadAll()
	if err != nil {
		_, _ = s.see.Exec(ctx, `rollback`)
	} else {
		row := results[1].Rows[0]
		state.Stock, state.Orders, state.Units = string(row[0]), string(row[1]), string(row[2])
	}
	if pg := new(pgconn.PgError); errors.As(err, &pg) && slices.Contains([]string{"42P01", "42703", "55P03"}, pg.Code) {
		err = nil
	}
	s.foreign = s.foreign || s.forNobody(state.Orders)
	state.Orders, state.Units = s.plain.Replace(state.Orders), s.plain.Replace(state.Units)
	prefix := s.ns.Key("")
	for i, key := range s.server.Keys() {
		if i == maxKeys {
			break
		}
		state.Keys[s.plain.Replace(strings.TrimPrefix(key, prefix))] = s.plain.Replace(lab.OneLine(s.valueOf(key)))
	}
	return state, err
}

const unreadable = "?" // in a RowState

// Bounds of a RowState.
const (
	maxRows = 200 // of each table
	maxKeys = 8   // in Redis
)

func (s *search) valueOf(key string) string {
	switch s.server.Type(key) {
	case "string":
		v, _ := s.server.Get(key)
		return v
	case "list":
		v, _ := s.server.List(key)
		return strings.Join(v, " ")
	case "set":
		v, _ := s.server.SMembers(key)
		return strings.Join(v, " ")
	case "zset":
		v, _ := s.server.ZMembers(key)
		return strings.Join(v, " ")
	case "hash":
		fields, _ := s.server.HKeys(key)
		for i, f := range fields {
			fields[i] = f + "=" + s.server.HGet(key, f)
		}
		return strings.Join(fields, " ")
	}
	return s.server.Type(key)
}

// expiry returns the time in which all keys with a life expire; 0 if there are none.
func (s *search) expiry() (longest time.Duration) {
	for _, key := range s.server.Keys() {
		longest = max(longest, s.server.TTL(key))
	}
	return longest
}
