package seckill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/alive"
	"miaosha/seckill/gate"
	"miaosha/seckill/watch"
)

// soldOutAfterOrdered turns on the check that a buyer who was told of an order is never told that the
// sale is sold out. Today that happens while a sale is marked as bypassed: a gate that does not know
// the buyer says so, and the lane does not ask Postgres. An example is seed 7704.
const soldOutAfterOrdered = false

// simReply is what a process told a user.
type simReply struct {
	process *simProcess
	kind    string // buy, result, address
	user    int64
	began   int // the moment at which the user asked
	status  Status
	err     error
}

// hear notes a reply in a task's goroutine.
func (s *simulation) hear(r simReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.process.alive {
		s.heard = append(s.heard, r)
	}
}

// hearReplies checks what was told since the last step.
func (s *simulation) hearReplies() {
	s.mu.Lock()
	heard := s.heard
	s.heard = nil
	s.mu.Unlock()
	slices.SortStableFunc(heard, func(a, b simReply) int { // two tasks may have ended at once
		return cmp.Or(cmp.Compare(a.process.name, b.process.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.user, b.user),
			cmp.Compare(a.began, b.began), cmp.Compare(a.status.State, b.status.State))
	})
	var unsure []*simClick
	for _, c := range s.clicks {
		select {
		case <-c.done:
			if c.reply.err == nil && c.reply.Status.State == Queued {
				s.checkAccepted(c)
			}
			if c.reply.mustConfirm(c.sure) {
				unsure = append(unsure, c)
				continue
			}
			heard = append(heard, simReply{c.process, "buy", c.UserID, c.began, c.reply.Status, c.reply.err})
		default:
		}
	}
	s.clicks = slices.DeleteFunc(s.clicks, func(c *simClick) bool {
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	})
	for _, r := range heard {
		s.told(r)
	}
	for _, c := range unsure {
		s.confirm(c)
	}
}

// checkSure checks that a process that is sure of its gate has looked at it since Redis went back: the gate knows as many bypasses as
// the row has, and no less than the process was told of it.
func (s *simulation) checkSure(p *simProcess, sure bool) {
	epoch, has := s.gateNumber("epoch")
	if !sure || !has || time.Since(s.backAt) <= watch.SureFor {
		return
	}
	known, _ := s.gateNumber("known")
	seeded, _ := s.gateNumber("seeded")
	ops, _ := s.gateNumber("ops")
	sale := s.model.sales[simSale].committed
	if known < sale.bypasses && sale.bypasses == sale.known {
		s.failf("%s is sure of a gate that knows %d of %d bypasses, %v after Redis went back", p.name, known, sale.bypasses, time.Since(s.backAt))
	}
	if p.lanes.facts.Back(simSale, gate.State{Epoch: epoch, Seeded: seeded, Ops: ops}) {
		s.failf("%s is sure of a gate that has less than it had, %v after Redis went back", p.name, time.Since(s.backAt))
	}
}

// checkAccepted checks that a ticket of which a buyer was told is safe: it is in the journal, or
// has its result.
func (s *simulation) checkAccepted(c *simClick) {
	ticket := c.reply.Ticket
	if user, ok := s.granted[ticket]; !ok || user != c.UserID {
		s.failf("%s told user %d of ticket %s, which no gate granted", c.process.name, c.UserID, ticket)
	}
	if !s.journal[ticket] && s.model.resultOf(nil, ticket) == nil && !s.lost[ticket] {
		s.failf("%s told user %d of ticket %s, which is neither in the journal nor settled", c.process.name, c.UserID, ticket)
	}
}

