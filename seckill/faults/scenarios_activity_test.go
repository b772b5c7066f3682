//go:build faults && linux

package faults

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// activityScenarios returns the scenario in which an operator changes the sale by command while a crowd buys.
func activityScenarios() []scenario {
	return []scenario{
		{name: "changed by command in the rush", detail: "paused, a process killed, units taken back and added, resumed, the window moved; closed at the end",
			crowd: plan{buyers: 300, units: 400, span: 2 * time.Second, twice: 30, fetchesPath: 10, limit: 30 * time.Second},
			run:   changeSale, after: closeSale},
	}
}

// changeSale changes the sale in the middle of the rush. While it is paused no ticket is granted, whatever process is killed.
func changeSale(env *Environment, c *Crowd) {
	c.WaitSold(20)
	env.Inject("changed by command", func() {
		env.changeByCommand("pause", "the gate is paused")
		paused := env.tickets()
		env.Shops[0].Kill()
		c.Wait(200 * time.Millisecond)
		if now := env.tickets(); now > paused {
			env.Report("I9: %d tickets were granted while the sale was paused", now-paused)
		}
		env.changeByCommand("add --units=-50", "the gate is paused")
		env.restart(0)
		env.changeByCommand("resume", "the stock is in the gate")
		env.changeByCommand("add --units 50", "the stock is in the gate")
		env.changeByCommand("window --end 2h", "the stock is in the gate")
	})
}

// closeSale closes the sale, which every process must then say.
func closeSale(env *Environment, c *Crowd) {
	env.changeByCommand("close", "the gate is closed")
	late, err := env.newBuyers(1, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	for _, s := range env.Shops {
		resp := sandboxtest.Call("POST", s.URL()+env.salePath()+"/buy/"+late[0].Path, late[0].Token, "")
		if resp.Code != "ended" {
			env.Report("I9: shop %d says %d %s of a closed sale", s.n, resp.Status, resp.Code)
		}
	}
}

// changeByCommand runs a verb of miaosha sale. It waits two seconds for the gate, which must follow in that time.
func (env *Environment) changeByCommand(verb, says string) {
	words := strings.Fields(verb)
	_, said, err := env.commandSays(append([]string{"sale", words[0], strconv.FormatInt(env.Sale, 10)}, words[1:]...)...)
	switch {
	case err == nil && strings.Contains(said, "its gate has not followed yet"):
		env.Late("I6: sale %s: %q, want %q", verb, said, says)
	case err != nil || !strings.Contains(said, says):
		env.Report("I6: sale %s: %v, %q, want %q", verb, err, said, says)
	}
}

// tickets returns how many tickets were ever granted: those with a result, and those in the journal.
func (env *Environment) tickets() int {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	g, err := env.readGate(ctx)
	if err != nil {
		env.T.Error(err)
	}
	rows, _ := env.pool.Query(ctx, `select ticket from ticket_outcomes where sale_id = $1`, env.Sale)
	settled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		env.T.Error(err)
	}
	all := map[string]bool{}
	for _, ticket := range settled {
		all[ticket] = true
	}
	for _, ticket := range g.tickets {
		all[ticket] = true
	}
	return len(all)
}
