package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// click is one press of a button, which reaches one of the nodes.
type click struct {
	user int64 // from 1
	node int
}

// clicks is the crowd of a plan, in the order in which they come: one click a buyer, and for those who press twice another
// right behind it, at the next node.
func (p Plan) clicks() []click {
	luck := rand.New(rand.NewPCG(p.Seed, 0))
	twice := luck.Perm(p.Buyers)[:p.Buyers*p.DoubleClicks/100]
	slices.Sort(twice)
	var all []click
	for i, user := range luck.Perm(p.Buyers) {
		all = append(all, click{int64(user + 1), i})
		if _, does := slices.BinarySearch(twice, user); does {
			all = append(all, click{int64(user + 1), i + 1})
		}
	}
	return all
}

// heard is what a crowd was told.
type heard struct {
	began time.Time // the first click

	mu      sync.Mutex
	yes     map[int64]bool
	pending map[int64]int   // a buyer's clicks without an answer
	waits   []time.Duration // of the clicks that were answered
	took    time.Duration   // until the last of them
	silent  int             // clicks that got no answer
	fault   error           // the last one that one of those met
}

const (
	apart = 50 * time.Microsecond // between two buyers: 20,000 a second come, more than any way serves
	again = 5 * time.Millisecond  // who got an error clicks again after that
)

// crowd lets all click, and waits until each has his answer or the time is up.
func (r *run) crowd(ctx context.Context, clicks []click) *heard {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.plan.Seconds)*time.Second)
	defer cancel()
	h := &heard{yes: map[int64]bool{}, pending: map[int64]int{}}
	var all, death errgroup.Group
	dying, calm := context.WithCancel(ctx)
	death.Go(func() error { return r.mourn(dying) })
	r.sql.Store(0)
	r.redis.Store(0)
	h.began = time.Now().Add(time.Duration(len(clicks)) * 5 * time.Microsecond) // when all stand ready
	if r.plan.has(RedisPause) {
		r.silentUntil.Store(h.began.Add(silence).UnixNano())
	}
	for _, c := range clicks {
		h.pending[c.user]++
	}
	due := h.began
	for i, c := range clicks {
		if i > 0 && clicks[i-1].user == c.user {
			continue
		}
		mine := clicks[i : i+1]
		if i+1 < len(clicks) && clicks[i+1].user == c.user {
			mine = clicks[i : i+2]
		}
		at := due
		all.Go(func() error {
			pause(ctx, time.Until(at))
			for _, c := range mine[1:] { // the finger comes down twice
				all.Go(func() error { r.press(ctx, c, h); return nil })
			}
			r.press(ctx, mine[0], h)
			return nil
		})
		due = due.Add(apart)
	}
	all.Wait()
	calm()
	if err := death.Wait(); err != nil && h.fault == nil {
		h.fault = err
	}
	return h
}

// press is one click, until it has its answer.
func (r *run) press(ctx context.Context, c click, h *heard) {
	began := time.Now()
	yes, err := r.insist(ctx, c)
	ended := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.silent++
		h.fault = err
		return
	}
	h.yes[c.user] = h.yes[c.user] || yes
	h.waits = append(h.waits, ended.Sub(began))
	h.took = max(h.took, ended.Sub(h.began))
	if h.pending[c.user]--; h.pending[c.user] == 0 {
		r.asked.Add(1)
	}
}

// insist clicks until there is an answer: at the other nodes if one gives an error.
func (r *run) insist(ctx context.Context, c click) (bool, error) {
	for i := c.node; ; i++ {
		n := r.nodes[i%len(r.nodes)].Load()
		yes, err := n.click(ctx, c.user)
		if err == nil {
			return yes, nil
		}
		if pause(ctx, again); ctx.Err() != nil {
			return false, err
		}
	}
}

// click is one click at a node, whose death ends it.
func (n *node) click(ctx context.Context, user int64) (yes bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	if err = n.alive(); err == nil {
		yes, err = n.strategy.Buy(ctx, user)
		n.tape.step(n.id, "answer", answerText(yes, err))("")
	}
	if err == nil {
		err = n.alive() // or the answer was never sent
	}
	if err == nil && yes {
		n.promise()
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

// count holds what the crowd was told against the orders in Postgres.
func (r *run) count(ctx context.Context, h *heard) (Result, error) {
	p := r.plan
	res := Result{Strategy: r.way.name, Stock: p.Stock, Buyers: p.Buyers}
	if err := r.settled(ctx); err != nil {
		return res, err
	}
	rows, err := r.admin.Query(ctx, `select user_id from orders`)
	if err != nil {
		return res, err
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return res, err
	}
	has := make(map[int64]bool, len(owners))
	for _, user := range owners {
		has[user] = true
	}
	for user, yes := range h.yes {
		if yes && !has[user] {
			res.Lost++
		}
	}
	res.Sold = len(owners)
	res.Oversold = max(0, res.Sold-p.Stock)
	res.Unsold = max(0, min(p.Stock, p.Buyers)-res.Sold)
	res.Duplicates = res.Sold - len(has)
	res.Seconds = round(h.took.Seconds(), 3)
	if h.took > 0 {
		res.PerSecond = round(float64(len(h.waits))/h.took.Seconds(), 0)
	}
	if slices.Sort(h.waits); len(h.waits) > 0 {
		res.P99 = round(1000*h.waits[(len(h.waits)*99+99)/100-1].Seconds(), 1)
	}
	if res.Sold > 0 {
		res.SQLPerOrder = round(float64(r.sql.Load())/float64(res.Sold), 2)
		res.RedisPerOrder = round(float64(r.redis.Load())/float64(res.Sold), 2)
	}
	if h.silent > 0 {
		res.Error = fmt.Sprintf("%d clicks got no answer in %d s; the last met: %v", h.silent, p.Seconds, h.fault)
	}
	return res, nil
}

// settled waits until Postgres has ended what dead connections had asked it for.
func (r *run) settled(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < tidyLimit; pause(ctx, 5*time.Millisecond) {
		var busy bool
		err := r.admin.QueryRow(ctx, `
			select exists (select from pg_stat_activity where application_name = $1 and state <> 'idle')`, r.schema).Scan(&busy)
		if err != nil || !busy {
			return err
		}
	}
	return fmt.Errorf("still busy in Postgres with what was asked of it %v ago", tidyLimit)
}

func round(f float64, digits int) float64 {
	by := math.Pow10(digits)
	return math.Round(f*by) / by
}