// told checks a reply to a user.
func (s *simulation) told(r simReply) {
	soldOut := errors.Is(r.err, goods.ErrSoldOut) || r.err == nil && r.status.State == SoldOut
	state := r.status.State
	if r.err != nil {
		state = r.err.Error()
	}
	s.tracef("%s: user %d is told %s: %s", r.process.name, r.user, r.kind, state)
	s.reachTold(r)
	if soldOut {
		s.checkSoldOut(r)
	}
	b := s.buyers[r.user]
	if b == nil {
		return
	}
	b.refused = b.refused || soldOut && s.healing
	if r.kind == "address" {
		return
	}
	if r.err == nil && r.status.State == Ordered {
		o := s.model.orderOf(nil, simSale, r.user, false)
		if o == nil || o.id != r.status.OrderID {
			s.failf("%s told user %d of order %s, which does not exist or belongs to another user", r.process.name, r.user, r.status.OrderID)
		}
		if b.order == uuid.Nil {
			b.order, b.told = r.status.OrderID, s.moment()
		}
		return
	}
	if !s.dataLost && b.order != uuid.Nil && r.began > b.told && (r.err == nil && !soldOut && !s.contradicts(r) || soldOut && soldOutAfterOrdered) {
		s.failf("%s told user %d %q after the order", r.process.name, r.user, state)
	}
}

// contradicts reports whether a process may say "queued" after another one, without Redis, has said "ordered": it has lost
// Postgres. See TestTwoDifferentOutagesMayContradict.
func (s *simulation) contradicts(r simReply) bool {
	o := s.model.orderOf(nil, simSale, r.user, false)
	return s.direct[o.ticket] && (s.pgMode != storeUp || r.process.pgFailed > r.began)
}

// checkSoldOut checks that a refusal has a reason: as many tickets and orders as units have
// existed. A gate that is installed between a COMMIT and its ack counts those tickets twice, until
// they are acknowledged.
func (s *simulation) checkSoldOut(r simReply) {
	taken := len(s.granted) + s.countedTwice
	for _, result := range s.model.committed() {
		if _, gated := s.granted[result.ticket]; !gated && result.outcome == order.Ordered {
			taken++
		}
	}
	if int64(taken) < s.least {
		s.failf("%s told user %d (%s) that %d units are sold out after %d tickets", r.process.name, r.user, r.kind, s.least, taken)
	}
}

// carriedOut checks what must hold at every moment, after a store has carried out a request.
func (s *simulation) carriedOut(r *request) {
	if r.lasting {
		s.checkPostgres()
		s.checkRedis(r.what)
		s.checkOwners(r)
	}
}

// checkOwners checks that no entry is taken over from a process that lives: its beat has not changed for alive.DeadAfter at the last look
// of the one that takes it over. It is not asked where Redis was set back, with the beats, nor of a process that has never beaten, which
// the simulation lets serve clicks.
func (s *simulation) checkOwners(r *request) {
	p := r.conn.process
	if r.what == "beat" {
		s.beats[p.Name()] = append(s.beats[p.Name()], time.Now())
	}
	entries, _ := s.redis.Stream(gate.JournalKey(simSale))
	before := s.owners
	s.owners = map[string]string{}
	for _, e := range entries {
		owner := ""
		for i := 0; i+1 < len(e.Values); i += 2 {
			if e.Values[i] == "owner" {
				owner = e.Values[i+1]
			}
		}
		if words := strings.SplitN(s.redis.HGet(gate.TakeoversKey(simSale), e.ID), " ", 3); len(words) == 3 {
			owner = words[2]
		}
		s.owners[e.ID] = owner
		was, known := before[e.ID]
		if !known || was == owner || s.dataLost || slices.Contains(s.dead, was) || len(s.beats[was]) == 0 {
			continue
		}
		looked, silence, last := r.since.Add(-2*alive.BeatEvery-time.Second), time.Duration(0), time.Time{}
		for _, at := range append(slices.Clone(s.beats[was]), r.since) {
			if !last.IsZero() && !at.Before(looked) {
				silence = max(silence, at.Sub(last))
			}
			last = at
		}
		if silence < alive.DeadAfter {
			s.failf("%s took entry %s over from %s, which lives", p.name, e.ID, was)
		}
	}
}

