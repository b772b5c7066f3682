package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// click is one click of a buyer. A load balancer has chosen its node.
type click struct {
	User int64 // from 1
	node int
}

// Clicks returns the crowd of a plan in order of arrival: one click for each buyer. A double click
// has its second click right behind the first, at the next node.
func (p Plan) Clicks() []click {
	rng := rand.New(rand.NewPCG(p.Seed, 0))
	twice := rng.Perm(p.Buyers)[:p.Buyers*p.DoubleClicks/100]
	slices.Sort(twice)
	var all []click
	for i, user := range rng.Perm(p.Buyers) {
		all = append(all, click{int64(user + 1), i})
		if _, double := slices.BinarySearch(twice, user); double {
			all = append(all, click{int64(user + 1), i + 1})
		}
	}
	return all
}

// outcome collects the replies to a crowd.
type outcome struct {
	began time.Time // the first click

	mu         sync.Mutex
	yes        map[int64]bool
	pending    map[int64]int   // clicks without a reply, by buyer
	waits      []time.Duration // of the clicks with a reply
	replies    []reply         // in the order in which they came
	cutOff     map[int64]bool  // the buyers of whose clicks a dead process had one
	unanswered int             // clicks that received no reply
	lastErr    error           // of an unanswered click
	replaceErr error           // why no process came in place of the killed one
}

// reply is the time of a reply and of its click, since the first click.
type reply struct {
	user    int64
	at      time.Duration
	clicked time.Duration
	yes     bool
}

// holds returns who was told yes, for Result.Holds.
func (o *outcome) holds() (holds [][3]float64) {
	ms := func(d time.Duration) float64 { return Round(1000*d.Seconds(), 1) }
	for _, r := range o.replies {
		if r.yes && len(holds) < maxHolds {
			holds = append(holds, [3]float64{float64(r.user), ms(r.clicked), ms(r.at)})
		}
	}
	return holds
}

// selling returns when the last reply came to a buyer whom no process had cut off, and how many replies had come by
// then. Without a kill that is the last reply of all.
func (o *outcome) selling() (until time.Duration, replies int) {
	for i, r := range o.replies {
		if !o.cutOff[r.user] {
			until, replies = r.at, i+1
		}
	}
	if replies == 0 && len(o.replies) > 0 {
		return o.replies[len(o.replies)-1].at, len(o.replies)
	}
	return until, replies
}

const (
	clickInterval = 50 * time.Microsecond // between two buyers: 20,000 a second, more than any strategy serves
	RetryPause    = 5 * time.Millisecond  // from an error to the next try
)

// runCrowd sends all clicks and waits until each has a reply or the time is up.
func (r *run) runCrowd(ctx context.Context, clicks []click) *outcome {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Plan.Seconds)*time.Second)
	defer cancel()
	o := &outcome{yes: map[int64]bool{}, pending: map[int64]int{}, cutOff: map[int64]bool{}}
	var all sync.WaitGroup
	var replacing errgroup.Group
	var watching sync.WaitGroup
	untilEnd, end := context.WithCancel(ctx)
	replacing.Go(func() error { return r.replaceDead(ctx, untilEnd.Done()) })
	r.sql.Store(0)
	r.redis.Store(0)
	if r.counter != nil {
		watching.Go(func() { r.watchSales(untilEnd) })
	}
	o.began = time.Now().Add(time.Duration(len(clicks)) * 5 * time.Microsecond) // when all goroutines are ready
	if r.Plan.Has(RedisPause) {
		r.redisPausedUntil.Store(o.began.Add(RedisPauseTime).UnixNano())
	}
	for _, c := range clicks {
		o.pending[c.User]++
	}
	due := o.began
	for i, c := range clicks {
		if i > 0 && clicks[i-1].User != c.User { // the clicks of a double click come at once
			due = due.Add(clickInterval)
		}
		at := due
		all.Go(func() {
			Pause(ctx, time.Until(at))
			r.press(ctx, c, o)
		})
	}
	all.Wait()
	end()
	watching.Wait()
	r.told.Range(func(user, _ any) bool {
		o.yes[user.(int64)] = true
		return true
	})
	o.replaceErr = replacing.Wait()
	return o
}

// press does one click and records its reply.
func (r *run) press(ctx context.Context, c click, o *outcome) {
	began := time.Now()
	yes, cutOff, err := r.clickUntilAnswered(ctx, c)
	o.mu.Lock()
	defer o.mu.Unlock()
	ended := time.Now()
	o.cutOff[c.User] = o.cutOff[c.User] || cutOff
	if err != nil {
		o.unanswered++
		if o.lastErr == nil || !errors.Is(err, context.DeadlineExceeded) {
			o.lastErr = err
		}
		return
	}
	o.yes[c.User] = o.yes[c.User] || yes
	o.waits = append(o.waits, ended.Sub(began))
	o.replies = append(o.replies, reply{c.User, ended.Sub(o.began), max(0, began.Sub(o.began)), yes})
	if o.pending[c.User]--; o.pending[c.User] == 0 {
		r.answered.Add(1)
	}
}

// clickUntilAnswered clicks until there is a reply. After an error it clicks at the next node. It
// reports whether a node died with the click.
func (r *run) clickUntilAnswered(ctx context.Context, c click) (yes, cutOff bool, err error) {
	for i := c.node; ; i++ {
		n := r.nodes[i%len(r.nodes)].Load()
		yes, now := n.click(ctx, c.User)
		if now == nil {
			return yes, cutOff, nil
		}
		if err == nil || ctx.Err() == nil { // an error before the time is up says more than that it is up
			err = now
		}
		cutOff = cutOff || n.dead.Load()
		if Pause(ctx, RetryPause); ctx.Err() != nil {
			return false, cutOff, err
		}
	}
}

