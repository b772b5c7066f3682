//go:build faults && linux

package faults

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// results has the rows of the scenarios so far.
var results struct {
	mu   sync.Mutex
	rows map[string]string // by the name of the scenario; of its last run
}

const legend = `Each line is a sale of its own. The line "none" has no fault: it is the baseline for the others. *Buy* counts the replies to all
requests. A buyer who clicks twice, is answered busy or loses a connection sends the request again, and cancelled units are sold
again. So there are more replies than buyers, and more tickets and orders than units. *Orders* is the number of buyers who were
told of an order. Each unit sold is compared with Postgres: "all hold" means that none of the invariants I1 to I11 is broken (see
the README of the project), and that every bound on time was met. *During the fault* has the requests sent while the fault lasted, or "-" if it took no time. *Gate
right after* is the time from the end of the last fault until the gate in Redis offered the units that Postgres has. *Old tickets
settled after* is the time until every ticket accepted before the end of the last fault had its result. The scenarios that delete
all data of Redis keep the sessions in a second Redis. The counters show which repairs, outcomes and refusals were reached; the
dead letters are the poison messages of one scenario.

`

// addRow adds the row of a scenario.
func addRow(env *Environment, c *Crowd, recovered recovery, v verdict) {
	buys := c.ledger.filter(ofKind("buy"))
	var queued, ordered, soldOut, busy, none int
	for _, resp := range buys {
		switch {
		case resp.Status == 0:
			none++
		case resp.Data.State == "queued":
			queued++
		case resp.Data.State == "ordered":
			ordered++
		case resp.Code == "sold_out":
			soldOut++
		case resp.Status == 503 || resp.Status == 429:
			busy++
		}
	}
	all, during := latencies(buys), latencies(env.duringFaults(buys))
	name := env.sc.name
	if env.sc.detail != "" {
		name += ": " + env.sc.detail
	}
	row := tableRow(name,
		fmt.Sprintf("%d / %d", c.plan.buyers, c.plan.units),
		fmt.Sprint(c.ordered.Load()),
		fmt.Sprintf("%d, %d, %d, %d, %d", queued, ordered, soldOut, busy, none),
		formatMS(quantile(all, 0.5))+", "+formatMS(quantile(all, 0.99))+", "+formatMS(quantile(all, 1)),
		formatMS(quantile(during, 0.5))+", "+formatMS(quantile(during, 0.99)),
		formatMS(quantile(resultWaits(c), 0.99)),
		formatMS(recovered.gate),
		formatMS(recovered.tickets),
		v.word())
	results.mu.Lock()
	defer results.mu.Unlock()
	if results.rows == nil {
		results.rows = map[string]string{}
	}
	results.rows[env.sc.name] = row
}

func formatMS(d time.Duration) string {
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

// duringFaults returns the responses to requests that were sent during a fault.
func (env *Environment) duringFaults(responses []response) (out []response) {
	faults, _ := env.injected()
	for _, resp := range responses {
		if slices.ContainsFunc(faults, func(f fault) bool { return resp.Sent.After(f.begin) && (f.end.IsZero() || resp.Sent.Before(f.end)) }) {
			out = append(out, resp)
		}
	}
	return out
}

// resultWaits returns the times from "queued" to the final state, sorted.
func resultWaits(c *Crowd) (waits []time.Duration) {
	since := map[int64]time.Time{}
	for _, resp := range c.ledger.filter(ofKind("buy", "result")) {
		switch from, waiting := since[resp.User]; {
		case resp.Data.State == "queued" && !waiting:
			since[resp.User] = resp.received()
		case waiting && resp.Data.State != "queued" && resp.Data.State != "" && !resp.Data.NoTicket():
			waits = append(waits, resp.received().Sub(from))
			delete(since, resp.User)
		}
	}
	slices.Sort(waits)
	return waits
}

var redisVersion = regexp.MustCompile(`v=([0-9.]+)`)

// resultsPage returns RESULTS.md without the mutants.
func resultsPage() string {
	redis := "embedded"
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if m := redisVersion.FindSubmatch(out); m != nil {
			redis = string(m[1])
		}
	}
	results.mu.Lock()
	defer results.mu.Unlock()
	rows := slices.SortedFunc(maps.Values(results.rows), func(a, b string) int { // the baseline first
		return cmp.Or(cmp.Compare(strings.Index(b, "| none "), strings.Index(a, "| none ")), strings.Compare(a, b))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of the fault suite\n\n"+
		"`make faults` wrote this page on %s: %d cores, %s, Postgres %s, Redis %s, seed %d. Times are in ms. "+
		"There are two processes of the shop unless the line says otherwise. "+
		"A buyer who is answered busy, or gets no reply, tries again.\n\n",
		time.Now().Format("2006-01-02"), runtime.NumCPU(), runtime.Version(), shared.tools.PostgresVersion, redis, seed)
	b.WriteString(legend)
	b.WriteString(tableHead(scenarioColumns))
	for _, row := range rows {
		b.WriteString(row)
	}
	b.WriteString("\n" + tableHead(counterColumns))
	totals.mu.Lock()
	defer totals.mu.Unlock()
	for _, name := range sortedNames(totals.of) {
		b.WriteString(tableRow("`"+name+"`", fmt.Sprintf("%.0f", totals.of[name])))
	}
	return b.String()
}

// resultsWritten reports whether this run has written RESULTS.md.
var resultsWritten bool

func writeResults() error {
	err := os.WriteFile("RESULTS.md", []byte(resultsPage()), 0o644)
	resultsWritten = err == nil
	return err
}

func appendToResults(text string) error {
	f, err := os.OpenFile("RESULTS.md", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func printResults(t *testing.T) {
	if shared.tools != nil { // at least one scenario has run
		t.Log("\n" + resultsPage())
	}
}
