package seckill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
)

//go:embed scripts/reserve.lua
var reserveSource string

//go:embed scripts/settle.lua
var settleSource string

//go:embed scripts/install.lua
var installSource string

//go:embed scripts/fix.lua
var fixSource string

//go:embed scripts/path.lua
var pathSource string

//go:embed scripts/retire.lua
var retireSource string

var (
	reserveScript = redis.NewScript(reserveSource)
	settleScript  = redis.NewScript(settleSource)
	installScript = redis.NewScript(installSource)
	fixScript     = redis.NewScript(fixSource)
	pathScript    = redis.NewScript(pathSource)
	retireScript  = redis.NewScript(retireSource)
)

const (
	group      = "settle" // the consumer group of every journal
	tellAtOnce = 500      // results in one call
)

var errNoGate = errors.New("seckill: the sale has no gate")

// gate is a sale's state in Redis: it thins the crowd and remembers tickets. It decides nothing: what it holds is
// rebuilt from Postgres whenever it is missing.
type gate struct {
	rdb      redis.UniversalClient
	consumer string // this process's name in the journals
}

// asked is a user who wants a place. The nonce tells a retried call from a second click.
type asked struct {
	user  int64
	nonce string
}

// answer is the gate's word to one user: exactly one of ticket, has and err is set.
type answer struct {
	ticket string // a new place
	has    string // what he has already: Q<ticket>, O<order id>, Xinvalid
	err    error
}

// reserve asks for a place for each of many users in one call. An error means that nothing is known: some may hold a
// ticket; the same call again finds them.
func (g gate) reserve(ctx context.Context, sale int64, crowd []asked) ([]answer, error) {
	args := make([]any, 1, 1+2*len(crowd))
	args[0] = g.consumer
	for _, a := range crowd {
		args = append(args, a.user, a.nonce)
	}
	keys := []string{gateKey(sale), ticketsKey(sale), journalKey(sale), pathsKey(sale)}
	replies, err := reserveScript.Run(ctx, g.rdb, keys, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("reserve %d places in sale %d: %w", len(crowd), sale, err)
	}
	if len(replies) != len(crowd) {
		return nil, fmt.Errorf("reserve in sale %d: %d replies for %d users", sale, len(replies), len(crowd))
	}
	answers := make([]answer, len(replies))
	for i, r := range replies {
		word, rest, _ := strings.Cut(r, " ")
		switch word {
		case "NEW":
			answers[i].ticket = rest
		case "HAS":
			answers[i].has = rest
		default:
			answers[i].err = refusal(word, rest)
		}
	}
	return answers, nil
}

// refusal turns a script's word into an error: a refusal with a name, or a fault for a word it doesn't know.
func refusal(word, rest string) error {
	switch word {
	case "NOGATE":
		return errNoGate
	case "CLOSED", "ENDED":
		return goods.ErrEnded
	case "PAUSED":
		return goods.ErrPaused
	case "SOLDOUT":
		return goods.ErrSoldOut
	case "BUSY":
		return ErrBusy
	case "EARLY":
		if ms, err := strconv.ParseInt(rest, 10, 64); err == nil {
			return goods.NotStartedError{In: time.Duration(ms) * time.Millisecond}
		}
	case "FULL":
		if ms, err := strconv.ParseInt(rest, 10, 64); err == nil {
			return TooManyError{RetryAfter: min(time.Duration(ms)*time.Millisecond, 5*time.Second)}
		}
	}
	return fmt.Errorf("a gate script answered %q %q", word, rest)
}

// settle takes tickets out of the journal once Postgres has committed what became of them.
func (g gate) settle(ctx context.Context, sale int64, results []order.Result) error {
	keys := []string{gateKey(sale), ticketsKey(sale), journalKey(sale)}
	for some := range slices.Chunk(results, tellAtOnce) { // meanwhile Redis serves nobody else
		args := make([]any, 0, 4*len(some))
		for _, r := range some {
			if e, ok := entryOf(r.Ticket); ok {
				args = append(args, e, r.UserID, r.Ticket, remembered(r))
			}
		}
		if len(args) == 0 {
			continue
		}
		if err := settleScript.Run(ctx, g.rdb, keys, args...).Err(); err != nil {
			return fmt.Errorf("settle %d tickets of sale %d at the gate: %w", len(results), sale, err)
		}
	}
	return nil
}

// remembered is how the tickets hash keeps a result.
func remembered(r order.Result) string {
	if r.OrderID != uuid.Nil {
		return "O" + r.OrderID.String()
	}
	return "X" + r.Outcome
}

// install sets a gate up; false if the one there is as new. errNoGate if Redis has lost what was laid for it.
func (g gate) install(ctx context.Context, l goods.Locked, epoch int64, qmax int) (bool, error) {
	keys := []string{gateKey(l.ID), ticketsKey(l.ID), journalKey(l.ID)}
	n, err := installScript.Run(ctx, g.rdb, keys,
		epoch, l.State, l.StartsAt.UnixMilli(), l.EndsAt.UnixMilli(), l.Stock, qmax).Int()
	if err != nil {
		return false, fmt.Errorf("install the gate of sale %d: %w", l.ID, err)
	}
	if n < 0 {
		return false, fmt.Errorf("install the gate of sale %d: its users are lost: %w", l.ID, errNoGate)
	}
	return n == 1, nil
}

// Reading is a gate as one look finds it.
type Reading struct {
	Epoch   string // "" where there is no gate
	Ops     string // grows with every settle
	Stock   int    // units the gate would still give a place for
	Waiting int    // tickets in the journal
}

