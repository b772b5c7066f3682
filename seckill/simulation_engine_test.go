package seckill

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/alive"
	"miaosha/seckill/gate"
	"miaosha/seckill/queue"
	"miaosha/seckill/watch"
)

// simSale is the sale of a simulation.
const simSale = 1

// simPlan is what a seed decides before the first step.
type simPlan struct {
	processes, users, total, steps int
	qmax                           int
	payWithin                      time.Duration
	faults                         float64         // the share of requests that go wrong
	off, often                     map[string]bool // actions that this run does not take, and that it takes often
}

func planOf(seed uint64) simPlan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := simPlan{processes: 1 + r.IntN(3), users: 2 + r.IntN(7), total: 1 + r.IntN(5), steps: 60 + r.IntN(180),
		qmax: []int{2, 1000, 1000}[r.IntN(3)], payWithin: []time.Duration{3 * time.Second, time.Hour}[r.IntN(2)],
		faults: []float64{0, 0, 0.03, 0.1}[r.IntN(4)], off: map[string]bool{}, often: map[string]bool{}}
	for _, a := range simActions {
		if a.optional && r.IntN(2) == 0 {
			p.off[a.name] = true
		} else if r.IntN(5) == 0 {
			p.often[a.name] = true
		}
	}
	return p
}

// simulation is one run. One goroutine, that of the test, decides everything: it starts the steps
// of the protocol and carries out one request at a time at the stores. All others wait for it, so
// that only the seed decides their order.
type simulation struct {
	plan    simPlan
	seed    uint64
	step    int
	rng     *rand.Rand // of this step: a step that is left out does not change the others
	healing bool       // the faults are over

	turn    int
	dead    []string   // the names of processes that were killed
	current *simTask   // the task that goes on now: what is sent now, it has sent
	mu      sync.Mutex // guards waiting, heard, ended and each task's done: other goroutines write them
	waiting []*request
	heard   []simReply
	ended   []func() // end the sessions whose clients have closed them

	model     *pgModel
	redis     *redisServer
	redisMode storeMode
	pgMode    storeMode
	processes []*simProcess
	admin     *simProcess
	tasks     []*simTask
	delayed   []*request // requests whose client has gone, and which the store may still carry out
	clicks    []*simClick
	buyers    map[int64]*simBuyer

	countedTwice int       // the most settled tickets that were in the journal
	moments      int       // that moment has counted
	backAt       time.Time // when Redis last lost something

	granted  map[string]int64       // every ticket that a gate ever granted, with its user
	journal  map[string]bool        // the tickets in the journal
	lost     map[string]bool        // tickets that Redis lost
	beats    map[string][]time.Time // by the name of the process in the journal
	owners   map[string]string      // of the journal's entries
	dataLost bool                   // Redis has lost or got back something
	older    bool                   // Redis got back an older snapshot
	killed   bool                   // a process was killed
	soldPast bool                   // the sale sold without its gate
	direct   map[string]bool        // the tickets of these sales
	least    int64                  // the fewest units that the sale had in all
	total    int64                  // the units that it has in all
	reduced  bool                   // units were taken back
	refs     int
	reached  simReached

	hash    uint64
	trace   *strings.Builder // nil if no one reads it
	failure error
}

// storeMode is how a store behaves to all its clients.
type storeMode int

const (
	storeUp     storeMode = iota
	storeDown             // connections are refused
	storeSilent           // requests have no reply
)

// simProcess is one process of the shop.
type simProcess struct {
	*Engine
	name   string
	alive  bool
	cut    bool // from Redis
	pool   *pgxpool.Pool
	rdb    *redis.Client
	orders *order.Store
	lane   *lane
	held   *queue.Sale // whose batch a worker has begun to settle

	pgFailed int // the moment at which Postgres did not carry out a request, or its reply was lost
}

// simTask is a step of the protocol that is under way.
type simTask struct {
	process *simProcess
	kind    string
	cancel  func()
	done    bool
}

// simClick is a click without a reply.
type simClick struct {
	*click
	process *simProcess
	began   int  // the moment
	sure    bool // the process was sure of its gate
}

// simBuyer is what one buyer was told.
type simBuyer struct {
	user    int64
	order   uuid.UUID // the order that the buyer was told of
	told    int       // the moment
	refused bool      // as sold out, since the faults are over
}

// simFailure ends a run.
type simFailure struct{ error }

func (s *simulation) failf(format string, args ...any) {
	panic(simFailure{fmt.Errorf(format, args...)})
}

// moment returns a number that is higher than all before it.
func (s *simulation) moment() int {
	s.moments++
	return s.moments
}

func (s *simulation) tracef(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %s", s.hash, line)
	s.hash = h.Sum64()
	if s.trace != nil {
		fmt.Fprintf(s.trace, "%4d %s %s\n", s.step, time.Now().UTC().Format("05.000"), line)
	}
}

// runSimulation makes one run in a bubble of testing/synctest, in which time is simulated too. keep
// says which steps are made; nil means all.
func runSimulation(seed uint64, keep func(step int) bool, trace *strings.Builder) (s *simulation) {
	redis.SetLogger(noLog{})
	uuid.SetRand(newUUIDs(seed))
	defer uuid.SetRand(nil)
	s = &simulation{plan: planOf(seed), seed: seed, model: newPgModel(), redis: newRedisServer(), trace: trace,
		buyers: map[int64]*simBuyer{}, granted: map[string]int64{}, journal: map[string]bool{}, lost: map[string]bool{},
		direct: map[string]bool{}, reached: simReached{}, beats: map[string][]time.Time{}}
	s.tracef("%d processes, %d users, %d units, qmax %d, %v to pay, faults %v, without %v, often %v", s.plan.processes, s.plan.users, s.plan.total,
		s.plan.qmax, s.plan.payWithin, s.plan.faults, slices.Sorted(maps.Keys(s.plan.off)), slices.Sorted(maps.Keys(s.plan.often)))
	s.model.sell(saleRow{id: simSale, price: 100, total: int64(s.plan.total), stock: int64(s.plan.total), title: "tea",
		state: goods.Published, starts: now().Add(-time.Minute), ends: now().Add(24 * time.Hour)})
	s.least, s.total = int64(s.plan.total), int64(s.plan.total)
	for u := range s.plan.users {
		s.buyers[int64(u+1)] = &simBuyer{user: int64(u + 1)}
	}
	for i := range s.plan.processes {
		s.processes = append(s.processes, &simProcess{name: "p" + strconv.Itoa(i+1)})
	}
	s.admin = &simProcess{name: "admin"}
	defer s.stop()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case simFailure:
			s.failure = v.error
			s.tracef("FAILED: %v", v.error)
		default:
			panic(v)
		}
	}()
	for i, p := range append(slices.Clone(s.processes), s.admin) {
		s.rng = rand.New(rand.NewPCG(seed, uint64(i)))
		s.boot(p)
	}
	for s.step = 1; s.step <= s.plan.steps; s.step++ {
		if keep != nil && !keep(s.step) {
			continue
		}
		s.rng = rand.New(rand.NewPCG(seed, uint64(1000+s.step)))
		if r := s.pickRequest(); r != nil {
			s.serve(r)
		} else {
			s.act()
		}
	}
	s.rest()
	return s
}