func (s *simulation) checkPostgres() {
	sale, live := s.model.sales[simSale].committed, int64(0)
	owners, tickets := map[int64]bool{}, map[string]bool{}
	for _, o := range s.model.inSale(nil, simSale) {
		if o.status == order.Pending || o.status == order.Paid {
			live++
		}
		if owners[o.user] {
			s.failf("user %d has two orders", o.user)
		}
		owners[o.user] = true
		if tickets[o.ticket] {
			s.failf("ticket %s has two orders", o.ticket)
		}
		tickets[o.ticket] = true
		if s.model.stored(nil, o.ticket) != nil {
			s.failf("ticket %s has an order and another result", o.ticket)
		}
	}
	s.least, s.reduced, s.total = min(s.least, sale.total), s.reduced || sale.total < s.total, sale.total
	if sale.stock < 0 || sale.stock+live != sale.total {
		s.failf("%d units left and %d sold, of %d", sale.stock, live, sale.total)
	}
	for _, result := range s.model.committed() {
		ticket := result.ticket
		if _, gated := s.granted[ticket]; gated || s.direct[ticket] {
			continue
		}
		s.soldPast = true
		s.direct[ticket] = true
		if result.outcome == order.Ordered && !sale.open() {
			s.failf("ticket %s was sold without a gate while the sale is %s, from %v to %v", ticket, sale.state, sale.starts, sale.ends)
		}
	}
}

// open reports whether the row lets a buyer buy.
func (r *saleRow) open() bool {
	return r.state == goods.Published && !now().Before(r.starts) && now().Before(r.ends)
}

func (s *simulation) checkRedis(what string) {
	before, sale := s.journal, s.model.sales[simSale].committed
	s.readJournal()
	for _, ticket := range slices.Sorted(maps.Keys(s.journal)) {
		if what == "reserve" && !before[ticket] && strings.HasPrefix(ticket, fmt.Sprint(sale.epoch, ":")) && !sale.open() {
			s.failf("ticket %s was granted while the sale is %s, from %v to %v", ticket, sale.state, sale.starts, sale.ends)
		}
	}
	undecided := int64(0)
	for ticket := range s.journal {
		if s.model.resultOf(nil, ticket) == nil {
			undecided++
		}
	}
	s.countedTwice = max(s.countedTwice, len(s.journal)-int(undecided))
	if counted, has := s.gateNumber("in_flight"); has && len(s.journal) > 0 && counted != int64(len(s.journal)) {
		s.failf("the gate counts %d tickets in the journal, which has %d, after %q", counted, len(s.journal), what)
	}
	for _, ticket := range slices.Sorted(maps.Keys(before)) {
		if !s.journal[ticket] && s.model.resultOf(nil, ticket) == nil {
			s.failf("ticket %s left the journal by %q before its result was committed", ticket, what)
		}
	}
	users, _ := s.redis.HKeys(gate.TicketsKey(simSale))
	for _, user := range users {
		value := s.redis.HGet(gate.TicketsKey(simSale), user)
		if value == "" || value[0] != 'O' {
			continue
		}
		id, _ := uuid.Parse(value[1:])
		if r := s.model.order(nil, id); r == nil {
			s.failf("the gate has an order of user %s that is not committed, by %q", user, what)
		}
	}
	if epoch, has := s.gateNumber("epoch"); s.dataLost || s.soldPast || !has || s.reduced && epoch < sale.epoch {
		return // the gate may offer too much until reconcile knows of it
	}
	stock, _ := s.gateNumber("stock")
	if stock < 0 || stock+undecided > sale.stock && !(s.reduced && stock == 0) {
		s.failf("the gate has %d units and %d tickets undecided, of %d units left, after %q", stock, undecided, sale.stock, what)
	}
}

// gateNumber returns a number of the gate, or false if it has none.
func (s *simulation) gateNumber(field string) (n int64, has bool) {
	n, err := strconv.ParseInt(s.redis.HGet(gate.GateKey(simSale), field), 10, 64)
	return n, err == nil
}

// restRounds is the time in which the shop must come to rest after the faults, in rounds of
// restEvery.
const (
	restRounds = 40
	restEvery  = 500 * time.Millisecond
)

