//go:build faults && linux

package faults

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var table struct {
	mu   sync.Mutex
	rows []string
}

const legend = `How to read it. Each line is a sale of its own; "none" breaks nothing and is what the others are measured by. Buy answers are
counted by request: who clicks twice, is told busy or loses a connection asks again, and units that are cancelled are sold
again, so there are more answers than buyers and more tickets and orders than units. *Orders*: of so many the buyers were told.
What was sold is held against Postgres unit by unit ("all hold"): I1 to I11 are in the project's README. *During the fault*: of
the requests sent while it lasted; "-" where it took no time. *Gate right after*: how long after the last fault the gate in Redis
offered what Postgres has. *Old tickets settled after*: how long until every ticket accepted before that had its outcome. The
lines that wipe Redis keep the sessions in another one. Counters say that each way of getting well was gone: dead letters are the
poison that one line puts in by hand.

`

const tableHead = `| fault | buyers / units | orders | buy: queued, ordered, sold out, busy, no answer | buy ms: p50, p99, max | during the fault: p50, p99 | result known: p99 ms | gate right after | old tickets settled after | invariants |
|---|---|---|---|---|---|---|---|---|---|
`

// addRow writes down what a scenario's buyers saw.
func addRow(w *World, c *Crowd, back recovery) {
	buys := c.ledger.all(of("buy"))
	var queued, ordered, soldOut, busy, none int
	for _, a := range buys {
		switch {
		case a.Status == 0:
			none++
		case a.Data.State == "queued":
			queued++
		case a.Data.State == "ordered":
			ordered++
		case a.Code == "sold_out":
			soldOut++
		case a.Status == 503 || a.Status == 429:
			busy++
		}
	}
	all, within := latencies(buys), latencies(w.during(buys))
	held := "all hold"
	if broken := w.Broken(); len(broken) > 0 {
		var names []string
		for _, b := range broken {
			name, _, _ := strings.Cut(b, ":")
			names = append(names, name)
		}
		slices.Sort(names)
		held = "BROKEN " + strings.Join(slices.Compact(names), ", ")
	}
	name := w.sc.name
	if w.sc.detail != "" {
		name += ": " + w.sc.detail
	}
	row := fmt.Sprintf("| %s | %d / %d | %d | %d, %d, %d, %d, %d | %s, %s, %s | %s, %s | %s | %s | %s | %s |\n", name, c.plan.buyers, c.plan.units,
		c.ordered.Load(), queued, ordered, soldOut, busy, none, ms(quantile(all, 0.5)), ms(quantile(all, 0.99)), ms(quantile(all, 1)),
		ms(quantile(within, 0.5)), ms(quantile(within, 0.99)), ms(quantile(known(c), 0.99)), ms(back.gate), ms(back.tickets), held)
	table.mu.Lock()
	defer table.mu.Unlock()
	table.rows = append(table.rows, row)
}

func ms(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 0:
		return "never"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f", d.Seconds()*1000)
	}
	return fmt.Sprintf("%d", d.Milliseconds())
}

// during gives the answers that were asked for while something was broken.
func (w *World) during(lines []answer) (out []answer) {
	strikes, _ := w.struck()
	for _, a := range lines {
		if slices.ContainsFunc(strikes, func(s strike) bool { return a.Sent.After(s.begin) && (s.end.IsZero() || a.Sent.Before(s.end)) }) {
			out = append(out, a)
		}
	}
	return out
}

// known gives how long buyers waited from "queued" to the final word, sorted.
func known(c *Crowd) (waits []time.Duration) {
	since := map[int64]time.Time{}
	for _, a := range c.ledger.all(of("buy", "result")) {
		switch from, waiting := since[a.User]; {
		case a.Data.State == "queued" && !waiting:
			since[a.User] = a.received()
		case waiting && a.Data.State != "queued" && a.Data.State != "" && a.Data.State != "none":
			waits = append(waits, a.received().Sub(from))
			delete(since, a.User)
		}
	}
	slices.Sort(waits)
	return waits
}

var redisVersion = regexp.MustCompile(`v=([0-9.]+)`)

// page is the table with what it was measured on.
func page() string {
	redis := "embedded"
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if m := redisVersion.FindSubmatch(out); m != nil {
			redis = string(m[1])
		}
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	slices.SortFunc(table.rows, func(a, b string) int { // what breaks nothing comes first
		return cmp.Or(cmp.Compare(strings.Index(b, "| none "), strings.Index(a, "| none ")), strings.Compare(a, b))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "# What the fault suite saw\n\nMade by `make faults` on %s: %d cores, %s, Postgres %s, Redis %s, seed %d. Times are ms; two processes of the shop unless the line says otherwise. A buyer who is told busy, or nothing, tries again.\n\n",
		time.Now().Format("2006-01-02"), runtime.NumCPU(), runtime.Version(), ground.tools.PostgresVersion, redis, seed)
	b.WriteString(legend)
	b.WriteString(tableHead)
	for _, r := range table.rows {
		b.WriteString(r)
	}
	b.WriteString("\n| counter, over all lines | |\n|---|---|\n")
	sums.mu.Lock()
	defer sums.mu.Unlock()
	for _, name := range watched {
		fmt.Fprintf(&b, "| `%s` | %.0f |\n", name, sums.of[name])
	}
	return b.String()
}

// tableWritten tells that the page is this run's.
var tableWritten bool

func writeTable() error {
	err := os.WriteFile("RESULTS.md", []byte(page()), 0o644)
	tableWritten = err == nil
	return err
}

func appendToTable(text string) error {
	f, err := os.OpenFile("RESULTS.md", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func printTable(t *testing.T) {
	if ground.tools != nil { // else nothing was run
		t.Log("\n" + page())
	}
}
