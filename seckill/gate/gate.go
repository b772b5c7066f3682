// Package gate makes all calls to Redis for a sale. A sale's gate admits only as many buyers as there are units, and
// remembers their tickets. Its journal holds the tickets that are granted and not yet settled. The gate never decides
// who owns a unit: it is rebuilt from Postgres whenever it is missing.
//
// Each step that must be atomic is one Lua script, with a contract in its first lines, that is safe to run twice. Every
// method has a circuit breaker and a time limit inside, so a caller cannot forget them.
package gate

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
)

//go:embed scripts/reserve.lua
var reserveSource string

//go:embed scripts/ack.lua
var ackSource string

//go:embed scripts/install.lua
var installSource string

//go:embed scripts/fix.lua
var fixSource string

//go:embed scripts/path.lua
var addressSource string

//go:embed scripts/seed.lua
var seedSource string

//go:embed scripts/beat.lua
var beatSource string

//go:embed scripts/takeover.lua
var takeoverSource string

//go:embed scripts/published.lua
var publishedSource string

//go:embed scripts/draw.lua
var drawSource string

//go:embed scripts/take.lua
var takeSource string

var (
	reserveScript   = redis.NewScript(reserveSource)
	ackScript       = redis.NewScript(ackSource)
	installScript   = redis.NewScript(installSource)
	fixScript       = redis.NewScript(fixSource)
	addressScript   = redis.NewScript(addressSource)
	beatScript      = redis.NewScript(beatSource)
	takeoverScript  = redis.NewScript(takeoverSource)
	seedScript      = redis.NewScript(seedSource)
	drawScript      = redis.NewScript(drawSource)
	takeScript      = redis.NewScript(takeSource)
	publishedScript = redis.NewScript(publishedSource)
)

const (
	usersOnce = 1000 // in one call of AddOwners or Users, during which Redis serves no other

	// waitingMost is the most users whom one big gate remembers as waiting, and the most whose wasted addresses it
	// counts.
	waitingMost = 10_000

	// SeedingFor is how long a process that dies keeps others from seeding.
	SeedingFor = 2 * time.Second
)

// Gate calls Redis for one process. Its methods may be used by any number of goroutines.
type Gate struct {
	rdb     redis.UniversalClient
	process string // this process's name in the journals
	breaker *breaker
	probes  bool // see Background
}

// New returns the view of the gates for buyers' requests. process is this process's name in the journals. probeEvery is
// the time between two rounds of background work.
func New(rdb redis.UniversalClient, process string, probeEvery time.Duration) *Gate {
	return &Gate{rdb: rdb, process: process, breaker: newBreaker(probeEvery)}
}

// Background returns the view for background work: its calls probe a Redis that was down, behind the same breaker.
func (g *Gate) Background() *Gate {
	background := *g
	background.probes = true
	return &background
}

// Request is one user's request for a ticket. A repeated call has the same Nonce, a UUID; a second click has another.
type Request struct {
	UserID int64
	Nonce  string
}

// Reply is the gate's answer to one Request: exactly one of Ticket, Existing and Err is set. Err is a refusal:
// ErrNoGate, ErrBusy (the journal is full, or no process settles it), goods.ErrEnded, goods.ErrPaused,
// goods.ErrSoldOut, goods.NotStartedError.
type Reply struct {
	Ticket   string  // a new ticket, written to the journal
	Existing *Status // what the user has already
	Err      error
	Users    int // with goods.ErrSoldOut: how many users the gate remembers
}

// Reserve asks for tickets for many users in one call. If no reply comes, it tries once more within the same time
// limit. After an error some users may have a ticket; the same requests, sent again, find them.
func (g *Gate) Reserve(ctx context.Context, sale int64, requests []Request) ([]Reply, error) {
	return guarded(ctx, g, ReserveLimit, func(ctx context.Context) ([]Reply, error) {
		first, cancel := context.WithTimeout(ctx, ReserveLimit/2)
		defer cancel()
		replies, err := g.reserve(first, sale, requests)
		if isTimeout(err) {
			replies, err = g.reserve(ctx, sale, requests)
		}
		return replies, err
	})
}

