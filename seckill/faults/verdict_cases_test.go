//go:build faults && linux

package faults

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVerdicts(t *testing.T) {
	truth, late, little := []string{"I3: a lie"}, []string{"I6: late"}, []string{"few requests"}
	for _, c := range []struct {
		name        string
		v           verdict
		wrong, open []string
		word        string
	}{
		{"nothing", verdict{}, nil, nil, "all hold"},
		{"nothing on a busy machine", verdict{outside: 0.9}, nil, nil, "all hold"},
		{"a truth", verdict{truths: truth}, truth, nil, "BROKEN I3"},
		{"a truth on a busy machine", verdict{truths: truth, late: late, outside: 0.9}, truth, nil, "BROKEN I3"},
		{"a bound", verdict{late: late, outside: starvedShare}, late, nil, "BROKEN I6"},
		{"a bound on a busy machine", verdict{late: late, outside: 0.26}, nil, late, "inconclusive"},
		{"a truth and a bound", verdict{truths: truth, late: late}, slices.Concat(truth, late), nil, "BROKEN I3, I6"},
		{"too little", verdict{little: little}, nil, little, "inconclusive"},
		{"too little and a bound", verdict{late: late, little: little}, late, nil, "BROKEN I6"},
		{"too little and a bound on a busy machine", verdict{late: late, little: little, outside: 0.5}, nil, slices.Concat(late, little), "inconclusive"},
	} {
		if diff := cmp.Diff([][]string{c.wrong, c.open}, [][]string{c.v.wrong(), c.v.open()}); diff != "" {
			t.Errorf("%s: wrong and open (-want +got):\n%s", c.name, diff)
		}
		if got := c.v.word(); got != c.word {
			t.Errorf("%s: %q, want %q", c.name, got, c.word)
		}
	}
}

// Only an inconclusive run is repeated, and twice at most. Each run is cleaned up before the next.
func TestRunsAreRepeated(t *testing.T) {
	open, wrong := verdict{little: []string{"few"}}, verdict{truths: []string{"I1: wrong"}, little: []string{"few"}}
	for _, c := range []struct {
		name string
		runs []verdict
		last verdict
	}{
		{"right", []verdict{{}}, verdict{}},
		{"right in the end", []verdict{open, open, {}}, verdict{}},
		{"never right", []verdict{open, open, open}, open},
		{"wrong", []verdict{wrong}, wrong},
		{"wrong after another", []verdict{open, wrong}, wrong},
	} {
		n, cleaned := 0, 0
		last := repeat(t, c.name, func(t testing.TB) verdict {
			if cleaned != n {
				t.Errorf("%s: %d of %d runs were cleaned up before the next", c.name, cleaned, n)
			}
			t.Cleanup(func() { cleaned++ })
			n++
			return c.runs[n-1]
		})
		if n != len(c.runs) || cleaned != n || last.word() != c.last.word() {
			t.Errorf("%s: %d runs, %d cleaned up, %s; want %d, %s", c.name, n, cleaned, last.word(), len(c.runs), c.last.word())
		}
	}
}

func TestTheLastLineCounts(t *testing.T) {
	var a tally
	var b strings.Builder
	if a.write(&b, nil); b.Len() > 0 {
		t.Errorf("without a row: %q", b.String())
	}
	a.add("the first", verdict{}, false)
	a.add("the second", verdict{late: []string{"I6: the gate was right only 1.2s after the last fault\nmore"}, outside: 0.614}, false)
	a.add("the third", verdict{outside: 0.8}, false)
	a.write(&b, map[string]float64{"refusal 503 busy": 7, "miaosha_shed_total": 12})
	want := "reached:\n        12 miaosha_shed_total\n         7 refusal 503 busy\n" +
		"inconclusive: the second: I6: the gate was right only 1.2s after the last fault; others had 61% of the processors\n" +
		"2 rows right, 1 inconclusive\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	b.Reset()
	a.add("the fourth", verdict{truths: []string{"I1: wrong"}}, false)
	a.add("the fifth", verdict{}, true)
	if a.write(&b, nil); !strings.HasSuffix(b.String(), "\n2 rows right, 2 wrong, 1 inconclusive\n") {
		t.Errorf("the end: %q", b.String())
	}
}