// pickRequest chooses the request that is served next, or nil to start something new. A stalled
// request is seldom chosen, so that much happens between it and the one before.
func (s *simulation) pickRequest() *request {
	if len(s.waiting) == 0 || s.rng.IntN(10) >= 7 {
		return nil
	}
	for range 3 {
		r := s.waiting[s.rng.IntN(len(s.waiting))]
		if !r.stalled || s.rng.IntN(25) == 0 {
			return r
		}
	}
	return nil
}

// noLog drops what the Redis client would print.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// newUUIDs returns the source of all nonces and ids of a run.
func newUUIDs(seed uint64) io.Reader {
	var key [32]byte
	copy(key[:], strconv.FormatUint(seed, 10))
	return rand.NewChaCha8(key)
}

// boot starts a process.
func (s *simulation) boot(p *simProcess) {
	name := p.name
	*p = simProcess{name: name, alive: true}
	p.rdb = newRedisClient(func() (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !p.alive || p.cut || s.redisMode == storeDown {
			return nil, errRefused
		}
		return s.redis.dial(p, s.arrive), nil
	})
	p.pool = newPgPool(func() (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !p.alive || s.pgMode == storeDown {
			return nil, errRefused
		}
		c := s.model.dial(p, s.arrive)
		end := c.closed
		c.closed = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = append(s.ended, end)
		}
		return c, nil
	})
	p.orders = order.New(p.pool, order.Config{PayWithin: s.plan.payWithin})
	cfg := Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 100, QMax: s.plan.qmax, QueueWorkers: 6, Optimisations: AllOptimisations()}
	var err error
	p.Engine, err = New(cfg, Deps{DB: p.pool, Redis: p.rdb, Sales: goods.New(p.pool), Orders: p.orders,
		Secret: []byte("a secret of thirty-two bytes ...."), Log: slog.New(simLog{s}), name: name + "-" + uuid.NewString()[:8]})
	if err != nil {
		panic(err)
	}
	p.orders.OnUnitsReturned(p.UnitsReturned)
	p.metrics.once.Every = 1 // each fault is counted
	p.lane = newLane(simSale)
	p.lanes.bySale.Store(int64(simSale), p.lane)
	s.wait()
}

// kill ends a process at once. What it had sent may still be carried out.
func (s *simulation) kill(p *simProcess) {
	p.alive = false
	s.dead = append(s.dead, p.Name())
	for again := true; again; {
		again = false
		for _, r := range slices.Clone(s.waiting) {
			if r.conn.process == p {
				again = true
				s.remove(r)
				func() {
					defer r.answer(errReset)
					switch s.rng.IntN(3) {
					case 0:
						if !r.run() {
							s.carriedOut(r)
						}
					case 1:
						s.delay(r)
					}
				}()
			}
		}
		for _, t := range s.tasks {
			if t.process == p {
				t.cancel()
			}
		}
		s.wait()
	}
	s.clicks = slices.DeleteFunc(s.clicks, func(c *simClick) bool { return c.process == p })
	s.tasks = slices.DeleteFunc(s.tasks, func(t *simTask) bool { return t.process == p })
	p.rdb.Close()
	p.pool.Close()
	s.wait()
	s.reachMetrics(p)
}

// stop ends all processes, so that no goroutine is left.
func (s *simulation) stop() {
	s.rng = rand.New(rand.NewPCG(s.seed, 1))
	s.healing = true
	s.wait()
	for _, p := range append(slices.Clone(s.processes), s.admin) {
		if p.alive {
			func() {
				defer func() {
					if v := recover(); v != nil {
						if _, ok := v.(simFailure); !ok {
							panic(v)
						}
						s.wait()
						s.kill(p)
					}
				}()
				s.kill(p)
			}()
		}
	}
	s.redis.Close()
	time.Sleep(5 * time.Second) // a Redis client that could not connect tries again each second, and then sees that it is closed
	s.wait()
}

// arrive is called by a client's goroutine with a request. It waits until the simulation has
// decided what becomes of it.
func (s *simulation) arrive(r *request) error {
	r.reply, r.since = make(chan error, 1), time.Now()
	s.mu.Lock()
	r.turn, r.task = s.turn, s.current
	alive := r.conn.process.alive
	if alive {
		s.waiting = append(s.waiting, r)
	}
	s.mu.Unlock()
	if !alive {
		return errReset
	}
	return <-r.reply
}

func (s *simulation) remove(r *request) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *request) bool { return other == r })
}

// start starts a step of the protocol in a process.
func (s *simulation) start(p *simProcess, kind string, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &simTask{process: p, kind: kind, cancel: cancel}
	s.tasks = append(s.tasks, t)
	s.tracef("%s: %s", p.name, kind)
	s.current = t
	go func() {
		f(ctx)
		s.mu.Lock()
		t.done = true
		s.mu.Unlock()
	}()
	s.settleDown()
}

func (s *simulation) busy(p *simProcess, kind string) bool {
	return slices.ContainsFunc(s.tasks, func(t *simTask) bool { return t.process == p && t.kind == kind })
}