// rest ends all faults and lets every process work, and every buyer without an order click, until
// nothing moves. Then it checks what must hold at rest.
func (s *simulation) rest() {
	s.step = s.plan.steps + 1
	s.healing = true
	s.redisMode, s.pgMode = storeUp, storeUp
	for _, p := range s.processes {
		p.cut = false
	}
	s.tracef("the faults are over")
	s.runAll()
	for !s.ageClicks() { // a lane that waits for its mark ends first
		s.pass(100 * time.Millisecond)
		s.runAll()
	}
	for _, p := range s.processes {
		if !p.alive {
			s.boot(p)
		}
	}
	s.checkFollowed()
	why := ""
	for n, quiet := 0, 0; n < restRounds; n++ {
		s.step++
		s.reopen()
		s.healRound(n)
		if why = s.restless(); why == "" {
			if quiet++; quiet == 2 {
				s.checkRest()
				return
			}
		} else {
			quiet = 0
		}
		s.pass(restEvery)
	}
	s.failf("not at rest after %v: %s", restRounds*restEvery, why)
}

// followRounds is the time in which a gate must follow the last change of its sale, in rounds of restEvery.
const followRounds = 8

// checkFollowed checks that the gate, if there is one, follows the sale wherever its last change has moved it. Nothing buys
// meanwhile: a buyer's click would rebuild a gate too.
func (s *simulation) checkFollowed() {
	for range followRounds {
		for _, p := range s.processes {
			if !s.busy(p, "reconcile") {
				s.startRound(p, "reconcile", reconcileRound)
				s.runAll()
			}
		}
		if s.follows() {
			return
		}
		s.pass(restEvery)
	}
	sale := s.model.sales[simSale].committed
	s.failf("after %v the gate does not follow the sale, which is %s, from %v to %v, with epoch %d%s", followRounds*restEvery, sale.state, sale.starts,
		sale.ends, sale.epoch, s.digest())
}

// follows reports whether the gate has the state and the window of the row, or there is no gate.
func (s *simulation) follows() bool {
	sale, h := s.model.sales[simSale].committed, func(field string) string { return s.redis.HGet(gate.GateKey(simSale), field) }
	return h("epoch") == "" || h("state") == sale.state && h("start_ms") == strconv.FormatInt(sale.starts.UnixMilli(), 10) &&
		h("end_ms") == strconv.FormatInt(sale.ends.UnixMilli(), 10)
}

// reopen publishes the sale with an open window, by one change after the other.
func (s *simulation) reopen() {
	switch sale := s.model.sales[simSale].committed; {
	case sale.state != goods.Published:
		s.administer("publish", func(ctx context.Context) error {
			_, err := s.admin.pool.Exec(ctx, `update sales set state = $2 where id = $1`, simSale, goods.Published)
			return err
		})
	case !sale.open():
		s.moveTo(0)
	}
}

// runAll serves all requests, and what they lead to.
func (s *simulation) runAll() {
	for stuck := 0; len(s.waiting) > 0 || len(s.delayed) > 0; {
		before := s.hash
		n := len(s.waiting) + len(s.delayed)
		for _, r := range slices.Clone(s.delayed) {
			s.deliver(r)
		}
		for _, r := range slices.Clone(s.waiting) {
			if slices.Contains(s.waiting, r) {
				s.serve(r)
			}
		}
		if len(s.waiting)+len(s.delayed) >= n {
			if stuck++; stuck > 20 { // all wait for locks
				s.pass(100 * time.Millisecond)
			}
			if stuck > 2000 {
				s.failf("requests wait for ever: %d, %x", n, before)
			}
		}
	}
}