func (g *Gate) reserve(ctx context.Context, sale int64, requests []Request) ([]Reply, error) {
	args := make([]any, 1, 1+2*len(requests))
	args[0] = g.process
	for _, r := range requests {
		args = append(args, r.UserID, r.Nonce)
	}
	keys := []string{GateKey(sale), TicketsKey(sale), JournalKey(sale), AddressesKey(sale)}
	lines, err := reserveScript.Run(ctx, g.rdb, keys, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("reserve %d tickets in sale %d: %w", len(requests), sale, err)
	}
	if len(lines) != len(requests) {
		return nil, fmt.Errorf("reserve in sale %d: %d replies for %d users", sale, len(lines), len(requests))
	}
	replies := make([]Reply, len(lines))
	for i, line := range lines {
		verdict, rest, _ := strings.Cut(line, " ")
		switch verdict {
		case "NEW":
			replies[i].Ticket = rest
		case "HAS":
			existing := decode(rest)
			replies[i].Existing = &existing
		default:
			if replies[i].Err = refusal(verdict, rest); verdict == "SOLDOUT" {
				replies[i].Users, _ = strconv.Atoi(rest)
			}
		}
	}
	return replies, nil
}

// Address asks the big gate for a hidden address with the lifetime life. The big gate admits at most factor live
// addresses per unit left. A user with a live address receives its expiry. wasted is the number of addresses that were
// found to have run out unused, also where the answer is a refusal. Errors: the refusals of Reserve, TooManyError, or a
// fault.
func (g *Gate) Address(
	ctx context.Context, sale, user int64, life time.Duration, factor int,
) (expiry time.Time, wasted int, err error) {
	return g.address(ctx, sale, user, life, factor, waitingMost)
}

func (g *Gate) address(
	ctx context.Context, sale, user int64, life time.Duration, factor, most int,
) (expiry time.Time, wasted int, err error) {
	keys := []string{GateKey(sale), TicketsKey(sale), AddressesKey(sale), WaitingKey(sale), waitingUntilKey(sale),
		WastedKey(sale), RefusingKey(sale)}
	reply, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]any, error) {
		return addressScript.Run(ctx, g.rdb, keys, user, life.Milliseconds(), factor, most).Slice()
	})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("ask for an address in sale %d: %w", sale, err)
	}
	if len(reply) != 3 {
		return time.Time{}, 0, fmt.Errorf("ask for an address in sale %d: the script returned %v", sale, reply)
	}
	verdict, _ := reply[0].(string)
	number, _ := reply[1].(int64)
	found, _ := reply[2].(int64)
	if verdict != "OK" {
		return time.Time{}, int(found), refusal(verdict, strconv.FormatInt(number, 10))
	}
	return time.UnixMilli(number), int(found), nil
}

// Refusing says that a big gate refuses buyers while units are left, and has granted no ticket meanwhile.
type Refusing struct {
	For  time.Duration // since the first of these refusals; the last one is not older than Life
	Life time.Duration // of an address
}

// Refusals reads which big gates refuse buyers while units are left, in one pipeline and without a breaker, for the
// audit.
func Refusals(ctx context.Context, rdb redis.UniversalClient, sales []int64) (map[int64]Refusing, error) {
	pipe := rdb.Pipeline()
	now := pipe.Time(ctx)
	gates, rows := make([]*redis.SliceCmd, len(sales)), make([]*redis.SliceCmd, len(sales))
	for i, s := range sales {
		gates[i] = pipe.HMGet(ctx, GateKey(s), "stock", "ops")
		rows[i] = pipe.HMGet(ctx, RefusingKey(s), "stock", "ops", "since", "life")
	}
	if _, err := pipe.Exec(ctx); err != nil && !isWrongType(err) || now.Err() != nil {
		return nil, fmt.Errorf("read the refusals of %d gates: %w", len(sales), cmp.Or(now.Err(), err))
	}
	refusing := map[int64]Refusing{}
	for i, s := range sales {
		at, wholeGate := wholeNumbers(gates[i].Val())
		was, whole := wholeNumbers(rows[i].Val())
		if gates[i].Err() == nil && rows[i].Err() == nil && wholeGate && whole && at[0] > 0 && at[0] >= was[0] &&
			at[1] == was[1] {
			refusing[s] = Refusing{now.Val().Sub(time.UnixMilli(was[2])), time.Duration(was[3]) * time.Millisecond}
		}
	}
	return refusing, nil
}

// wholeNumbers returns the fields of a hash, and reports whether all of them are whole numbers. One that is not is 0.
func wholeNumbers(fields []any) (numbers []int64, whole bool) {
	whole = true
	for _, v := range fields {
		text, _ := v.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		numbers, whole = append(numbers, n), whole && err == nil
	}
	return numbers, whole
}

