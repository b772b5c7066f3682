package operator

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"strings"
	"time"

	"miaosha/seckill/lab"
)

//go:embed lab_page.html
var labPageText string

var labPage = template.Must(template.New("lab").Funcs(template.FuncMap{"plan": planText, "count": dashIfZero}).Parse(labPageText))

// writeLabPage writes the results as one self-contained page: the table, bars of the throughput, and
// each strategy's source with the lines that decide.
func writeLabPage(w io.Writer, p lab.Plan, results []lab.Result, at time.Time) error {
	type line struct {
		N      int
		Text   string
		Marked bool
	}
	type row struct {
		lab.Result
		Bar   float64 // percent of the fastest
		File  string
		Lines []line
	}
	fastest := 1.0
	for _, r := range results {
		fastest = max(fastest, r.PerSecond)
	}
	infos := map[string]lab.StrategyInfo{}
	for _, info := range lab.Strategies() {
		infos[info.Name] = info
	}
	rows := make([]row, len(results))
	for i, r := range results {
		info := infos[r.Strategy]
		rows[i] = row{Result: r, Bar: 100 * r.PerSecond / fastest, File: info.File}
		for n, text := range strings.Split(strings.TrimSuffix(info.Source, "\n"), "\n") {
			l := line{N: n + 1, Text: text}
			for _, m := range info.Marks {
				l.Marked = l.Marked || m[0] <= l.N && l.N <= m[1]
			}
			rows[i].Lines = append(rows[i].Lines, l)
		}
	}
	err := labPage.Execute(w, map[string]any{"Plan": p, "Rows": rows, "At": at,
		"Machine": fmt.Sprintf("%d CPUs, %s %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
