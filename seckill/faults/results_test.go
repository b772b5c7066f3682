package faults

import (
	"os"
	"strings"
	"testing"
)

// The columns of the tables in RESULTS.md, which make faults writes.
var (
	scenarioColumns = []string{"fault", "buyers / units", "orders", "buy: queued, ordered, sold out, busy, no reply",
		"buy ms: p50, p99, max", "during the fault: p50, p99", "result known: p99 ms", "gate right after",
		"old tickets settled after", "invariants"}
	counterColumns = []string{"counter", "sum of all scenarios"}
	mutantColumns  = []string{"mutant", "scenario that finds it", "broken invariant"}
)

func tableRow(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func tableHead(columns []string) string {
	return tableRow(columns...) + strings.Repeat("|---", len(columns)) + "|\n"
}

// RESULTS.md must be written again when its tables change. This test needs no build tag: it runs with every change.
func TestResultsHaveTheColumnsThatTheSuiteWrites(t *testing.T) {
	page, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, columns := range map[string][]string{"scenarios": scenarioColumns, "counters": counterColumns, "mutants": mutantColumns} {
		_, table, found := strings.Cut(string(page), "\n"+tableHead(columns))
		if !found {
			t.Errorf("RESULTS.md has no table of %s with the head\n%sRun make faults.", name, tableHead(columns))
			continue
		}
		rows, _, _ := strings.Cut(table, "\n\n")
		for row := range strings.Lines(rows) {
			if n := strings.Count(row, "|") - 1; n != len(columns) {
				t.Errorf("this row of %s has %d columns, not %d: %s", name, n, len(columns), row)
			}
		}
	}
}