// State is the state of a gate in Redis.
type State struct {
	Epoch    int64 // 0 where there is no gate
	Ops      int64 // grows with every Ack and Install
	Stock    int   // units for which the gate would still grant a ticket
	InFlight int   // tickets in the journal
	Entries  int   // entries of the journal
	Known    int64 // bypasses of the sale whose buyers it knows
	Seeded   int64 // grows when all owners are written into it
}

// States reads many gates.
func (g *Gate) States(ctx context.Context, sales []int64) (map[int64]State, error) {
	return guarded(ctx, g, callLimit, func(ctx context.Context) (map[int64]State, error) {
		return States(ctx, g.rdb, sales)
	})
}

// States reads many gates in one pipeline, without a breaker, for the audit. It leaves out a gate whose keys have the
// wrong type, so that the others are still read.
func States(ctx context.Context, rdb redis.UniversalClient, sales []int64) (map[int64]State, error) {
	return states(ctx, rdb, sales, func(int64) bool { return true })
}

// Read is States with one command for each gate, and one more where journal says so. The entries of the other journals
// are not counted: State has a number that is not too small, and none where the gate counts no ticket.
func (g *Gate) Read(ctx context.Context, sales []int64, journal func(sale int64) bool) (map[int64]State, error) {
	return guarded(ctx, g, callLimit, func(ctx context.Context) (map[int64]State, error) {
		return states(ctx, g.rdb, sales, journal)
	})
}

func states(
	ctx context.Context, rdb redis.UniversalClient, sales []int64, journal func(sale int64) bool,
) (map[int64]State, error) {
	pipe, asked := rdb.Pipeline(), make([]stateQuery, len(sales))
	for i, s := range sales {
		asked[i] = askState(ctx, pipe, s, journal(s))
	}
	if _, err := pipe.Exec(ctx); err != nil && !isWrongType(err) {
		return nil, fmt.Errorf("read %d gates: %w", len(sales), err)
	}
	all := make(map[int64]State, len(sales))
	for i, s := range sales {
		if state, err := asked[i].state(); err == nil {
			all[s] = state
		}
	}
	return all, nil
}

// stateQuery is the question for a gate's state in a pipeline.
type stateQuery struct {
	gate    *redis.SliceCmd
	entries *redis.IntCmd // nil: not asked
}

func askState(ctx context.Context, pipe redis.Pipeliner, sale int64, journal bool) stateQuery {
	q := stateQuery{gate: pipe.HMGet(ctx, GateKey(sale), "epoch", "ops", "stock", "in_flight", "known", "seeded")}
	if journal {
		q.entries = pipe.XLen(ctx, JournalKey(sale))
	}
	return q
}

// state returns the reply. A gate that lacks one of its numbers does not count as one. An empty journal has no ticket,
// whatever the gate says.
func (q stateQuery) state() (s State, err error) {
	fields, err := q.gate.Result()
	if err != nil {
		return State{}, err
	}
	numbers, whole := wholeNumbers(fields[:4])
	since, _ := wholeNumbers(fields[4:])
	if whole {
		s.Epoch, s.Ops, s.Stock, s.Known, s.Seeded = numbers[0], numbers[1], int(numbers[2]), since[0], since[1]
	}
	s.Entries = int(numbers[3]) // at most: each has a ticket
	if q.entries != nil {
		if err := q.entries.Err(); err != nil {
			return State{}, err
		}
		s.Entries = int(q.entries.Val())
	}
	if s.Entries > 0 {
		s.InFlight = int(numbers[3])
	}
	return s, nil
}

// CountJournal returns the number of tickets in a journal, as its gate counts them and as its entries say, both at one
// moment. They are the same where there is no gate. A journal of more than 2,000 entries is not compared, because Redis
// serves no other meanwhile. It is for the audit and has no breaker.
func CountJournal(ctx context.Context, rdb redis.UniversalClient, sale int64) (counted, has int, err error) {
	var count *redis.StringCmd
	var journal *redis.XMessageSliceCmd
	_, err = rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		count, journal = pipe.HGet(ctx, GateKey(sale), "in_flight"), pipe.XRangeN(ctx, JournalKey(sale), "-",
			"+", readOnce+1)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, 0, fmt.Errorf("count the tickets in the journal of sale %d: %w", sale, err)
	}
	for _, entry := range journal.Val() {
		text, _ := entry.Values["n"].(string)
		n, _ := strconv.Atoi(text)
		has += n
	}
	if counted, err = count.Int(); err != nil || len(journal.Val()) == 0 || len(journal.Val()) > readOnce {
		counted = has
	}
	return counted, has, nil
}

