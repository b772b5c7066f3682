package web

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"miaosha/user"
)

// Every route of the shop has one row, and every row is a route.
func TestEveryRouteHasARowOfLimits(t *testing.T) {
	t.Parallel()
	routes, err := Routes()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range limitRows() {
		if slices.Contains(rows, row.route) {
			t.Errorf("%s has two rows", row.route)
		}
		rows = append(rows, row.route)
		path, _, _ := strings.Cut(row.route, "?")
		if !slices.Contains(routes, path) {
			t.Errorf("the table has %s, which is no route of the shop", row.route)
		}
		if (len(row.limits) == 0) != strings.HasPrefix(row.place, "none: ") {
			t.Errorf("%s has %d limits, and their place is %q", row.route, len(row.limits), row.place)
		}
	}
	for _, route := range routes {
		if !slices.Contains(rows, route) {
			t.Errorf("%s has no row in the table", route)
		}
	}
}

// Hot routes ask no Redis for a limit, and a limit of a minute or more is no process' own, unless it is of a device.
func TestHotRoutesHaveLocalLimits(t *testing.T) {
	t.Parallel()
	for _, row := range limitRows() {
		for _, l := range row.limits {
			switch hot := strings.HasPrefix(row.route, "POST /api/sales/") || strings.HasSuffix(row.route, "/events") || strings.HasSuffix(row.route, "/result"); {
			case hot && l.kept != here:
				t.Errorf("%s has a limit that is %s", row.route, l.kept)
			case l.kept == here && l.flag == "" && l.per != perDevice && l.most.Per >= 60e9:
				t.Errorf("%s: the limit %v is of a process", row.route, l.most)
			case (l.kept == shared) != (l.name != ""):
				t.Errorf("%s: the limit %v is %s, and its name %q", row.route, l.most, l.kept, l.name)
			}
		}
	}
}

var writeTables = flag.Bool("write", false, "write the tables of README.md that are made of the rows")

// The README shows the routes as they are. go test -run ReadmeShowsTheRoutes ./web -write puts them in.
func TestReadmeShowsTheRoutes(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range limitRows() {
		limits, ban := "", ""
		for _, l := range row.limits {
			rate := "`" + l.flag + "`"
			if l.most != (user.Limit{}) {
				rate = l.most.Rate.String()
				if float64(l.most.Burst) != l.most.N {
					rate += fmt.Sprintf(" (%d at once)", l.most.Burst)
				}
			}
			limits += fmt.Sprintf(", %s %s %s", l.per, rate, l.kept)
		}
		if row.buys {
			ban = "yes"
		}
		within := "its own"
		if row.within != ownTime {
			within = strings.TrimSuffix(row.within.String(), "0s")
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s | %s |\n", row.route, row.who, strings.TrimPrefix(limits, ", "), ban, within, row.place)
	}
	const head = "| route | who may ask | limits | ban | time | place in the order of checks |\n|---|---|---|---|---|---|\n"
	if before, rest, found := strings.Cut(string(readme), head); *writeTables && found {
		_, after, _ := strings.Cut(rest, "\n\n")
		if err := os.WriteFile("README.md", []byte(before+head+want.String()+"\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !strings.Contains(string(readme), want.String()) {
		missing := ""
		for row := range strings.Lines(want.String()) {
			if !strings.Contains(string(readme), row) {
				missing += row
			}
		}
		t.Errorf("README.md must have the rows of the routes, in their order. It lacks:\n%s", missing)
	}
}

func TestRatesOfTheSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"5": "5/s 10", "0.05": "0.05/s 1", "30/min": "30/min 30", "3/10min": "3/10min 3", "7/s": "7/s 14"} {
		l, err := parseRate(text)
		if got := fmt.Sprint(l.Rate, " ", l.Burst); err != nil || got != want {
			t.Errorf("--rate %s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "NaN", "x", "5/", "/s", "5/day", "5/0min", "1e10"} {
		if l, err := parseRate(text); err == nil {
			t.Errorf("--rate %q: %v", text, l)
		}
	}
}
