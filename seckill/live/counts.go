package live

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Step is a request of a purchase whose answers are counted.
type Step int

const (
	Address Step = iota // for a hidden address
	Buy
	steps int = iota
)

// Answer is what a buyer was told.
type Answer int

const (
	Accepted Answer = iota
	SoldOut
	NotStarted
	Ended
	Paused
	WrongCaptcha
	Busy
	TooMany
	BadAddress
	NotLoggedIn
	Other
	answers int = iota

	lastOfASale = WrongCaptcha // an answer up to this one is told only of a sale that exists
)

var stepNames = [steps]string{"path", "buy"}

var answerNames = [answers]string{"ok", "sold_out", "not_started", "ended", "paused", "wrong_captcha", "busy",
	"too_many", "bad_path", "not_logged_in", "other"}

// Counts counts the answers of this process, each by two atomic additions. A nil Counts counts nothing.
type Counts struct {
	requests atomic.Int64
	shop     tally
	bySale   sync.Map // sale id -> *tally
	took     prometheus.Histogram
}

type tally [steps][answers]atomic.Int64

// NewCounts returns Counts.
func NewCounts() *Counts {
	return &Counts{took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_buy_seconds",
		Help: "How long a buy request took.", Buckets: prometheus.ExponentialBuckets(0.0001, 1.4, 34)})}
}

// Request counts one request of any kind.
func (c *Counts) Request() {
	if c != nil {
		c.requests.Add(1)
	}
}

// Answered counts an answer for the shop and for the sale. A sale has counts of its own from the first answer on that
// shows that it exists: so the number of sales bounds them, whatever ids clients send.
func (c *Counts) Answered(sale int64, s Step, a Answer, took time.Duration) {
	if c == nil {
		return
	}
	c.shop[s][a].Add(1)
	if s == Buy {
		c.took.Observe(took.Seconds())
	}
	t, ok := c.bySale.Load(sale)
	if !ok && a <= lastOfASale {
		t, _ = c.bySale.LoadOrStore(sale, &tally{})
	}
	if t != nil {
		t.(*tally)[s][a].Add(1)
	}
}

// addTo adds the counts above zero to counters, such as buy.sold_out.
func (t *tally) addTo(counters map[string]int64) {
	for s := range t {
		for a := range t[s] {
			if n := t[s][a].Load(); n > 0 {
				counters[stepNames[s]+"."+answerNames[a]] = n
			}
		}
	}
}