// wait waits until every goroutine waits for the simulation.
func (s *simulation) wait() {
	synctest.Wait()
	s.mu.Lock()
	ended := s.ended
	s.ended = nil
	s.mu.Unlock()
	for _, end := range ended {
		end()
	}
}

// settleDown waits until every goroutine waits for the simulation. A worker that waits before it
// settles a batch again is ended: the simulation decides when it goes on.
func (s *simulation) settleDown() {
	s.wait()
	for _, t := range s.tasks {
		asks := slices.ContainsFunc(s.waiting, func(r *request) bool { return r.task == t })
		if t.kind == "settle" && !t.done && !asks {
			t.cancel()
			s.wait()
		}
	}
	for _, t := range s.tasks {
		if t.done {
			t.cancel()
		}
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *simTask) bool { return t.done })
	// Callers that waited for the same rebuild go on at the same time. What they send is put into a
	// fixed order.
	slices.SortStableFunc(s.waiting, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.conn.process.name, b.conn.process.name), cmp.Compare(a.key, b.key))
	})
	for _, r := range s.waiting {
		if r.turn == s.turn {
			chance := 8
			if r.what == "fix" { // so that a purchase comes between what it has read and what it writes
				chance = 2
			}
			r.stalled = !s.healing && s.rng.IntN(chance) == 0
		}
	}
	s.turn++
	s.hearReplies()
}

// delay leaves a request, whose client goes away, for later.
func (s *simulation) delay(r *request) {
	r.conn.closed = nil // the server does not know yet that the client has gone
	s.delayed = append(s.delayed, r)
}

// serve decides what becomes of a request.
func (s *simulation) serve(r *request) {
	s.current = r.task
	mode := s.redisMode
	if r.end != nil {
		mode = s.pgMode
	} else if r.conn.process.cut {
		mode = storeDown
	}
	name := r.conn.process.name
	what := r.what[:min(len(r.what), 40)]
	dice := 1.0
	if !s.healing {
		dice = s.rng.Float64()
	}
	failure := []*net.OpError{errNoReply, errReset}[s.rng.IntN(2)]
	carryOut := true
	switch {
	case mode != storeUp:
		carryOut = false
		failure = errReset
		if mode == storeSilent {
			failure = errNoReply
		}
	case r.conn.late():
		carryOut, failure = s.rng.IntN(2) == 0, errNoReply
	case dice < s.plan.faults/4: // the reply is lost
	case dice < s.plan.faults/2: // the request is lost
		carryOut = false
	case dice < s.plan.faults*3/4: // the request arrives after the client has gone
		s.tracef("%s: %s is delayed: %v", name, what, failure.Err)
		s.remove(r)
		s.delay(r)
		s.noteFailure(r)
		r.reply <- failure
		s.settleDown()
		return
	case dice < s.plan.faults:
		text := "LOADING Redis is loading the dataset in memory"
		if r.end != nil {
			text = []string{"57014", "40001", "55P03"}[s.rng.IntN(3)]
		}
		s.tracef("%s: %s fails: %s", name, what, text)
		s.remove(r)
		s.noteFailure(r)
		r.refuse(text)
		r.reply <- nil
		s.settleDown()
		return
	default:
		failure = nil
	}
	if carryOut {
		if wait := r.run(); wait && time.Since(r.since) < r.lockWait {
			s.tracef("%s: %s waits for a lock", name, what)
			return
		} else if wait {
			r.refuse("55P03")
			s.noteFailure(r)
			failure = nil
		}
	}
	s.remove(r)
	if failure != nil {
		s.noteFailure(r)
		s.tracef("%s: %s: %v, carried out: %v", name, what, failure.Err, carryOut)
		r.conn.out.Reset()
	} else {
		s.tracef("%s: %s%s", name, what, s.digest())
	}
	func() {
		defer r.answer(failure) // also if an invariant is broken: no goroutine may be left behind
		if carryOut {
			s.reachRequest(r)
			s.carriedOut(r)
		}
	}()
	s.settleDown()
}

// noteFailure notes that a process could not use Postgres.
func (s *simulation) noteFailure(r *request) {
	if r.end != nil {
		r.conn.process.pgFailed = s.moment()
	}
}

// answer lets the client of a request go on, with an error or with its reply.
func (r *request) answer(failure *net.OpError) {
	if failure != nil {
		r.reply <- failure
		return
	}
	r.reply <- nil
}

// digest returns the state of the stores in short.
func (s *simulation) digest() string {
	h := func(field string) string { return s.redis.HGet(gate.GateKey(simSale), field) }
	sale := s.model.sales[simSale].committed
	return fmt.Sprintf(" | gate %s epoch %s ops %s, journal %d, stock %d, orders %d, results %d, commits %d", h("stock"), h("epoch"), h("ops"),
		len(s.journal), sale.stock, len(s.model.orders), len(s.model.results), s.model.commits)
}

// deliver carries out a request whose client has gone.
func (s *simulation) deliver(r *request) {
	if r.run() {
		return // it waits for a lock
	}
	s.delayed = slices.DeleteFunc(s.delayed, func(other *request) bool { return other == r })
	if r.end != nil {
		r.end()
	}
	s.tracef("%s: %s is carried out late%s", r.conn.process.name, r.what[:min(len(r.what), 40)], s.digest())
	s.carriedOut(r)
	s.settleDown()
}

// simAction is something that happens. optional actions do not happen in every run.
type simAction struct {
	name     string
	weight   int
	optional bool
	do       func(s *simulation) bool // false if it is not possible now
}

var simActions []simAction

