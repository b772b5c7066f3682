package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/backend"
	"miaosha/seckill/typed"
)

// Ticket follows one ticket.
type Ticket struct {
	ID   string `arg:"" help:"The ticket (epoch:entry:nonce), or the id or the number of its order."`
	JSON bool   `name:"json" help:"As JSON."`
}

// Run prints the steps of the ticket, one a line, and the processes that may have had a part in it and are gone.
func (c Ticket) Run(ctx context.Context, env Env) error {
	if key := typed.Key(c.ID); key != "" {
		c.ID = key
	}
	if !admin.IsTicket(c.ID) {
		return fmt.Errorf("%q is no ticket (epoch:entry:nonce), and no id or number of an order", c.ID)
	}
	return env.withShop(ctx, func(s *backend.Stores) error {
		t, err := admin.NewTickets(s.Web, s.Redis).Timeline(ctx, c.ID)
		switch {
		case errors.Is(err, order.ErrNotFound):
			return fmt.Errorf(
				"ticket %s not found, neither in Postgres nor in a process; the result of an old one may be in an archive (miaosha archive)",
				c.ID)
		case err != nil:
			return err
		case c.JSON:
			e := json.NewEncoder(env.Out)
			e.SetIndent("", "  ")
			return e.Encode(t)
		}
		return printTimeline(env.Out, t)
	})
}

func printTimeline(out io.Writer, t admin.Timeline) error {
	fmt.Fprintf(out, "ticket %s of user %d in sale %d: %s\n\n", t.Ticket, t.UserID, t.SaleID, t.State)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tWAIT\tSTEP\tTOOK\tPROCESS\tDETAIL")
	for i, step := range t.Steps {
		wait, took := "", ""
		if i > 0 {
			wait = fmt.Sprintf("+%.3f ms", float64(step.At.Sub(t.Steps[i-1].At).Microseconds())/1000)
		}
		if step.TookMS > 0 {
			took = fmt.Sprintf("%.3f ms", step.TookMS)
		}
		var detail []string
		for _, name := range slices.Sorted(maps.Keys(step.Detail)) {
			detail = append(detail, fmt.Sprintf("%s=%v", name, step.Detail[name]))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", step.At.Local().Format("2006-01-02 15:04:05.000000"), wait,
			step.Name, took,
			step.Process, strings.Join(detail, " "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if t.Archived != nil {
		fmt.Fprintf(out, "the sale was archived at %s: older steps are in the files of miaosha archive\n",
			t.Archived.Local().Format("2006-01-02 15:04:05"))
	}
	for _, m := range t.Missing {
		fmt.Fprintf(out, "missing: process %s, last seen %s: what it remembered is gone\n", m.Process,
			m.LastSeen.Local().Format("2006-01-02 15:04:05"))
	}
	if !t.Asked {
		fmt.Fprintln(out, "Redis did not reply, so no process was asked: these are the steps that Postgres has")
	}
	return nil
}
