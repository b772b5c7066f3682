package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/term"

	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/strategies"
	"miaosha/seckill/lab/throwaway"
	"miaosha/seckill/sandbox"
)

// Lab has the commands of the lab. Without a verb it compares strategies.
type Lab struct {
	Compare LabCompare `cmd:"" default:"withargs" help:"Send one crowd to each strategy, or to an outside shop, and compare (lab without a verb)."`
	Grade   LabGrade   `cmd:"" help:"Judge the programs in a folder, or in one folder per student, by the exercises, and write a results.json for each."`
}

// LabCompare sends one crowd to each strategy and shows the outcomes.
type LabCompare struct {
	Buyers       int      `default:"200" help:"Number of buyers."`
	Stock        int      `default:"20" help:"Number of units."`
	DoubleClicks int      `default:"50" placeholder:"PERCENT" help:"Percentage of buyers who click twice."`
	Faults       []string `placeholder:"LIST" help:"kill (a process dies in the middle), redis-pause, slow-postgres; separated by commas."`
	Strategies   []string `placeholder:"LIST" help:"Names, separated by commas; default: all."`
	Seed         uint64   `default:"1" help:"Seed of the crowd: order of arrival, double clicks, stalls."`
	Seconds      int      `default:"10" help:"Time limit of one strategy."`
	Processes    int      `default:"2" aliases:"nodes" help:"Processes of the shop that share the crowd."`
	Outside      string   `name:"mine" placeholder:"COMMAND" help:"Judge an outside shop, your own server in any language, in place of the strategies. COMMAND starts one of its processes. The contract and working shops are in seckill/lab/starters."`
	Program      string   `name:"mine-file" placeholder:"FILE" type:"existingfile" help:"Judge a program, FILE.lua or FILE.sql, in place of the strategies, and show the shortest schedule that breaks it. More faults: lost-reply, redis-away and cancel. seckill/lab/README.md has its functions."`
	JSON         bool     `name:"json" help:"Print only the results, as JSON."`
	HTML         string   `name:"html" placeholder:"FILE" help:"Write a self-contained page with the results and each strategy's source."`
}

// Run prints the results. A strategy that oversells is a result, not an error.
func (l LabCompare) Run(ctx context.Context, env Env) error {
	plan := lab.Plan{Strategies: l.Strategies, Buyers: l.Buyers, Stock: l.Stock, DoubleClicks: l.DoubleClicks,
		Faults: l.Faults,
		Seed:   l.Seed, Seconds: l.Seconds, Nodes: l.Processes}
	var names []string
	for _, s := range strategies.All() {
		names = append(names, s.Name)
	}
	faults := lab.Faults()
	if l.Program != "" {
		faults = lab.ProgramFaults()
	}
	if err := cmp.Or(checkNames("strategies", l.Strategies, names),
		checkNames("faults", l.Faults, faults)); err != nil {
		return exitError{exitUsage, err}
	}
	if l.Program != "" {
		return l.judgeProgram(ctx, env, plan)
	}
	if err := asFlag(plan.Validate(names)); err != nil {
		return err
	}
	if l.Outside != "" {
		return l.judgeOutside(ctx, env, plan)
	}
	began, ways := time.Now(), len(names)
	if len(l.Strategies) > 0 {
		ways = len(l.Strategies)
	}
	fmt.Fprintf(env.Err, "lab: %d strategies, one after the other: %s\n", ways, planText(plan))
	return env.withLab(ctx, func(s *backend.Stores) error {
		results, err := strategies.Run(ctx, LabStores(env.Backend, s, env.Schema), plan, labProgress(env.Err))
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf(
				"stopped: %d of %d strategies had ended, with the outcomes above. The tables and keys of the run are removed; nothing is left behind%s",
				len(results), ways, notWritten(l.HTML))
		}
		if err != nil {
			return err
		}
		page := func(w io.Writer) error { return writeLabPage(w, env.Origin, plan, results, began) }
		text := func(w io.Writer) error { return writeLab(w, plan, results) }
		return env.writeReport(l.HTML, l.JSON, results, page, text)
	})
}

// asFlag names the flag of an invalid field of a plan. It returns other errors as they are.
func asFlag(err error) error {
	if invalid := (lab.InvalidError{}); errors.As(err, &invalid) {
		flag := strings.ReplaceAll(invalid.Field, "_", "-")
		if flag == "nodes" {
			flag = "processes"
		}
		return exitError{exitUsage, fmt.Errorf("--%s: %s", flag, invalid.Reason)}
	}
	return err
}

// LabStores returns the servers to which the lab opens its own connections.
func LabStores(cfg backend.Config, s *backend.Stores, schema string) lab.Stores {
	url := cfg.DatabaseURL
	if url == "" {
		url = s.Sandbox.DatabaseURL
	}
	return lab.Stores{DatabaseURL: url, Redis: s.Redis, Schema: schema, Audit: labAudit,
		Throwaway: labThrowaway(cfg.Sandbox())}
}

