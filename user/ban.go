package user

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/rounds"
)

const (
	banEvery = time.Second // between two looks at the bans; a new one is known everywhere after two looks
	// of one look: to count 1,000 users takes the Redis in the process 0.35 s on a quiet machine
	banLimit   = 3 * time.Second
	maxBans    = 10_000 // that a process knows
	maxRefused = 1_000  // users whose refusals a process counts between two looks
	longestBan = 100 * time.Hour
)

//go:embed ban.lua
var banSource string
var banScript = redis.NewScript(banSource)

// BanConfig says who is banned.
type BanConfig struct {
	Ban    string        `name:"ban" env:"MIAOSHA_BAN" default:"300/10min" help:"Refusals (429) after which a user cannot buy for a while; off for no bans."`
	BanFor time.Duration `name:"ban-for" env:"MIAOSHA_BAN_FOR" default:"10m" help:"How long such a user cannot buy."`
}

// Validate returns an error that names the setting.
func (c BanConfig) Validate() error {
	_, err := c.limit()
	return err
}

// limit returns how many refusals a user may have; the zero Limit if no one is banned.
func (c BanConfig) limit() (Limit, error) {
	if c.BanFor < time.Millisecond || c.BanFor > longestBan {
		return Limit{}, fmt.Errorf("--ban-for: %v is not between 1ms and %v", c.BanFor, longestBan)
	}
	if c.Ban == "off" {
		return Limit{}, nil
	}
	r, err := ParseRate(c.Ban)
	if err == nil && r.Refill() < time.Millisecond {
		err = fmt.Errorf("%q is more than 1000 a second", c.Ban)
	}
	if err != nil {
		return Limit{}, fmt.Errorf("--ban: %w, or off", err)
	}
	return NewLimit(r), nil
}

// Bans keeps users who are refused too often from buying, for a time. A ban is of an account and never of an
// address: a class sits behind one.
//
// Refusals are counted, and bans kept, in Redis for all processes. This process has a copy of the bans, which
// it renews every second, so a request asks no store. While Redis is down, there are no new bans, and those of
// the copy end in their time. A nil *Bans bans no one.
type Bans struct {
	rdb   redis.UniversalClient
	limit Limit
	cfg   BanConfig
	log   *slog.Logger
	until atomic.Pointer[map[int64]time.Time] // the copy: users and the ends of their bans
	begun prometheus.Counter
	looks *rounds.Rounds

	mu      sync.Mutex
	refused map[int64]int // refusals since the last look
}

// NewBans returns the bans of a shop, nil if the settings switch them off. Nothing starts before Run is called.
func NewBans(rdb redis.UniversalClient, cfg BanConfig, log *slog.Logger) (*Bans, error) {
	limit, err := cfg.limit()
	if err != nil || limit == (Limit{}) {
		return nil, err
	}
	b := &Bans{rdb: rdb, limit: limit, cfg: cfg, log: log, looks: rounds.New(), refused: map[int64]int{},
		begun: prometheus.NewCounter(prometheus.CounterOpts{Name: "miaosha_bans_total",
			Help: "Users whom this process has banned because they were refused too often."})}
	b.until.Store(&map[int64]time.Time{})
	return b, nil
}

// Run counts refusals and renews the copy of the bans until ctx ends.
func (b *Bans) Run(ctx context.Context) error {
	if b == nil {
		return nil
	}
	failing := false
	b.looks.Run(ctx, banLimit, rounds.Every(banEvery), func(look context.Context) {
		err := b.look(look)
		if err != nil && ctx.Err() == nil && !failing { // once, until it works again
			b.log.Warn("bans are not renewed, and no one is banned", "err", err)
		}
		failing = err != nil
	})
	return nil
}

// Check returns a BannedError for a user who is banned. It asks no store.
func (b *Bans) Check(userID int64) error {
	if b == nil {
		return nil
	}
	if until, banned := (*b.until.Load())[userID]; banned {
		if left := time.Until(until); left > 0 {
			return BannedError{left}
		}
	}
	return nil
}

// Refused counts an answer that refused a user because of the user's own limit.
func (b *Bans) Refused(userID int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, counted := b.refused[userID]; counted || len(b.refused) < maxRefused {
		b.refused[userID]++
	}
}

// look counts the refusals since the last look, bans users who had too many, and renews the copy. Refusals that
// Redis did not count are forgotten.
func (b *Bans) look(ctx context.Context) error {
	b.mu.Lock()
	refused := b.refused
	b.refused = map[int64]int{}
	b.mu.Unlock()
	tooOften, err := b.count(ctx, refused)
	if err != nil {
		return err
	}
	began := time.Now()
	begun, left, err := runBans(ctx, b.rdb, b.cfg.BanFor, tooOften...)
	if err != nil {
		return err
	}
	_, err = b.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range begun { // after the ban the count begins from zero
			b.log.Info("user banned", "user", id, "for", b.cfg.BanFor)
			b.begun.Inc()
			p.Del(ctx, refusedKey(id))
		}
		return nil
	})
	if err != nil {
		return fault(err, "forget refusals")
	}
	until := make(map[int64]time.Time, len(left))
	for id, left := range left {
		until[id] = began.Add(left)
	}
	b.until.Store(&until)
	return nil
}