func (s *simulation) healRound(n int) {
	for _, p := range s.processes {
		if !s.busy(p, "reconcile") {
			s.startRound(p, "reconcile", reconcileRound)
			s.runAll()
		}
		if n%2 == 0 && !s.busy(p, "beat") {
			s.startRound(p, "beat", beatRound)
			s.runAll()
		}
		if n%2 == 0 && !s.busy(p, "reclaim") {
			s.startRound(p, "reclaim", reclaimRound)
			s.runAll()
		}
		s.work(p)
	}
	s.startRound(s.processes[n%len(s.processes)], "expire", expireRound)
	s.runAll()
	for _, user := range slices.Sorted(maps.Keys(s.buyers)) {
		b := s.buyers[user]
		if b.order != uuid.Nil {
			continue
		}
		p := s.processes[(n+int(user))%len(s.processes)]
		s.askResults(p, []int64{user})
		s.runAll()
		if b.order == uuid.Nil {
			s.clickAt(p, user)
		}
	}
	for _, p := range s.processes {
		s.work(p)
	}
}

// work lets a process serve its clicks and settle its tickets.
func (s *simulation) work(p *simProcess) {
	for len(p.lane.in) > 0 && !s.busy(p, "lane") {
		batch := []*click{}
		for len(p.lane.in) > 0 {
			batch = append(batch, <-p.lane.in)
		}
		s.startLane(p, batch)
		s.runAll()
	}
	for tries := 0; (p.held != nil || p.queue.Ready()) && tries < 10; tries++ {
		if !s.busy(p, "settle") {
			s.startSettle(p)
		}
		s.runAll()
	}
}

// restless returns why the shop is not at rest, or "".
func (s *simulation) restless() string {
	sale := s.model.sales[simSale].committed
	stock, _ := s.gateNumber("stock")
	known, _ := s.gateNumber("known")
	switch {
	case len(s.tasks) > 0:
		return "a task is under way: " + s.tasks[0].kind
	case len(s.journal) > 0:
		return "the journal is not empty"
	case stock != sale.stock:
		return "the gate's stock is not that of Postgres" + s.digest()
	case known < sale.bypasses:
		return "the owners of the last sale past the gate are not seeded"
	}
	for ticket := range s.granted {
		if !s.lost[ticket] && s.model.resultOf(nil, ticket) == nil {
			return "ticket " + ticket + " has no result"
		}
	}
	for _, b := range s.buyers {
		if o := s.model.orderOf(nil, simSale, b.user, false); o == nil && sale.stock > 0 {
			return "a unit is unsold, and a user who keeps clicking has none"
		} else if o != nil && b.order == uuid.Nil {
			return "a user was not told of an order"
		}
	}
	return ""
}

// checkRest checks what every process tells of every order, and that payments agree with orders. A
// gate knows every owner, unless Redis lost data and a process died too, or no process noticed that
// Redis was set back. Then it may give an owner a ticket, whose result is the order.
func (s *simulation) checkRest() {
	for _, p := range s.processes {
		for _, o := range s.model.inSale(nil, simSale) {
			if o.user == poisoned {
				continue
			}
			s.buyers[o.user].order = uuid.Nil
			s.askResults(p, []int64{o.user})
			s.runAll()
			if s.buyers[o.user].order == uuid.Nil {
				s.failf("at rest, %s does not tell user %d of the order", p.name, o.user)
			}
			s.buyers[o.user].order = uuid.Nil
			s.clickAt(p, o.user)
			s.work(p)
			if s.older || s.dataLost && s.killed {
				s.askResults(p, []int64{o.user})
				s.runAll()
			}
			if s.buyers[o.user].order == uuid.Nil && !p.lanes.refuses(p.lane, o.user) {
				s.failf("at rest, a click of user %d at %s does not lead to the order", o.user, p.name)
			}
		}
	}
	captured := map[uuidBytes]int{}
	for _, r := range s.model.payments {
		if r.committed.status == "captured" {
			captured[r.committed.order]++
		}
	}
	for _, o := range s.model.inSale(nil, simSale) {
		if paid := o.status == order.Paid; captured[o.id] != map[bool]int{true: 1}[paid] {
			s.failf("an order is %s and has %d captured payments", o.status, captured[o.id])
		}
	}
}
