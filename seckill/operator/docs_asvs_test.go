package operator

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asvsTable compares the shop with the requirements of OWASP ASVS. TestDocumentsNameWhatExists checks
// that the tests and files which it names exist.
const asvsTable = "web/ASVS.md"

var (
	reASVSRow   = regexp.MustCompile(`(?m)^\| (\d+\.\d+\.\d+) \| (\d) \| ([^|]+) \| (met|not met|n/a) \| ([^|]+) \|$`)
	reASVSID    = regexp.MustCompile(`(?m)^\| *\d+\.\d+\.\d+\b`)
	reASVSCount = regexp.MustCompile(`(?m)^\| ([12]) \| (\d+) \| (\d+) \| (\d+) \|$`)
	reShown     = regexp.MustCompile("(?:Test|Fuzz)[A-Z]|`make |\\]\\(")
)

// The table has each requirement of the levels 1 and 2 once, under its level. What is met names a test,
// a make target or a document, and the counts are those of the rows.
func TestASVSTableIsWhole(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../" + asvsTable)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := os.ReadFile("testdata/asvs-5.0.0.txt") // an id and its level in each line
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(ids)), "\n")
	rows := reASVSRow.FindAllStringSubmatch(string(table), -1)
	if n := len(reASVSID.FindAll(table, -1)); n != len(rows) {
		t.Errorf("%d of %d rows have not the form of the table", n-len(rows), n)
	}
	var got []string
	counts := map[string]map[string]int{"1": {}, "2": {}}
	for _, m := range rows {
		id, level, state, why := m[1], m[2], m[4], m[5]
		got = append(got, id+" "+level)
		if state == "met" && !reShown.MatchString(why) {
			t.Errorf("%s is met, but nothing shows it: %s", id, why)
		}
		if counts[level] != nil {
			counts[level][state]++
		}
	}
	if len(want) != 253 {
		t.Errorf("the list of requirements has %d, want 253", len(want))
	}
	for _, id := range got {
		if !slices.Contains(want, id) {
			t.Errorf("the table has %q, which is no requirement of the levels 1 and 2", id)
		}
	}
	for _, id := range want {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(other string) bool { return other != id })); n != 1 {
			t.Errorf("the table has %q %d times, want once", id, n)
		}
	}
	sums := reASVSCount.FindAllStringSubmatch(string(table), -1)
	if len(sums) != 2 {
		t.Errorf("the table counts %d levels, want 2", len(sums))
	}
	for _, m := range sums {
		c := counts[m[1]]
		if is := fmt.Sprint(c["met"], c["not met"], c["n/a"]); is != fmt.Sprint(m[2], " ", m[3], " ", m[4]) {
			t.Errorf("level %s has %s rows that are met, not met and n/a; the table says %s", m[1], is, m[2:])
		}
	}
}
