package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// View is the shop at one moment. It does not change.
type View struct {
	common common
	scopes map[int64]scopeView
	staff  []Process
	guests []Process
}

// Process is one process of the shop. Guests see only whether it is there.
type Process struct {
	Name       string  `json:"name,omitempty"`
	Version    string  `json:"version,omitempty"`
	UpSeconds  float64 `json:"up_s,omitempty"`
	Memory     uint64  `json:"memory,omitempty"` // bytes
	Goroutines uint64  `json:"goroutines,omitempty"`
	Breaker    string  `json:"breaker,omitempty"`
	Queued     int     `json:"queued,omitempty"`
	State      string  `json:"state"`               // here, missing, or unknown while Redis is down
	SilentMS   int64   `json:"silent_ms,omitempty"` // of one that is missing
}

// Peak is the highest rate of a second, and when it was.
type Peak struct {
	PerSecond float64 `json:"per_second"`
	At        int64   `json:"at"` // Unix seconds
}

// common is the same for every scope.
type common struct {
	At       string `json:"at"`
	Redis    string `json:"redis"`    // ok, or away: then rates are of this process alone
	Postgres string `json:"postgres"` // ok, or away: then units and orders are as old as units.age_ms
	Breaker  string `json:"breaker"`  // the worst of all processes
	// of the last ten seconds, in the whole shop; null without an observation
	Latency map[string]*latency `json:"latency"`
}

// units are the truth of Postgres.
type units struct {
	Total int `json:"total"`
	Left  int `json:"left"`
	Sold  int `json:"sold"`
	*Orders
	AgeMS        int64 `json:"age_ms"`         // of total, left and sold
	CountedAgeMS int64 `json:"counted_age_ms"` // of the others; without a meaning while there are none
}

type scopeView struct {
	Tracked  bool                `json:"tracked"` // whether figures of this sale are kept
	Sale     *saleView           `json:"sale"`    // null for the whole shop
	Units    *units              `json:"units"`   // null if they are not known
	Rates    map[string]float64  `json:"rates"`   // a second
	Totals   map[string]int64    `json:"totals"`  // since the processes began
	Peaks    map[string]Peak     `json:"peaks"`
	OldestMS int64               `json:"oldest_ms"` // of all sales together
	Point    map[string]*float32 `json:"point"`
	Sales    []saleView          `json:"sales,omitempty"`
}

type saleView struct {
	ID      int64     `json:"id"`
	Title   string    `json:"title"`
	TitleEN string    `json:"title_en"`
	State   string    `json:"state"`
	StartAt time.Time `json:"start_at"`
	EndAt   time.Time `json:"end_at"`
	Total   int       `json:"total"`
	Left    int       `json:"left"`
	Rate    float64   `json:"rate"` // buy requests a second
}

// fresh is how old totals are at most while Postgres replies.
const fresh = 3 * time.Second

// view makes the View of this second, and adds the second to every history. now is local, at is the clock of Redis.
func (m *Monitor) view(now, at time.Time, redisHere bool) *View {
	v := &View{scopes: map[int64]scopeView{}}
	v.common = common{At: at.UTC().Format("2006-01-02T15:04:05.000Z"), Redis: "ok", Postgres: "ok",
		Breaker: m.worstBreaker(now),
		Latency: map[string]*latency{
			"buy":      m.sums.latencyOf(func(l latencies) observed { return l.buy }),
			"redis":    m.sums.latencyOf(func(l latencies) observed { return l.redis }),
			"postgres": m.sums.latencyOf(func(l latencies) observed { return l.postgres })}}
	if !redisHere {
		v.common.Redis = "away"
	}
	if at.Sub(m.totals.At) > fresh {
		v.common.Postgres = "away"
	}
	v.staff = m.processes(now, at, redisHere)
	for _, p := range v.staff {
		v.guests = append(v.guests, Process{State: p.State, SilentMS: p.SilentMS})
	}
	whole := redisHere || len(v.staff) == 1
	m.track()
	for id, s := range m.scopes {
		v.scopes[id] = m.scopeView(id, s, now, at, v.common, whole)
	}
	return v
}

// track makes a scope for each sale with totals and for the shop, and ends the others.
func (m *Monitor) track() {
	tracked := map[int64]bool{shop: true}
	for _, s := range m.totals.Sales {
		tracked[s.ID] = true
	}
	for id := range tracked {
		if m.scopes[id] == nil {
			m.scopes[id] = &scope{peaks: map[string]Peak{}}
		}
	}
	maps.DeleteFunc(m.scopes, func(id int64, _ *scope) bool { return !tracked[id] })
}