func init() { // a variable would refer to itself
	simActions = []simAction{
		{"click", 20, false, (*simulation).doClick},
		{"lane", 20, false, (*simulation).doLane},
		{"settle", 16, false, (*simulation).doSettle},
		{"purchase", 14, true, (*simulation).doPurchase},
		{"reconcile", 18, false, (*simulation).doReconcile},
		{"return", 6, false, (*simulation).doReturn},
		{"reclaim", 6, false, (*simulation).doReclaim},
		{"inherit", 3, true, (*simulation).doInherit},
		{"result", 12, false, (*simulation).doResult},
		{"wait", 12, false, (*simulation).doWait},
		{"beat", 6, true, (*simulation).doBeat},
		{"silence", 4, true, (*simulation).doSilence},
		{"wait long", 4, true, (*simulation).doWaitLong},
		{"address", 8, true, (*simulation).doAddress},
		{"cancel", 8, true, (*simulation).doCancel},
		{"pay", 4, true, (*simulation).doPay},
		{"refund", 4, true, (*simulation).doRefund},
		{"expire", 4, true, (*simulation).doExpire},
		{"deliver", 8, false, (*simulation).doDeliver},
		{"state", 2, true, (*simulation).doState},
		{"window", 3, true, (*simulation).doWindow},
		{"units", 2, true, (*simulation).doUnits},
		{"poison", 4, true, (*simulation).doPoison},
		{"kill", 3, true, (*simulation).doKill},
		{"boot", 6, false, (*simulation).doBoot},
		{"redis", 3, true, (*simulation).doRedis},
		{"postgres", 3, true, (*simulation).doPostgres},
		{"cut", 3, true, (*simulation).doCut},
		{"sell past", 3, true, (*simulation).doSellPast},
		{"older snapshot", 2, true, (*simulation).doSnapshot},
		{"empty redis", 2, true, (*simulation).doEmpty},
		{"close", 2, true, (*simulation).doClose},
		{"die", 2, true, (*simulation).doDie},
		{"doubt", 2, true, (*simulation).doDoubt},
		{"roll back", 3, true, (*simulation).doRollBack},
		{"overtake", 8, true, (*simulation).doOvertake},
		{"stop reader", 3, true, (*simulation).doStopReader},
	}
}

// weight returns how often an action is chosen in this run.
func (s *simulation) weight(a simAction) int {
	switch {
	case s.plan.off[a.name]:
		return 0
	case s.plan.often[a.name]:
		return 4 * a.weight
	}
	return a.weight
}

// act makes one action that the seed chooses. If it is not possible now, another one is tried.
func (s *simulation) act() {
	sum := 0
	for _, a := range simActions {
		sum += s.weight(a)
	}
	for range 3 {
		n := s.rng.IntN(sum)
		for _, a := range simActions {
			if n -= s.weight(a); n < 0 {
				if a.do(s) {
					s.reach("action", a.name)
					return
				}
				break
			}
		}
	}
}

