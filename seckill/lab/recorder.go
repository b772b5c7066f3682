package lab

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Step is one action of a buyer's click.
type Step struct {
	Buyer  int     `json:"buyer"` // the click: 1 or 2, which may be of one buyer
	At     float64 `json:"at_ms"`
	Took   float64 `json:"took_ms"`
	Kind   string  `json:"kind"` // sql, redis, code or answer
	Text   string  `json:"text"` // on one line; the page translates that of code and answer
	Result string  `json:"result"`
	Times  int     `json:"times"` // how often, one after the other
}

// recorder records the steps of two nodes that serve one click each. A nil recorder records nothing.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	steps []Step
}

// begin records the start of a step and returns its number.
func (r *recorder) begin(node int, kind, text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, Step{Buyer: node + 1, At: Millis(time.Since(r.began)), Kind: kind,
		Text: OneLine(text), Times: 1})
	return len(r.steps) - 1
}

// end records how long a step took, and its result.
func (r *recorder) end(i int, result string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < 0 || i >= len(r.steps) {
		return
	}
	s := &r.steps[i]
	s.Took = max(s.Took, Millis(time.Since(r.began))-s.At)
	if s.Result = OneLine(result); err != nil {
		s.Result = OneLine(err.Error())
	}
}

// step records the start of a step and returns the function that records its end.
func (r *recorder) step(node int, kind, text string) func(result string) {
	if r == nil || node == ObserverID {
		return func(string) {}
	}
	i := r.begin(node, kind, text)
	return func(result string) { r.end(i, result, nil) }
}

func Millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

const longestText = 300 // characters of a step's text or result

// OneLine puts a text on one line and cuts it at longestText.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestText {
		text = string(runes[:longestText]) + " …"
	}
	return text
}

var parameter = regexp.MustCompile(`\$\d+`)

// WithArgs returns a statement with its arguments in place of $1, $2 and so on.
func WithArgs(sql string, args []any) string {
	return parameter.ReplaceAllStringFunc(sql, func(p string) string {
		if n, err := strconv.Atoi(p[1:]); err == nil && n <= len(args) {
			return fmt.Sprint(args[n-1])
		}
		return p
	})
}

func formatReply(c redis.Cmder) string {
	if err := c.Err(); err != nil {
		return err.Error()
	}
	switch c := c.(type) {
	case *redis.IntCmd:
		return strconv.FormatInt(c.Val(), 10)
	case *redis.StringCmd:
		return c.Val()
	case *redis.BoolCmd:
		return strconv.FormatBool(c.Val())
	case *redis.StatusCmd:
		return c.Val()
	case *redis.Cmd:
		return fmt.Sprint(c.Val())
	}
	return "ok"
}

// restart forgets the steps so far, which prepared the race.
func (r *recorder) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps, r.began = nil, time.Now()
}

// stop returns the steps in the order of their start. A step that a buyer repeats with the same
// result, such as a failed try to get a lock, is one step.
func (r *recorder) stop() (steps []Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	last := map[int]int{} // by buyer: the latest step
	for _, s := range r.steps {
		i, ok := last[s.Buyer]
		if ok && steps[i].Kind == s.Kind && steps[i].Text == s.Text && steps[i].Result == s.Result {
			steps[i].Took = s.At + s.Took - steps[i].At
			steps[i].Times++
			continue
		}
		last[s.Buyer] = len(steps)
		steps = append(steps, s)
	}
	r.steps = nil
	return steps
}
