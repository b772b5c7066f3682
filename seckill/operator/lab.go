package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
)

// Lab lets one crowd loose on every way to sell a unit, and shows what came of each.
type Lab struct {
	Buyers       int      `default:"200" help:"How many want one."`
	Stock        int      `default:"20" help:"Units there are."`
	DoubleClicks int      `default:"50" placeholder:"PERCENT" help:"Percent of the buyers who press twice."`
	Faults       []string `placeholder:"LIST" help:"kill (a process dies in the middle), redis-pause, slow-postgres; several with commas."`
	Strategies   []string `placeholder:"LIST" help:"Names with commas; all if not given."`
	Seed         uint64   `default:"1" help:"Of the crowd: who comes when, who presses twice, who stands still."`
	Seconds      int      `default:"10" help:"The most that one strategy may take."`
	Nodes        int      `default:"2" help:"Processes of the shop that the crowd is spread over."`
	JSON         bool     `name:"json" help:"Print the results as JSON and nothing else."`
	HTML         string   `name:"html" placeholder:"FILE" help:"Write a page with the results and each strategy's source; it needs nothing else."`
}

// Run prints the table. That ways oversell is what it is for, and no error.
func (l Lab) Run(ctx context.Context, d Desk) error {
	plan := lab.Plan{Strategies: l.Strategies, Buyers: l.Buyers, Stock: l.Stock, DoubleClicks: l.DoubleClicks, Faults: l.Faults,
		Seed: l.Seed, Seconds: l.Seconds, Nodes: l.Nodes}
	if err := plan.Validate(); err != nil {
		if invalid := (lab.InvalidError{}); errors.As(err, &invalid) {
			return fmt.Errorf("--%s: %s", strings.ReplaceAll(invalid.Field, "_", "-"), invalid.Reason)
		}
		return err
	}
	began := time.Now()
	return d.withStores(ctx, func(s *backend.Stores) error {
		results, err := lab.Run(ctx, labStores(d.Backend, s, d.Schema), plan, labProgress(d.Err))
		if err != nil {
			return err
		}
		if l.HTML != "" {
			var page bytes.Buffer
			if err := writeLabPage(&page, plan, results, began); err != nil {
				return err
			}
			if err := os.WriteFile(l.HTML, page.Bytes(), 0o644); err != nil {
				return fmt.Errorf("--html: %w", err)
			}
		}
		if l.JSON {
			e := json.NewEncoder(d.Out)
			e.SetIndent("", "  ")
			return e.Encode(results)
		}
		return writeLab(d.Out, plan, results)
	})
}

// labStores says where the lab opens its own connections.
func labStores(cfg backend.Config, s *backend.Stores, schema string) lab.Stores {
	url := cfg.DatabaseURL
	if url == "" {
		url = s.Sandbox.DatabaseURL
	}
	return lab.Stores{DatabaseURL: url, Redis: s.Redis, Schema: schema}
}

// labProgress writes one line that changes on a terminal, and elsewhere a line for each strategy that has ended.
func labProgress(w *os.File) func(lab.Progress) {
	changing := term.IsTerminal(int(w.Fd()))
	return func(p lab.Progress) {
		if changing {
			fmt.Fprintf(w, "\r\x1b[K")
		}
		if changing || p.Done != nil {
			fmt.Fprintf(w, "%-16s %4.1f s  %d of %d buyers answered  %d left  %d sold  %d oversold",
				p.Strategy, float64(p.Elapsed)/1000, p.Asked, p.Buyers, p.Left, p.Sold, p.Oversold)
		}
		if p.Done != nil {
			fmt.Fprintln(w)
		}
	}
}

func writeLab(w io.Writer, p lab.Plan, results []lab.Result) error {
	fmt.Fprintf(w, "%s\n\n", planText(p))
	fmt.Fprintf(w, "%-16s %5s %9s %7s %11s %5s %9s %9s %8s %10s %12s\n", "strategy", "sold", "oversold", "unsold", "duplicates", "lost",
		"seconds", "clicks/s", "p99 ms", "SQL/order", "Redis/order")
	for _, r := range results {
		_, err := fmt.Fprintf(w, "%-16s %5d %9s %7s %11s %5s %9.3f %9.0f %8.0f %10.2f %12.2f  %s\n", r.Strategy, r.Sold, unless0(r.Oversold),
			unless0(r.Unsold), unless0(r.Duplicates), unless0(r.Lost), r.Seconds, r.PerSecond, r.P99, r.SQLPerOrder, r.RedisPerOrder, verdictOf(r))
		if err != nil {
			return err
		}
	}
	return nil
}

func planText(p lab.Plan) string {
	text := fmt.Sprintf("%d buyers, %d units, %d %% press twice, %d processes, seed %d", p.Buyers, p.Stock, p.DoubleClicks, p.Nodes, p.Seed)
	if len(p.Faults) > 0 {
		text += ", with " + strings.Join(p.Faults, " and ")
	}
	return text
}

func unless0(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func verdictOf(r lab.Result) string {
	switch {
	case r.Error != "":
		return "not finished: " + r.Error
	case r.Right:
		return "right"
	}
	return "WRONG"
}