// pick returns one of the living processes that fits, or nil.
func (s *simulation) pick(fits func(*simProcess) bool) *simProcess {
	var all []*simProcess
	for _, p := range s.processes {
		if p.alive && (fits == nil || fits(p)) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[s.rng.IntN(len(all))]
}

func (s *simulation) doClick() bool {
	p := s.pick(nil)
	if p == nil {
		return false
	}
	for range 1 + s.rng.IntN(3) {
		s.clickAt(p, s.pickUser())
	}
	return true
}

// pickUser chooses a user, often the last one who was told of an order.
func (s *simulation) pickUser() int64 {
	user, last := int64(1+s.rng.IntN(s.plan.users)), 0
	if s.rng.IntN(2) == 0 {
		for u := range int64(s.plan.users) {
			if b := s.buyers[u+1]; b.order != uuid.Nil && b.told > last {
				user, last = b.user, b.told
			}
		}
	}
	return user
}

// pickNewcomer chooses a user, if possible one without an order, who can take a unit.
func (s *simulation) pickNewcomer() (user int64) {
	for range 5 {
		if user = int64(1 + s.rng.IntN(s.plan.users)); s.buyers[user].order == uuid.Nil {
			break
		}
	}
	return user
}

func (s *simulation) clickAt(p *simProcess, user int64) {
	if err := p.Admit(simSale, user); err != nil {
		s.told(simReply{p, "buy", user, s.moment(), Status{}, err})
		return
	}
	p.Release() // the bound on requests in flight is not simulated
	for _, c := range s.clicks {
		if c.process == p && c.UserID == user {
			return // the same click
		}
	}
	sure := p.lanes.facts.Sure(simSale)
	s.checkSure(p, sure)
	c, err := p.lane.click(user)
	if err != nil {
		return
	}
	s.tracef("%s: user %d clicks", p.name, user)
	s.clicks = append(s.clicks, &simClick{c, p, s.moment(), sure})
}

func (s *simulation) doLane() bool {
	p := s.pick(func(p *simProcess) bool { return len(p.lane.in) > 0 && !s.busy(p, "lane") })
	if p == nil || !s.ageClicks() {
		return false
	}
	var batch []*click
	for range 1 + s.rng.IntN(6) {
		if len(p.lane.in) > 0 {
			batch = append(batch, <-p.lane.in)
		}
	}
	s.startLane(p, batch)
	return true
}

// ageClicks lets time pass until no click has waited so long that its limit could end while it is
// served: it is random whether such a click is served. It returns false if a lane is at work.
func (s *simulation) ageClicks() bool {
	for {
		i := slices.IndexFunc(s.clicks, func(c *simClick) bool {
			age := time.Since(c.at)
			return age > waitLimit/2 && age <= waitLimit
		})
		if i < 0 {
			return true
		}
		if slices.ContainsFunc(s.tasks, func(t *simTask) bool { return t.kind == "lane" }) {
			return false
		}
		s.pass(waitLimit - time.Since(s.clicks[i].at) + time.Millisecond)
	}
}

func (s *simulation) startLane(p *simProcess, batch []*click) {
	s.start(p, "lane", func(ctx context.Context) {
		if batch := p.lanes.inTime(p.lane, batch, time.Now()); len(batch) > 0 {
			p.lanes.serve(ctx, p.lane, batch)
		}
	})
}

func (s *simulation) doSettle() bool {
	p := s.pick(func(p *simProcess) bool { return (p.held != nil || p.queue.Ready()) && !s.busy(p, "settle") })
	if p == nil {
		return false
	}
	s.startSettle(p)
	return true
}

func (s *simulation) startSettle(p *simProcess) {
	if p.held == nil {
		p.held = p.queue.Next()
	}
	s.start(p, "settle", func(ctx context.Context) {
		if p.queue.Settle(ctx, p.held) {
			p.held = nil
		}
	})
}

// doPurchase makes one purchase, or cancels an order, in one go while all other requests wait: what
// they are about to do may then be out of date.
func (s *simulation) doPurchase() bool {
	p := s.pick(func(p *simProcess) bool { return !s.busy(p, "lane") && !s.busy(p, "settle") && !s.busy(p, "cancel") })
	if p == nil {
		return false
	}
	if s.rng.IntN(4) == 0 {
		return s.doCancel() && s.finish(nil, "cancel")
	}
	if !s.buyAt(p, s.pickNewcomer()) {
		return false
	}
	if p.alive && !s.busy(p, "settle") && (p.held != nil || p.queue.Ready()) {
		s.startSettle(p)
		s.finish(p, "settle")
	}
	return true
}

// buyAt lets a user click, and serves one click of the process in one go.
func (s *simulation) buyAt(p *simProcess, user int64) bool {
	s.clickAt(p, user)
	if len(p.lane.in) == 0 || !s.ageClicks() {
		return false
	}
	s.startLane(p, []*click{<-p.lane.in})
	s.finish(p, "lane")
	if p.alive && s.busy(p, "lane") { // it waits until all must have seen the sale's mark
		s.pass(watch.SureFor)
		s.finish(p, "lane")
	}
	return true
}

// doClose closes the sale while a process has a newcomer's ticket. The process settles it, and before it acknowledges
// it, the user clicks again.
func (s *simulation) doClose() bool {
	p := s.pickIdle()
	if p == nil {
		return false
	}
	user := s.pickNewcomer()
	if !s.buyAt(p, user) || !s.setState(goods.Closed) {
		return false
	}
	s.finish(s.admin, "change")
	if p.alive && !s.busy(p, "settle") && p.queue.Ready() {
		s.startSettle(p)
		s.finishUntil(p, "settle", func() bool { return s.isRefused(user) })
		s.buyAt(p, user)
		s.finish(p, "confirm")
		s.finish(p, "settle")
		s.askResults(p, []int64{user})
	}
	return true
}

// isRefused reports whether a ticket of the user has a result that is no order.
func (s *simulation) isRefused(user int64) bool {
	return slices.ContainsFunc(s.model.committed(), func(r *resultRow) bool { return r.user == user && r.outcome != order.Ordered })
}

// pickIdle returns a process that serves no clicks and settles nothing, or nil.
func (s *simulation) pickIdle() *simProcess {
	return s.pick(func(p *simProcess) bool {
		return len(p.lane.in) == 0 && !s.busy(p, "lane") && !s.busy(p, "settle") && p.held == nil
	})
}

// doDie kills a process that has a newcomer's ticket, and lets another one find its file.
func (s *simulation) doDie() bool {
	p := s.pickIdle()
	if p == nil || !s.buyAt(p, s.pickNewcomer()) || !p.alive {
		return false
	}
	s.die(p)
	return true
}

// die kills a process, and often lets another one find its file.
func (s *simulation) die(p *simProcess) {
	s.tracef("%s: killed", p.name)
	s.killed = true
	s.kill(p)
	other := s.pick(func(p *simProcess) bool { return !s.busy(p, "inherit") })
	if other == nil || s.rng.IntN(2) == 0 {
		return
	}
	dead := s.dead[len(s.dead)-1]
	s.startRound(other, "inherit", func(p *simProcess, ctx context.Context) { p.reclaimer.look(ctx, dead) })
	s.finish(other, "inherit")
}

// doDoubt loses the reply to a reserve call, and the second try. Reclaim queues what the first has granted.
func (s *simulation) doDoubt() bool {
	p := s.pickIdle()
	if p == nil || p.cut || s.redisMode != storeUp {
		return false
	}
	if s.clickAt(p, s.pickNewcomer()); len(p.lane.in) == 0 || !s.ageClicks() {
		return false
	}
	s.startLane(p, []*click{<-p.lane.in})
	var call *request
	s.finishUntil(p, "lane", func() bool {
		i := slices.IndexFunc(s.waiting, func(r *request) bool { return r.conn.process == p && r.what == "reserve" })
		if i >= 0 {
			call = s.waiting[i]
		}
		return i >= 0
	})
	if call == nil {
		return true
	}
	s.loseReply(call)
	p.cut = true
	s.finish(p, "lane")
	p.cut = false
	s.pass(2 * gate.ReserveLimit)
	for range 2 { // the first may only find that Redis replies again
		if p.alive && !s.busy(p, "reclaim") {
			s.startRound(p, "reclaim", reclaimRound)
			s.finish(p, "reclaim")
		}
	}
	return true
}

// reconcileAt makes a round of reconcile in one go.
func (s *simulation) reconcileAt(p *simProcess) {
	if p.alive && !s.busy(p, "reconcile") {
		s.startRound(p, "reconcile", reconcileRound)
		s.finish(p, "reconcile")
	}
}

// doOvertake cancels an order, lets a process read of the unit that came back, and makes a purchase before it writes.
func (s *simulation) doOvertake() bool {
	if !s.doCancel() {
		return false
	}
	s.finish(nil, "cancel")
	p := s.pick(func(p *simProcess) bool { return !s.busy(p, "reconcile") })
	if p == nil {
		return true
	}
	s.startRound(p, "reconcile", reconcileRound)
	s.finishUntil(p, "reconcile", func() bool {
		return slices.ContainsFunc(s.waiting, func(r *request) bool { return r.conn.process == p && r.what == "fix" })
	})
	s.doPurchase()
	s.finish(p, "reconcile")
	return true
}

// doRollBack sets Redis back to where it had a ticket that was settled since. The process has seen the gate of after
// that.
func (s *simulation) doRollBack() bool {
	p := s.pickIdle()
	if p == nil || p.cut || s.redisMode != storeUp || s.pgMode != storeUp || !s.buyAt(p, s.pickNewcomer()) {
		return false
	}
	granted := len(s.redis.log)
	if p.alive && p.queue.Ready() && !s.busy(p, "settle") {
		s.startSettle(p)
		s.finish(p, "settle")
	}
	s.reconcileAt(p)
	s.older = true
	s.setBack(granted)
	s.reconcileAt(p)
	return true
}

// doStopReader lets the sale sell past the gate until the gate knows the buyers and the mark is off. Then it stops a process between
// its reads of the gates and their publication, and sets Redis back to before the gate knew them. Another process looks, the first
// one goes on, and the other one looks again and has a click.
func (s *simulation) doStopReader() bool {
	if s.redisMode != storeUp || s.pgMode != storeUp || !s.doSellPast() {
		return false
	}
	for _, p := range s.processes {
		p.cut = false
	}
	for range 3 {
		for _, p := range s.processes {
			s.reconcileAt(p)
		}
		s.pass(quietFor / 2)
	}
	free := func(p *simProcess) bool { return !s.busy(p, "reconcile") }
	p := s.pick(free)
	other := s.pick(func(other *simProcess) bool {
		return other != p && free(other) && !s.busy(other, "lane") && len(other.lane.in) == 0
	})
	seeded := s.lastSeeded()
	if p == nil || other == nil || seeded < 0 {
		return true
	}
	s.reconcileAt(other)
	s.reconcileAt(p)
	s.pass(watch.Every)
	s.startRound(p, "reconcile", reconcileRound)
	s.finishUntil(p, "reconcile", func() bool {
		return slices.ContainsFunc(s.waiting, func(r *request) bool { return r.conn.process == p && r.what == "HSET" })
	})
	s.older = true
	s.setBack(seeded)
	s.reconcileAt(other)
	s.pass(watch.SureFor + time.Duration(s.rng.IntN(200))*time.Millisecond)
	s.finish(p, "reconcile")
	s.reconcileAt(other)
	if other.alive && s.ageClicks() {
		s.buyAt(other, s.pickUser())
	}
	return true
}

// lastSeeded returns the number of calls to Redis before the last one that told the gate what it knows, or -1.
func (s *simulation) lastSeeded() int {
	for n := len(s.redis.log) - 1; n >= 0; n-- {
		args := s.redis.log[n].args
		if strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") && s.redis.scriptName(args) == "seed" && args[5] != "0" {
			return n
		}
	}
	return -1
}