// click sends one click to a node. The node's death ends it.
func (n *Node) click(ctx context.Context, user int64) (yes bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.Ctx, cancel)()
	if err := n.Alive(); err != nil {
		return false, err
	}
	yes, err = n.strategy.Buy(ctx, user)
	n.recorder.step(n.ID, "answer", answerText(yes, err))("")
	if err == nil {
		err = n.Alive() // a node that died meanwhile sends no reply
	}
	if err == nil && yes {
		n.Promise()
	}
	return yes, err
}

func answerText(yes bool, err error) string {
	if err != nil {
		return err.Error()
	}
	if yes {
		return "yes"
	}
	return "no"
}

// EndedTooLate is the error of a run that shows nothing of the end of a sale: on a busy machine the sale may be sold
// out first.
const EndedTooLate = "all units were sold before the sale could be ended: run it again"

// count compares the replies with the orders in Postgres.
func (r *run) count(ctx context.Context, o *outcome) (Result, error) {
	p := r.Plan
	res := Result{Strategy: r.spec.Name, Stock: p.Stock, Buyers: p.Buyers}
	owners, tampered, err := r.owners(ctx)
	if err != nil {
		return res, err
	}
	ordered := make(map[int64]bool, len(owners))
	for _, user := range owners {
		ordered[user] = true
	}
	for user, yes := range o.yes {
		if yes && !ordered[user] {
			res.Lost++
		}
		if !yes && ordered[user] && !r.excused(user, o) {
			res.Denied++
		}
	}
	res.OrderedBy, res.Tampered, res.Unseated = owners, tampered, r.seatless
	res.Sold = len(owners)
	res.Oversold = max(0, res.Sold-p.Stock)
	res.Unsold = max(0, min(p.Stock, p.Buyers)-res.Sold)
	res.Duplicates = res.Sold - len(ordered)
	if p.Closes {
		if res.TakenLate, err = r.soldLate(ctx); err != nil {
			return res, err
		}
		if r.closed.Load() { // what is left then stays
			res.Unsold = 0
		}
	}
	if len(o.replies) > 0 {
		last := o.replies[len(o.replies)-1].at
		until, replies := o.selling()
		res.Seconds, res.Recovery = Round(last.Seconds(), 3), Round((last-until).Seconds(), 3)
		res.PerSecond = Round(float64(replies)/until.Seconds(), 0)
		res.Holds = o.holds()
	}
	res.P99 = Round(1000*Percentile(o.waits, 99).Seconds(), 1)
	if res.Sold > 0 {
		res.SQLPerOrder = Round(float64(r.sql.Load())/float64(res.Sold), 2)
		res.RedisPerOrder = Round(float64(r.redis.Load())/float64(res.Sold), 2)
	}
	if r.notClosed != nil {
		res.Error = fmt.Sprintf("the sale could not be ended: %v", r.notClosed)
	} else if p.Closes && res.TakenLate == 0 && res.Sold >= p.Stock {
		res.Error = EndedTooLate
	} else if o.replaceErr != nil {
		res.Error = fmt.Sprintf("no process in place of the killed one: %v", o.replaceErr)
	} else if o.unanswered > 0 {
		res.Error = fmt.Sprintf("%d clicks received no reply within %d s; the last error: %v", o.unanswered,
			p.Seconds, o.lastErr)
	}
	return res, nil
}

// excused reports whether the answer no to a buyer who has an order may be due to a fault. An order that a program has
// written after that answer is not: it fills up what the program has lost.
func (r *run) excused(user int64, o *outcome) bool {
	if !r.Plan.endsReplies() {
		return false
	}
	if _, cancelled := r.returned.Load(user); cancelled {
		return true
	}
	for _, reply := range slices.Backward(o.replies) {
		if reply.user == user {
			return !r.written[user].After(o.began.Add(reply.at))
		}
	}
	return true
}

// owners returns the buyer of each order.
func (r *run) owners(ctx context.Context) (owners []int64, tampered bool, err error) {
	if r.role != "" {
		r.Observer.DB.Pool.Close()
	}
	if err := r.waitIdle(ctx); err != nil {
		return nil, false, err
	}
	if r.role != "" {
		return r.witnessed(ctx)
	}
	rows, _ := r.Admin.Query(ctx, `select user_id from orders`)
	owners, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return owners, false, err
}

// waitIdle waits until Postgres has finished the statements of dead connections.
func (r *run) waitIdle(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < CleanupTimeout; Pause(ctx, 5*time.Millisecond) {
		var busy bool
		err := r.Admin.QueryRow(ctx, `
			select exists (select from pg_stat_activity where (application_name = $1 or usename in ($1, $2)) and state <> 'idle')`, r.Schema, r.role).Scan(&busy)
		if err != nil || !busy {
			return err
		}
	}
	return fmt.Errorf("the run's statements still run in Postgres after %v", CleanupTimeout)
}

// Percentile returns the value that p percent of the values do not exceed; 0 if there is none.
func Percentile[T cmp.Ordered](values []T, p int) (v T) {
	if sorted := slices.Sorted(slices.Values(values)); len(sorted) > 0 {
		v = sorted[(len(sorted)*p+99)/100-1]
	}
	return v
}

func Round(f float64, digits int) float64 {
	by := math.Pow10(digits)
	return math.Round(f*by) / by
}
