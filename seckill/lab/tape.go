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

// Step is one thing that a buyer's click did.
type Step struct {
	Buyer  int     `json:"buyer"` // 1 or 2
	At     float64 `json:"at_ms"`
	Took   float64 `json:"took_ms"`
	Kind   string  `json:"kind"` // sql, redis, code or answer
	Text   string  `json:"text"` // on one line
	Result string  `json:"result"`
}

// tape records the steps of two nodes that serve one buyer each. A nil tape records nothing.
type tape struct {
	mu    sync.Mutex
	began time.Time
	steps []Step
}

// begin notes the start of a step and gives its number.
func (t *tape) begin(node int, kind, text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, Step{Buyer: node + 1, At: millis(time.Since(t.began)), Kind: kind, Text: oneLine(text)})
	return len(t.steps) - 1
}

// end notes how long it took and what it gave.
func (t *tape) end(i int, result string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < 0 || i >= len(t.steps) {
		return
	}
	s := &t.steps[i]
	s.Took = max(s.Took, millis(time.Since(t.began))-s.At)
	if s.Result = oneLine(result); err != nil {
		s.Result = oneLine(err.Error())
	}
}

// step begins a step, and gives what ends it.
func (t *tape) step(node int, kind, text string) func(result string) {
	if t == nil || node == looker {
		return func(string) {}
	}
	i := t.begin(node, kind, text)
	return func(result string) { t.end(i, result, nil) }
}

func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

const longestText = 300

// oneLine puts a text on one line, and cuts what nobody would read.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > longestText {
		text = string(r[:longestText]) + " …"
	}
	return text
}

var parameter = regexp.MustCompile(`\$\d+`)

// withArgs is a statement as one would type it.
func withArgs(sql string, args []any) string {
	return parameter.ReplaceAllStringFunc(sql, func(p string) string {
		if n, err := strconv.Atoi(p[1:]); err == nil && n <= len(args) {
			return fmt.Sprint(args[n-1])
		}
		return p
	})
}

func reply(c redis.Cmder) string {
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

// restart forgets what it took to get ready.
func (t *tape) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps, t.began = nil, time.Now()
}

// stop gives the steps so far, in the order in which they began. One that a buyer did several times in a row, to the same
// end, is there once.
func (t *tape) stop() (steps []Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	last, times := map[int]int{}, map[int]int{} // a buyer's latest step, and how often he did it
	for _, s := range t.steps {
		i, has := last[s.Buyer]
		if has && steps[i].Kind == s.Kind && steps[i].Text == s.Text && steps[i].Result == s.Result {
			steps[i].Took = s.At + s.Took - steps[i].At
			times[i]++
			continue
		}
		last[s.Buyer] = len(steps)
		steps = append(steps, s)
	}
	for i, n := range times {
		steps[i].Result += fmt.Sprintf(", %d times", n+1)
	}
	t.steps = nil
	return steps
}
