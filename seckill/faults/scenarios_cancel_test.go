//go:build faults && linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// cancelScenarios returns the scenario in which a unit comes back on sale.
func cancelScenarios() []scenario {
	return []scenario{
		{name: "cancelled at one process, bought at the other",
			crowd: plan{buyers: 20, units: 20, span: 200 * time.Millisecond, limit: 30 * time.Second}, run: cancelAndBuy},
	}
}

// cancelAndBuy checks that a unit which is cancelled at one process can be bought at the other within a second, not before,
// and only once, however often the cancel is repeated.
func cancelAndBuy(env *Environment, c *Crowd) {
	c.WaitSold(len(c.buyers))
	late, err := env.newBuyers(len(c.buyers), env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	for i, b := range c.buyers {
		path := "/api/orders/" + b.OrderID + "/cancel"
		resp := c.ledger.request(env.Shops[0], b.ID, b.Token, "cancel", "POST", path, "")
		if resp.Status != 200 {
			env.T.Errorf("cancel: %d %s", resp.Status, resp.Code)
			return
		}
		cancelled := resp.received()
		for range 3 {
			if resp := c.ledger.request(env.Shops[0], b.ID, b.Token, "cancel", "POST", path, ""); resp.Code != "wrong_status" {
				env.Report("I8: an order was cancelled again: %d %s", resp.Status, resp.Code)
			}
		}
		env.checkGateNeverAhead(600 * time.Millisecond)
		for bought := false; !bought; {
			resp := c.ledger.request(env.Shops[1], late[i].ID, late[i].Token, "late buy", "POST", env.salePath()+"/buy/"+late[i].Path, "")
			if bought = resp.Data.State != ""; !bought && time.Since(cancelled) > sandboxtest.Hang {
				env.Report("I5: a unit cancelled at one process is not on sale at the other after %v: %d %s", sandboxtest.Hang, resp.Status, resp.Code)
				return
			}
			if took := resp.received().Sub(cancelled); bought && took > time.Second+100*time.Millisecond {
				env.Late("I5: a unit cancelled at one process was on sale at the other only after %v", formatBound(took))
			}
		}
	}
}

// checkGateNeverAhead checks for d, while no buyer buys, that the gate never offers more units than Postgres has (I6). It
// reads the gate before Postgres.
func (env *Environment) checkGateNeverAhead(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	reads := 0
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		g, err := env.readGate(ctx)
		if err != nil {
			env.T.Error(err)
			return
		}
		rows, _ := env.pool.Query(ctx, `select stock from sales where id = $1`, env.Sale)
		stock, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		if err != nil {
			env.T.Error(err)
			return
		}
		if reads++; g.stock > stock {
			env.Report("I6: the gate offers %d units, Postgres has %d", g.stock, stock)
			return
		}
	}
	if reads < 5 {
		env.TooLittle("the gate was read only %d times", reads)
	}
}