func (m *Monitor) scopeView(id int64, s *scope, now, at time.Time, c common, whole bool) scopeView {
	v := scopeView{Tracked: true, Rates: m.sums.rate(now, id), Totals: m.sums.total(id),
		OldestMS: m.sums.oldest(now).Milliseconds()}
	t, known := m.totals.of(id)
	if known {
		v.Units = &units{Total: t.Total, Left: t.Left, Sold: t.Total - t.Left, Orders: t.Orders,
			AgeMS: at.Sub(m.totals.At).Milliseconds(), CountedAgeMS: at.Sub(m.totals.Counted).Milliseconds()}
	}
	if paid, known := m.paid[id]; known && c.Postgres == "ok" {
		v.Rates["paid"] = paid
	}
	p := newPoint(v, c, whole)
	s.add(at, p)
	s.encoded = nil
	for i, name := range pointNames[:ratePaid+1] {
		if r := float64(p[i]); r > s.peaks[name].PerSecond {
			s.peaks[name] = Peak{r, at.Unix()}
		}
	}
	v.Peaks, v.Point = maps.Clone(s.peaks), p.named()
	if id != shop {
		v.Sale = t.view(v.Point["requests"])
		return v
	}
	for _, t := range m.totals.Sales {
		r := float32(clicks(m.sums.rate(now, t.ID)))
		v.Sales = append(v.Sales, *t.view(&r))
	}
	return v
}

func (s sale) view(rate *float32) *saleView {
	v := &saleView{s.ID, s.Title, s.TitleEN, s.State, s.StartAt, s.EndAt, s.Total, s.Left, 0}
	if rate != nil {
		v.Rate = float64(*rate)
	}
	return v
}

// clicks returns how many buy requests there are among the rates.
func clicks(rates map[string]float64) (all float64) {
	for name, r := range rates {
		if strings.HasPrefix(name, "buy.") {
			all += r
		}
	}
	return all
}

// newPoint returns the point of a second. What another process may have done meanwhile is not known unless whole is
// true.
func newPoint(v scopeView, c common, whole bool) (p point) {
	for i := range p {
		p[i] = float32(math.NaN())
	}
	if whole {
		all := clicks(v.Rates)
		p[rateRequests], p[rateRefused] = float32(all), float32(all-v.Rates["buy.ok"])
		p[rateTickets], p[rateOrders], p[oldestMS] = float32(v.Rates[tickets]), float32(
			v.Rates[orders]), float32(v.OldestMS)
	}
	if paid, known := v.Rates["paid"]; known {
		p[ratePaid] = float32(paid)
	}
	if v.Units != nil && c.Postgres == "ok" {
		p[unitsLeft] = float32(v.Units.Left)
	}
	for i, name := range map[int]string{buyP99: "buy", redisP99: "redis", postgresP99: "postgres"} {
		if l := c.Latency[name]; l != nil {
			p[i] = float32(l.P99)
		}
	}
	return p
}

func (p point) named() map[string]*float32 {
	named := map[string]*float32{}
	for i, name := range pointNames {
		if named[name] = nil; !math.IsNaN(float64(p[i])) {
			named[name] = &p[i]
		}
	}
	return named
}

// processes lists this process, the others that wrote within forgetAfter, and, while Redis is down, those that were
// heard before.
func (m *Monitor) processes(now, at time.Time, redisHere bool) (all []Process) {
	names := map[string]bool{m.name: true}
	for name := range m.wrote {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := Process{Name: name, State: "here"}
		if known := m.sums.processes[name]; known != nil {
			f := known.figures
			p = Process{name, f.Version, f.Up.Seconds(), f.Memory, f.Goroutines, f.Breaker, f.Queued, "here", 0}
		}
		switch silent := at.Sub(m.wrote[name]); {
		case name == m.name:
		case !redisHere:
			p.State = "unknown"
		case silent >= missingAfter:
			p.State, p.SilentMS = "missing", silent.Milliseconds()
		}
		all = append(all, p)
	}
	return all
}

// worstBreaker returns the state of the breaker that is furthest from closed.
func (m *Monitor) worstBreaker(now time.Time) (worst string) {
	order := []string{"", "off", "closed", "half-open", "open"}
	for _, p := range m.sums.processes {
		if now.Sub(p.heard) < holdRate && slices.Index(order, p.Breaker) > slices.Index(order, worst) {
			worst = p.Breaker
		}
	}
	return worst
}

// Event returns a live event for a sale, or with 0 for the whole shop. Guests see no names of processes.
func (v *View) Event(sale int64, guest bool) ([]byte, error) {
	s, tracked := v.scopes[sale]
	if !tracked {
		s = scopeView{}
	}
	processes := v.staff
	if guest {
		processes = v.guests
	}
	b, err := json.Marshal(struct {
		common
		scopeView
		Processes []Process `json:"processes"`
	}{v.common, s, processes})
	if err != nil {
		return nil, fmt.Errorf("encode a live event: %w", err)
	}
	return b, nil
}

// History returns what is kept of a sale, or with 0 of the whole shop. It is encoded once a second, for all who come:
// that takes milliseconds, and a crowd comes at an opening.
func (m *Monitor) History(sale int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.scopes[sale]
	if s == nil {
		s = &scope{} // of a sale that is not tracked yet
	}
	if s.encoded == nil {
		b, err := json.Marshal(s.history())
		if err != nil {
			return nil, fmt.Errorf("encode the history: %w", err)
		}
		s.encoded = b
	}
	return s.encoded, nil
}