// loseReply carries out a request at Redis, and loses the reply.
func (s *simulation) loseReply(r *request) {
	s.current = r.task
	r.run()
	s.remove(r)
	s.tracef("%s: the reply to %s is lost%s", r.conn.process.name, r.what, s.digest())
	r.conn.out.Reset()
	func() {
		defer r.answer(errNoReply)
		s.reachRequest(r)
		s.carriedOut(r)
	}()
	s.settleDown()
}

// doSellPast cuts a process from Redis, which then sells past the gate, and lets its buyer click at another process,
// which still has a gate that does not know the buyer.
func (s *simulation) doSellPast() bool {
	free := func(p *simProcess) bool { return !s.busy(p, "lane") && len(p.lane.in) == 0 }
	p := s.pick(free)
	other := s.pick(func(other *simProcess) bool { return other != p && !other.cut && free(other) })
	if p == nil || other == nil {
		return false
	}
	p.cut = true
	s.tracef("%s: cut from redis, sells past the gate", p.name)
	user := s.pickNewcomer()
	for range 5 { // the third failure takes the gate away
		if s.buyers[user].order != uuid.Nil || !s.buyAt(p, user) {
			break
		}
	}
	s.buyAt(other, user)
	return true
}

// finish serves the requests of one kind of task, in a process or in all, until there are none.
func (s *simulation) finish(p *simProcess, kind string) bool {
	return s.finishUntil(p, kind, func() bool { return false })
}

// finishUntil is finish until enough returns true.
func (s *simulation) finishUntil(p *simProcess, kind string, enough func() bool) bool {
	for range 30 {
		i := slices.IndexFunc(s.waiting, func(r *request) bool {
			if r.task == nil { // of a task that a timer woke
				return r.conn.process == p
			}
			return (p == nil || r.task.process == p) && r.task.kind == kind
		})
		if i < 0 || enough() {
			break
		}
		s.serve(s.waiting[i])
	}
	return true
}

func (s *simulation) round(kind string, f func(*simProcess, context.Context)) bool {
	p := s.pick(func(p *simProcess) bool { return !s.busy(p, kind) })
	if p == nil {
		return false
	}
	s.startRound(p, kind, f)
	return true
}

func (s *simulation) startRound(p *simProcess, kind string, f func(*simProcess, context.Context)) {
	s.start(p, kind, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, roundLimit)
		defer cancel()
		f(p, ctx)
	})
}

func reconcileRound(p *simProcess, ctx context.Context) { p.reconciler.tick(ctx) }
func reclaimRound(p *simProcess, ctx context.Context)   { p.reclaimer.tick(ctx) }
func beatRound(p *simProcess, ctx context.Context)      { p.beats.Round(ctx) }
func returnRound(p *simProcess, ctx context.Context)    { p.returns.bringBack(ctx) }
func expireRound(p *simProcess, ctx context.Context)    { p.orders.Expire(ctx) }

func (s *simulation) doReconcile() bool { return s.round("reconcile", reconcileRound) }
func (s *simulation) doReclaim() bool   { return s.round("reclaim", reclaimRound) }
func (s *simulation) doExpire() bool    { return s.round("expire", expireRound) }
func (s *simulation) doBeat() bool      { return s.round("beat", beatRound) }

// doReturn lets a process bring back the units that came back to it.
func (s *simulation) doReturn() bool {
	p := s.pick(func(p *simProcess) bool { return len(p.returns.sales) > 0 && !s.busy(p, "return") })
	if p != nil {
		s.startRound(p, "return", returnRound)
	}
	return p != nil
}

// doSilence lets seconds pass in which most processes beat, so that those which do not are dead.
func (s *simulation) doSilence() bool {
	if slices.ContainsFunc(s.tasks, func(t *simTask) bool { return t.kind == "lane" }) {
		return false
	}
	var beating []*simProcess
	for _, p := range s.processes {
		if s.rng.IntN(5) > 0 {
			beating = append(beating, p)
		}
	}
	for range 2 + s.rng.IntN(7) {
		s.pass(alive.BeatEvery)
		for _, p := range beating {
			if p.alive && !s.busy(p, "beat") {
				s.startRound(p, "beat", beatRound)
				s.finish(p, "beat")
			}
		}
	}
	return true
}