// count counts refusals and returns the users who had too many.
func (b *Bans) count(ctx context.Context, refused map[int64]int) (tooOften []any, err error) {
	waits := make(map[int64]*redis.Cmd, len(refused))
	_, err = b.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for id, n := range refused {
			waits[id] = limitTake.Eval(ctx, p, []string{refusedKey(id)}, b.limit.Refill().Milliseconds(),
				b.limit.Burst, n)
		}
		return nil
	})
	if err != nil {
		return nil, fault(err, "count refusals")
	}
	for id, wait := range waits {
		if ms, err := wait.Int64(); err != nil {
			return nil, fmt.Errorf("count refusals: %w", err)
		} else if ms > 0 {
			tooOften = append(tooOften, id)
		}
	}
	return tooOften, nil
}

// runBans bans users for a time. It returns those who were not banned before, and what is left of all bans.
func runBans(
	ctx context.Context, rdb redis.UniversalClient, life time.Duration, users ...any,
) (begun []int64, left map[int64]time.Duration, err error) {
	reply, err := banScript.Run(ctx, rdb, []string{bansKey},
		append([]any{life.Milliseconds(), maxBans}, users...)...).Slice()
	if err != nil {
		return nil, nil, fault(err, "read the bans")
	}
	var lists [2][]int64
	for i := range lists {
		list, _ := reply[i].([]any)
		for _, text := range list {
			n, err := strconv.ParseInt(fmt.Sprint(text), 10, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("read the bans: %w", err)
			}
			lists[i] = append(lists[i], n)
		}
	}
	left = make(map[int64]time.Duration, len(lists[1])/2)
	for i := 0; i+1 < len(lists[1]); i += 2 {
		left[lists[1][i]] = time.Duration(lists[1][i+1]) * time.Millisecond
	}
	return lists[0], left, nil
}

// Collectors returns the metrics.
func (b *Bans) Collectors() []prometheus.Collector {
	if b == nil {
		return nil
	}
	return []prometheus.Collector{b.begun, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_banned_users",
		Help: "Users who cannot buy now because they were refused too often."},
		func() (n float64) {
			for id := range *b.until.Load() {
				if b.Check(id) != nil {
					n++
				}
			}
			return n
		})}
}

// Ban is a ban of a user.
type Ban struct {
	UserID int64
	Phone  string
	Left   time.Duration `db:"-"`
}

// Bans returns the bans, in the order of the users' ids.
func (s *Store) Bans(ctx context.Context) ([]Ban, error) {
	_, left, err := runBans(ctx, s.counts.limits.rdb, 0)
	if err != nil {
		return nil, err
	}
	rows, _ := s.db.Query(ctx, `select id as user_id, phone from users where id = any($1) order by id`, slices.Collect(maps.Keys(left)))
	bans, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[Ban])
	if err != nil {
		return nil, fault(err, "read the banned accounts")
	}
	for i := range bans {
		bans[i].Left = left[bans[i].UserID]
	}
	return bans, nil
}

// LiftBan ends the ban of the account that has the phone, in every process within a second, and reports whether there
// was one. The count of refusals begins from zero. A ban that it lifts is a line in the log of the staff before it is
// lifted. ErrNotFound.
func (s *Store) LiftBan(ctx context.Context, phone string) (bool, error) {
	a, err := s.byPhone(ctx, phone)
	if err != nil {
		return false, err
	}
	rdb := s.counts.limits.rdb
	if err := rdb.Del(ctx, refusedKey(a.ID)).Err(); err != nil {
		return false, fault(err, "forget refusals")
	}
	if err := rdb.ZScore(ctx, bansKey, strconv.FormatInt(a.ID, 10)).Err(); err == redis.Nil {
		return false, nil
	} else if err != nil {
		return false, fault(err, "look for a ban")
	}
	_, err = s.db.Exec(ctx, `
		insert into admin_log (origin, action, subject) values ('miaosha ban lift', 'user.unban', 'user ' || $1::bigint)`, a.ID)
	if err != nil {
		return false, fault(err, "log the end of a ban")
	}
	lifted, err := rdb.ZRem(ctx, bansKey, a.ID).Result()
	if err != nil {
		return false, fault(err, "lift a ban")
	}
	return lifted > 0, nil
}