// Install sets a gate up from the sale's locked row. It returns false if the existing gate's epoch is the same or
// newer, and ErrNoGate if Redis has lost the hash that CreateTickets created. seeded says that all owners have just
// been added.
func (g *Gate) Install(
	ctx context.Context, sale goods.Locked, epoch int64, qmax int, seeded bool,
) (installed bool, err error) {
	keys := []string{GateKey(sale.ID), TicketsKey(sale.ID), JournalKey(sale.ID), TakeoversKey(sale.ID)}
	n, err := guarded(ctx, g, callLimit, func(ctx context.Context) (int, error) {
		return installScript.Run(ctx, g.rdb, keys, epoch, sale.State, sale.StartsAt.UnixMilli(),
			sale.EndsAt.UnixMilli(),
			sale.Stock, qmax, seeded).Int()
	})
	if err != nil {
		return false, fmt.Errorf("install the gate of sale %d: %w", sale.ID, err)
	}
	if n < 0 {
		return false, fmt.Errorf("install the gate of sale %d: its users are lost: %w", sale.ID, ErrNoGate)
	}
	return n == 1, nil
}

// Fix corrects the gate's stock. was is the gate's state; durable is sales.stock, read after was. Fix returns the
// change of the stock, and false if the gate has changed since the first read.
func (g *Gate) Fix(ctx context.Context, sale int64, was State, durable int) (drift int, fixed bool, err error) {
	keys := []string{GateKey(sale), JournalKey(sale)}
	reply, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]int64, error) {
		return fixScript.Run(ctx, g.rdb, keys, was.Epoch, was.Ops, durable).Int64Slice()
	})
	if err != nil || len(reply) != 2 {
		return 0, false, fmt.Errorf("fix the gate of sale %d: %v %w", sale, reply, err)
	}
	return int(reply[1]), reply[0] == 1, nil
}

// CreateTickets creates the tickets hash if it is missing, so that Ack writes to it from now on. It reports whether it
// did.
func (g *Gate) CreateTickets(ctx context.Context, sale int64) (created bool, err error) {
	created, err = guarded(ctx, g, callLimit, func(ctx context.Context) (bool, error) {
		return g.rdb.HSetNX(ctx, TicketsKey(sale), "0", "X").Result()
	})
	if err != nil {
		return false, fmt.Errorf("create the tickets of sale %d: %w", sale, err)
	}
	return created, nil
}

// Knows is what a gate knows once the last owners are added; a number that is 0 is not noted.
type Knows struct {
	Bypasses int64 // the buyers of this many
	Seeded   int64 // all owners from before this epoch was drawn
	Ops      int64 // that the gate has had at least, with one for each call with an Ops since; 0 for no bound
}

// AddOwners stores the orders of users, over any ticket: nothing is newer than an order. Then the gate knows the rest,
// which comes with the last of them. ErrWentBack if Redis has gone back since knows.Ops.
func (g *Gate) AddOwners(ctx context.Context, sale int64, owners []order.Owner, knows Knows) error {
	kept := 0
	err := g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe, seeds := g.rdb.Pipeline(), []*redis.Cmd(nil)
		for ; len(owners) > usersOnce; owners = owners[usersOnce:] {
			keys, args := seedArgs(sale, owners[:usersOnce], Knows{})
			// by its text: in a pipeline, an unknown name is not tried again
			seeds = append(seeds, seedScript.Eval(ctx, pipe, keys, args...))
		}
		if len(seeds) > 0 {
			if _, err := pipe.Exec(ctx); err != nil {
				return fmt.Errorf("add %d owners of sale %d: %w", len(seeds)*usersOnce, sale, err)
			}
		}
		keys, args := seedArgs(sale, owners, knows)
		var err error
		if kept, err = seedScript.Run(ctx, g.rdb, keys, args...).Int(); err != nil {
			return fmt.Errorf("add %d owners of sale %d: %w", len(owners), sale, err)
		}
		return nil
	})
	if err == nil && kept == 0 { // no fault of this Redis
		err = fmt.Errorf("add %d owners of sale %d: %w", len(owners), sale, ErrWentBack)
	}
	return err
}

// BeginSeeding takes the right to seed the owners of a sale, for SeedingFor. It only saves work: two that seed do no
// harm.
func (g *Gate) BeginSeeding(ctx context.Context, sale int64) (begun bool, err error) {
	return guarded(ctx, g, callLimit, func(ctx context.Context) (bool, error) {
		return g.rdb.SetNX(ctx, seedingKey(sale), g.process, SeedingFor).Result()
	})
}