// doInherit lets a process queue the tickets of one that was killed, as if it had found its file.
func (s *simulation) doInherit() bool {
	if len(s.dead) == 0 {
		return false
	}
	dead := s.dead[s.rng.IntN(len(s.dead))]
	return s.round("inherit", func(p *simProcess, ctx context.Context) { p.reclaimer.look(ctx, dead) })
}

func (s *simulation) doResult() bool {
	p := s.pick(nil)
	if p == nil {
		return false
	}
	var users []int64
	for range 1 + s.rng.IntN(3) {
		users = append(users, int64(1+s.rng.IntN(s.plan.users)))
	}
	if s.rng.IntN(8) == 0 {
		users = append(users, poisoned)
	}
	s.askResults(p, users)
	return true
}

// askResults asks for results as gather does: all users in one call to each store.
func (s *simulation) askResults(p *simProcess, users []int64) {
	began := s.moment()
	var queries []*resultQuery
	for _, user := range users {
		if status, known := p.results.known(simSale, user); known {
			s.told(simReply{p, "result", user, began, status, nil})
			continue
		}
		queries = append(queries, &resultQuery{buyer: order.Buyer{SaleID: simSale, UserID: user}, at: time.Now(), reply: make(chan resultReply, 1)})
	}
	if len(queries) == 0 {
		return
	}
	s.start(p, "result", func(ctx context.Context) {
		p.readResults(ctx, queries)
		for _, q := range queries {
			select {
			case got := <-q.reply:
				s.hear(simReply{p, "result", q.buyer.UserID, began, got.Status, got.err})
			default: // another reader has it
			}
		}
	})
}

// readResults makes the two round trips of a result reader.
func (p *simProcess) readResults(ctx context.Context, queries []*resultQuery) {
	limited, cancel := context.WithTimeout(ctx, resultLimit)
	defer cancel()
	p.results.readGate(limited, queries)
	var second []*resultQuery
	for {
		select {
		case q := <-p.results.atPostgres:
			second = append(second, q)
			continue
		default:
		}
		break
	}
	limited, cancel = context.WithTimeout(ctx, resultLimit)
	defer cancel()
	if len(second) > 0 {
		p.results.readPostgres(limited, second)
	}
}

// confirm does what Engine.Buy does with a ticket of which its process is not sure.
func (s *simulation) confirm(c *simClick) {
	s.start(c.process, "confirm", func(ctx context.Context) {
		confirmed := make(chan struct{})
		go func() {
			defer close(confirmed)
			status, err := c.process.results.confirm(ctx, simSale, c.UserID, c.reply.err)
			s.hear(simReply{c.process, "buy", c.UserID, c.began, status, err})
		}()
		c.process.readResults(ctx, []*resultQuery{<-c.process.results.atGate})
		<-confirmed
	})
}

func (s *simulation) doAddress() bool {
	p := s.pick(nil)
	if p == nil {
		return false
	}
	user, began := int64(1+s.rng.IntN(s.plan.users)), s.moment()
	s.start(p, "address", func(ctx context.Context) {
		_, err := p.bigGate.admit(ctx, simSale, user, time.Now())
		if err != nil {
			s.hear(simReply{p, "address", user, began, Status{}, err})
		}
	})
	return true
}