// ReadGates looks at the gates of many sales in one pipeline. One whose keys are not what they should be is left out: it
// must not keep the others from being looked at.
func ReadGates(ctx context.Context, rdb redis.UniversalClient, sales []int64) (map[int64]Reading, error) {
	pipe := rdb.Pipeline()
	gates, lens := make([]*redis.SliceCmd, len(sales)), make([]*redis.IntCmd, len(sales))
	for i, s := range sales {
		gates[i], lens[i] = pipe.HMGet(ctx, gateKey(s), "epoch", "ops", "stock"), pipe.XLen(ctx, journalKey(s))
	}
	if _, err := pipe.Exec(ctx); err != nil && !isWrongType(err) {
		return nil, fmt.Errorf("read %d gates: %w", len(sales), err)
	}
	read := make(map[int64]Reading, len(sales))
	for i, s := range sales {
		if gates[i].Err() != nil || lens[i].Err() != nil {
			continue
		}
		r := Reading{Waiting: int(lens[i].Val())}
		v := gates[i].Val()
		epoch, _ := v[0].(string)
		ops, _ := v[1].(string)
		stock, _ := v[2].(string)
		if n, err := strconv.Atoi(stock); err == nil && epoch != "" {
			r.Epoch, r.Ops, r.Stock = epoch, ops, n
		}
		read[s] = r
	}
	return read, nil
}

// isWrongType tells that a key is not of the type it should be: somebody else has written there.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// fix holds a gate, as read before, against the durable stock read after it. It gives by how much it moved it; not ok if the
// gate has moved by itself since.
func (g gate) fix(ctx context.Context, sale int64, was Reading, durable int) (drift int, ok bool, err error) {
	got, err := fixScript.Run(ctx, g.rdb, []string{gateKey(sale), journalKey(sale)}, was.Epoch, was.Ops, durable).Int64Slice()
	if err != nil || len(got) != 2 {
		return 0, false, fmt.Errorf("fix the gate of sale %d: %v %w", sale, got, err)
	}
	return int(got[1]), got[0] == 1, nil
}

// path asks the big gate for an address. Errors: the refusals, TooManyError, errNoGate, or a fault.
func (g gate) path(ctx context.Context, sale, user int64, life time.Duration, factor int) (expiry time.Time, err error) {
	keys := []string{gateKey(sale), ticketsKey(sale), pathsKey(sale)}
	got, err := pathScript.Run(ctx, g.rdb, keys, user, life.Milliseconds(), factor).Slice()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for an address in sale %d: %w", sale, err)
	}
	if len(got) == 2 {
		word, _ := got[0].(string)
		number, _ := got[1].(int64)
		if word == "OK" {
			return time.UnixMilli(number), nil
		}
		return time.Time{}, refusal(word, strconv.FormatInt(number, 10))
	}
	return time.Time{}, fmt.Errorf("ask for an address in sale %d: the script answered %v", sale, got)
}

// found makes the tickets hash exist, so that settle writes to it from now on; fresh if it did not.
func (g gate) found(ctx context.Context, sale int64) (fresh bool, err error) {
	if fresh, err = g.rdb.HSetNX(ctx, ticketsKey(sale), "0", "X").Result(); err != nil {
		return false, fmt.Errorf("found the tickets of sale %d: %w", sale, err)
	}
	return fresh, nil
}

// lay remembers users who have orders. Nothing is newer than an order.
func (g gate) lay(ctx context.Context, sale int64, owners []order.Owner) error {
	for chunk := range slices.Chunk(owners, layChunk) {
		pairs := make([]any, 0, 2*len(chunk))
		for _, o := range chunk {
			pairs = append(pairs, o.UserID, "O"+o.OrderID.String())
		}
		if err := g.rdb.HSet(ctx, ticketsKey(sale), pairs...).Err(); err != nil {
			return fmt.Errorf("lay %d owners of sale %d: %w", len(owners), sale, err)
		}
	}
	return nil
}

// ticketsOf reads what the gate remembers of users, "" where it remembers nothing, and how many tickets wait.
func (g gate) ticketsOf(ctx context.Context, sale int64, users []int64) (values []string, waiting int, err error) {
	fields := make([]string, len(users))
	for i, u := range users {
		fields[i] = strconv.FormatInt(u, 10)
	}
	pipe := g.rdb.Pipeline()
	tickets, journal := pipe.HMGet(ctx, ticketsKey(sale), fields...), pipe.XLen(ctx, journalKey(sale))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, fmt.Errorf("read the tickets of %d users in sale %d: %w", len(users), sale, err)
	}
	values = make([]string, len(users))
	for i, v := range tickets.Val() {
		values[i], _ = v.(string)
	}
	return values, int(journal.Val()), nil
}

// retire forgets the consumers of a journal that have been silent for so long and have nothing pending.
func (g gate) retire(ctx context.Context, sale int64, silent time.Duration) error {
	err := retireScript.Run(ctx, g.rdb, []string{journalKey(sale)}, silent.Milliseconds()).Err()
	if err != nil && !noGroup(err) {
		return fmt.Errorf("retire consumers of sale %d: %w", sale, err)
	}
	return nil
}

// entryOf gives the journal entry in a ticket epoch:entry:nonce; false for one that never was in a journal.
func entryOf(ticket string) (string, bool) {
	if parts := strings.Split(ticket, ":"); len(parts) == 3 {
		return parts[1], true
	}
	return "", false
}