// labThrowaway returns a function that looks for a Postgres which the lab can run for a program, and remembers what it
// has found.
func labThrowaway(cfg sandbox.Config) func(context.Context) (throwaway.Programs, error) {
	var mu sync.Mutex
	var found throwaway.Programs
	return func(ctx context.Context) (throwaway.Programs, error) {
		mu.Lock()
		defer mu.Unlock()
		if found.Bin != "" {
			return found, nil
		}
		spare, err := sandbox.FindSpare(ctx, cfg)
		found = throwaway.Programs(spare)
		return found, err
	}
}

// labAudit checks the rows of a schema of the lab. It does not look for the defences that are missing: the lab has left
// them out.
func labAudit(ctx context.Context, db *pgxpool.Pool) (broken []lab.Broken, err error) {
	found, err := audit.Postgres(ctx, db)
	for _, f := range found {
		broken = append(broken, lab.Broken(f))
	}
	return broken, err
}

// notWritten says that the file of an interrupted run does not exist, if there was to be one.
func notWritten(file string) string {
	if file == "" {
		return ""
	}
	return ", and " + file + " was not written"
}

// labProgress returns a report that rewrites one line on a terminal. Elsewhere it writes a line for
// each strategy that has ended, and one a second for a strategy that takes longer.
func labProgress(w *os.File) func(lab.Progress) {
	terminal, last := term.IsTerminal(int(w.Fd())), time.Now()
	return func(p lab.Progress) {
		if terminal {
			fmt.Fprintf(w, "\r\x1b[K")
		}
		late := !terminal && p.Done == nil && p.Answered < p.Buyers && time.Since(last) > time.Second
		if late {
			defer fmt.Fprintln(w)
		}
		if terminal || p.Done != nil || late {
			last = time.Now()
			fmt.Fprintf(w, "%-16s %4.1f s  %d of %d buyers answered  %d left  %d sold  %d oversold",
				p.Strategy, float64(p.Elapsed)/1000, p.Answered, p.Buyers, p.Left, p.Sold, p.Oversold)
		}
		if p.Done != nil {
			fmt.Fprintln(w)
		}
	}
}

func writeLab(w io.Writer, p lab.Plan, results []lab.Result) error {
	fmt.Fprintf(w, "%s\n\n", planText(p))
	fmt.Fprintf(w, "%-16s %5s %9s %7s %11s %5s %9s %9s %8s %10s %12s\n", "strategy", "sold", "oversold", "unsold",
		"duplicates", "lost",
		"seconds", "clicks/s", "p99 ms", "SQL/order", "Redis/order")
	for _, r := range results {
		_, err := fmt.Fprintf(w, "%-16s %5d %9s %7s %11s %5s %9.3f %9.0f %8.0f %10s %12s  %s\n", r.Strategy, r.Sold,
			dashIfZero(r.Oversold),
			dashIfZero(r.Unsold), dashIfZero(r.Duplicates), dashIfZero(r.Lost), r.Seconds, r.PerSecond, r.P99,
			perOrder(r, r.SQLPerOrder), perOrder(r, r.RedisPerOrder), verdictOf(r))
		if err != nil {
			return err
		}
	}
	for _, r := range results {
		if r.Recovery >= 0.001 {
			fmt.Fprintf(w,
				"\n%s: the last %.3f s are the recovery of what the dead process held; clicks/s counts the time before.\n",
				r.Strategy, r.Recovery)
		}
	}
	for _, r := range results {
		if r.Denied > 0 {
			fmt.Fprintf(w, "\n%s: %d buyers have an order and were refused.\n", r.Strategy, r.Denied)
		}
	}
	if slices.ContainsFunc(results, func(r lab.Result) bool { return r.Lucky }) {
		_, err := fmt.Fprintln(w,
			"\nlucky: the strategy is wrong; this run just did not trigger it. Another seed, more double clicks or --faults kill show it.")
		return err
	}
	return nil
}

func planText(p lab.Plan) string {
	text := fmt.Sprintf("%d buyers, %d units, %d %% press twice, %d processes, seed %d", p.Buyers, p.Stock,
		p.DoubleClicks, p.Nodes, p.Seed)
	if len(p.Faults) > 0 {
		text += ", with " + strings.Join(p.Faults, " and ")
	}
	return text
}

func dashIfZero(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// perOrder returns a number of calls; an outside shop makes them out of the lab's sight, unlike a program.
func perOrder(r lab.Result, calls float64) string {
	if r.Strategy == lab.Student && r.Verdict == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", calls)
}

func verdictOf(r lab.Result) string {
	switch {
	case r.Slow && r.Busy:
		return "not finished: the machine was too busy. Run it again"
	case r.Slow:
		return "exact, but slow, not finished: " + r.Error
	case r.Error != "":
		return "not finished: " + r.Error
	case r.Lucky:
		return "right (lucky)"
	case r.Right:
		return rightVerdict
	}
	return wrongVerdict
}

const rightVerdict, wrongVerdict = "right", "WRONG"