// someOrder returns a committed order, or nil. If status is not "", it has this status.
func (s *simulation) someOrder(status string) *orderRow {
	var all []*orderRow
	for _, r := range s.model.orders {
		if r.committed != nil && (status == "" || r.committed.status == status) {
			all = append(all, r.committed)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[s.rng.IntN(len(all))]
}

func (s *simulation) atOrder(kind, status string, f func(ctx context.Context, p *simProcess, o *orderRow)) bool {
	p, o := s.pick(nil), s.someOrder(status)
	if p == nil || o == nil {
		return false
	}
	s.start(p, kind, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		f(ctx, p, o)
	})
	return true
}

func (s *simulation) doCancel() bool {
	return s.atOrder("cancel", "", func(ctx context.Context, p *simProcess, o *orderRow) { p.orders.Cancel(ctx, o.user, o.id) })
}

// doPay sends the provider's notice. The payments that a buyer opens before it decide nothing here, and are left out.
func (s *simulation) doPay() bool {
	return s.pay([]string{"", order.Pending}[s.rng.IntN(2)])
}

func (s *simulation) pay(status string) bool {
	s.refs += s.rng.IntN(2) // the provider sends some notices twice
	ref := "ref " + strconv.Itoa(s.refs)
	return s.atOrder("pay", status, func(ctx context.Context, p *simProcess, o *orderRow) {
		p.orders.Capture(ctx, order.Captured{Provider: order.Cashier, OrderID: o.id, Amount: o.price, Ref: ref})
	})
}

func (s *simulation) doRefund() bool {
	if s.someOrder(order.Paid) == nil {
		s.pay(order.Pending)
		s.finish(nil, "pay")
	}
	return s.atOrder("refund", order.Paid, func(ctx context.Context, p *simProcess, o *orderRow) { p.orders.Refund(ctx, o.id) })
}

// doWait lets a short time pass, so that no click reaches its limit meanwhile.
func (s *simulation) doWait() bool {
	d := time.Duration(1+s.rng.IntN(60)) * time.Millisecond
	if s.rng.IntN(3) == 0 {
		d = time.Duration(100+s.rng.IntN(350)) * time.Millisecond
	}
	if slices.ContainsFunc(s.clicks, func(c *simClick) bool { return time.Since(c.at)+d > waitLimit*6/10 }) {
		d = min(d, 2*time.Millisecond)
	}
	s.pass(d)
	return true
}

// doWaitLong lets entries grow old, and time limits end. A click that has waited for seconds may
// be served or not at random, so no lane is at work.
func (s *simulation) doWaitLong() bool {
	if slices.ContainsFunc(s.tasks, func(t *simTask) bool { return t.kind == "lane" }) {
		return false
	}
	s.pass(time.Duration(300+s.rng.IntN(6000)) * time.Millisecond)
	return true
}

func (s *simulation) pass(d time.Duration) {
	s.tracef("%v pass", d)
	s.mu.Lock() // for the detector of races: a goroutine that a timer wakes reads what was written before
	s.current = nil
	s.mu.Unlock()
	time.Sleep(d)
	s.redis.FastForward(d) // what expires in it expires by this alone
	s.settleDown()
}

func (s *simulation) doDeliver() bool {
	if len(s.delayed) == 0 {
		return false
	}
	s.deliver(s.delayed[s.rng.IntN(len(s.delayed))])
	return true
}

// doState sets the sale's state, as an administrator does by hand.
func (s *simulation) doState() bool {
	return s.setState([]string{goods.Paused, goods.Published, goods.Draft, goods.Published, goods.Closed}[s.rng.IntN(5)])
}

func (s *simulation) setState(state string) bool {
	return s.administer("state "+state, func(ctx context.Context) error {
		_, err := s.admin.pool.Exec(ctx, `update sales set state = $2 where id = $1`, simSale, state)
		return err
	})
}

// doWindow moves the window by hand: around now, a day ahead, or days into the past.
func (s *simulation) doWindow() bool {
	if !s.moveTo([]time.Duration{0, 0, 25 * time.Hour, -72 * time.Hour, -25 * time.Hour}[s.rng.IntN(5)]) {
		return false
	}
	if p := s.pick(func(p *simProcess) bool { return !s.busy(p, "reconcile") }); p != nil && s.rng.IntN(2) == 0 {
		s.finish(s.admin, "change")
		s.reconcileAt(p)
		s.doAddress()
	}
	return true
}

// moveTo moves the window, which is a day long, so that it opens a minute ago plus d.
func (s *simulation) moveTo(d time.Duration) bool {
	starts := now().Add(d - time.Minute)
	return s.administer(fmt.Sprint("window ", d), func(ctx context.Context) error {
		_, err := s.admin.pool.Exec(ctx, `update sales set starts_at = $2, ends_at = $3 where id = $1`, simSale, starts, starts.Add(24*time.Hour))
		return err
	})
}

// doUnits adds units to the sale, or takes them back, by the command or by hand.
func (s *simulation) doUnits() bool {
	n, byHand := []int{1, 2, -1}[s.rng.IntN(3)], s.rng.IntN(2) == 0
	return s.administer(fmt.Sprint("units ", n), func(ctx context.Context) error {
		if !byHand {
			_, err := goods.New(s.admin.pool).AddUnits(ctx, simSale, n)
			return err
		}
		_, err := s.admin.pool.Exec(ctx, `update sales set total = total + $2 where id = $1`, simSale, n)
		return err
	})
}

// administer changes the sale, one change at a time.
func (s *simulation) administer(what string, do func(ctx context.Context) error) bool {
	if s.busy(s.admin, "change") {
		return false
	}
	s.tracef("admin: %s", what)
	s.start(s.admin, "change", func(ctx context.Context) { do(ctx) })
	return true
}

// poisoned is a user whose orders Postgres refuses.
const poisoned = -1

func (s *simulation) doPoison() bool {
	if p := s.pickIdle(); p != nil && s.rng.IntN(2) == 0 { // in one go
		s.buyAt(p, poisoned)
		if p.alive && !s.busy(p, "settle") && p.queue.Ready() {
			s.startSettle(p)
			s.finishUntil(p, "settle", func() bool { return s.isRefused(poisoned) })
			s.askResults(p, []int64{poisoned})
			if s.rng.IntN(2) == 0 { // before it acknowledges the result: the next process settles the ticket again
				s.die(p)
			}
		}
		return true
	}
	if p := s.pick(nil); p != nil {
		s.clickAt(p, poisoned)
		return true
	}
	return false
}

func (s *simulation) doKill() bool {
	p := s.pick(nil)
	if p == nil {
		return false
	}
	s.tracef("%s: killed", p.name)
	s.killed = true
	s.kill(p)
	return true
}

func (s *simulation) doBoot() bool {
	for _, p := range s.processes {
		if !p.alive {
			s.tracef("%s: starts", p.name)
			s.boot(p)
			return true
		}
	}
	return false
}

func (s *simulation) doRedis() bool {
	s.redisMode = storeMode(s.rng.IntN(3))
	s.tracef("redis: mode %d", s.redisMode)
	return true
}

func (s *simulation) doPostgres() bool {
	s.pgMode = storeMode(s.rng.IntN(3))
	s.tracef("postgres: mode %d", s.pgMode)
	return true
}

func (s *simulation) doCut() bool {
	p := s.pick(nil)
	if p == nil {
		return false
	}
	p.cut = !p.cut
	s.tracef("%s: cut from redis: %v", p.name, p.cut)
	return true
}

func (s *simulation) doSnapshot() bool {
	n := len(s.redis.log)
	s.older = true
	s.setBack(n - s.rng.IntN(min(n, 40)+1))
	return true
}

func (s *simulation) doEmpty() bool {
	s.setBack(0)
	return true
}

// setBack restores Redis from its first n calls. Tickets that are not in the journal any more, and
// have no result, are lost. A restart takes time: two lives of Redis never make entries in the same
// millisecond.
func (s *simulation) setBack(n int) {
	s.pass(2 * time.Millisecond)
	s.redis.restore(n)
	s.dataLost, s.backAt = true, time.Now()
	s.journal = map[string]bool{}
	s.readJournal()
	for ticket := range s.granted {
		s.lost[ticket] = !s.journal[ticket] && s.model.resultOf(nil, ticket) == nil
	}
	s.tracef("redis: set back to call %d%s", n, s.digest())
}

// readJournal returns the tickets in the journal.
func (s *simulation) readJournal() {
	s.journal = map[string]bool{}
	entries, _ := s.redis.Stream(gate.JournalKey(simSale))
	for _, e := range entries {
		values := map[string]string{}
		for i := 0; i+1 < len(e.Values); i += 2 {
			values[e.Values[i]] = e.Values[i+1]
		}
		words := strings.Fields(values["tickets"])
		for i := 0; i+1 < len(words); i += 2 {
			ticket := values["epoch"] + ":" + e.ID + ":" + words[i+1]
			s.journal[ticket] = true
			s.granted[ticket], _ = strconv.ParseInt(words[i], 10, 64)
		}
	}
}
