package web

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// README.md says of every POST what a second one does, and of those with a key that they take one.
func TestReadmeSaysWhatARepetitionDoes(t *testing.T) {
	t.Parallel()
	routes, err := Routes()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "## A request that is sent twice")
	table, _, _ = strings.Cut(table, "\n## ")
	kinds := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`POST ") {
			continue
		}
		for _, route := range regexp.MustCompile("`(POST [^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			if kinds[route[1]] != "" || !slices.Contains(routes, route[1]) {
				t.Errorf("%s has two rows, or is no route", route[1])
			}
			kinds[route[1]] = strings.TrimSpace(cells[2])
		}
	}
	for _, route := range routes {
		if !strings.HasPrefix(route, "POST ") {
			continue
		}
		if !slices.Contains([]string{"once", "key", "again"}, kinds[route]) || strings.HasPrefix(route, "POST /api/admin/") && kinds[route] != "key" {
			t.Errorf("%s is %q: every route of the staff takes a key", route, kinds[route])
		}
	}
}