// KeepSeeding makes the right last for SeedingFor from now on.
func (g *Gate) KeepSeeding(ctx context.Context, sale int64) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return g.rdb.PExpire(ctx, seedingKey(sale), SeedingFor).Err()
	})
}

// EndSeeding returns the right. If it ran out, it may be that of another process, and two seed.
func (g *Gate) EndSeeding(ctx context.Context, sale int64) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error { return g.rdb.Del(ctx, seedingKey(sale)).Err() })
}

// RepairTickets stores the orders of buyers whose requests wait, over any ticket, in one pipeline for all sales. owners
// has them by sale, at most 1000 in each.
func (g *Gate) RepairTickets(ctx context.Context, owners map[int64][]order.Owner) error {
	var errs error
	err := g.call(ctx, ReserveLimit, func(ctx context.Context) error {
		pipe, seeds := g.rdb.Pipeline(), make(map[int64]*redis.Cmd, len(owners))
		for _, sale := range slices.Sorted(maps.Keys(owners)) {
			keys, args := seedArgs(sale, owners[sale], Knows{})
			// by its text: in a pipeline, an unknown name is not tried again
			seeds[sale] = seedScript.Eval(ctx, pipe, keys, args...)
		}
		pipe.Exec(ctx)
		var replies manyReplies
		for sale, seed := range seeds {
			err := exceptNil(seed.Err())
			if replies.add(err); err != nil {
				errs = errors.Join(errs, fmt.Errorf("repair %d tickets of sale %d: %w", len(owners[sale]), sale, err))
			}
		}
		return replies.fault()
	})
	return cmp.Or(errs, err)
}

func seedArgs(sale int64, owners []order.Owner, knows Knows) (keys []string, args []any) {
	args = make([]any, 0, 3+2*len(owners))
	args = append(args, knows.Bypasses, knows.Seeded, knows.Ops)
	for _, o := range owners {
		args = append(args, o.UserID, encode(order.Result{OrderID: o.OrderID}))
	}
	return []string{GateKey(sale), TicketsKey(sale)}, args
}

// Users returns the users that the gate remembers. If some are added meanwhile, it may miss them.
func (g *Gate) Users(ctx context.Context, sale int64) (map[int64]struct{}, error) {
	users := map[int64]struct{}{}
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		err := g.call(ctx, callLimit, func(ctx context.Context) (err error) {
			var page []string // each field, and then its value
			if page, cursor, err = g.rdb.HScan(ctx, TicketsKey(sale), cursor, "", usersOnce).Result(); err != nil {
				return err
			}
			for i := 0; i < len(page); i += 2 {
				user, err := strconv.ParseInt(page[i], 10, 64)
				if err != nil {
					return err
				}
				users[user] = struct{}{}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the users of sale %d: %w", sale, err)
		}
	}
	return users, nil
}

// Remembered is what a gate remembers of a buyer.
type Remembered struct {
	Status
	Err error // the gate could not be read
}

// Tickets returns what the gates remember of buyers, in their order. It reads all gates in one pipeline, with one
// command for each. A gate that cannot be read is an error of its buyers alone.
func (g *Gate) Tickets(ctx context.Context, buyers []order.Buyer) []Remembered {
	users, sales := map[int64][]string{}, []int64(nil)
	for _, b := range buyers {
		if users[b.SaleID] == nil {
			sales = append(sales, b.SaleID)
		}
		users[b.SaleID] = append(users[b.SaleID], strconv.FormatInt(b.UserID, 10))
	}
	tickets := make(map[int64]*redis.SliceCmd, len(sales))
	err := g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		for _, sale := range sales {
			tickets[sale] = pipe.HMGet(ctx, TicketsKey(sale), users[sale]...)
		}
		pipe.Exec(ctx)
		var replies manyReplies
		for _, read := range tickets {
			replies.add(read.Err())
		}
		return replies.fault()
	})
	all, next := make([]Remembered, len(buyers)), make(map[int64]int, len(sales))
	for i, b := range buyers {
		all[i].State = None
		switch read := tickets[b.SaleID]; {
		case read == nil: // Redis was not called
			all[i].Err = fmt.Errorf("read the tickets of %d users in %d sales: %w", len(buyers), len(sales), err)
		case read.Err() != nil:
			all[i].Err = fmt.Errorf("read the tickets of %d users in sale %d: %w", len(users[b.SaleID]),
				b.SaleID, read.Err())
		default:
			value, _ := read.Val()[next[b.SaleID]].(string)
			all[i].Status = decode(value)
			next[b.SaleID]++
		}
	}
	return all
}
