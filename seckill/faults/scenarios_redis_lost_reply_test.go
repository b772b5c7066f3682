//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// redisLostReplyScenarios returns the scenarios in which Redis executes a call and its reply is lost.
func redisLostReplyScenarios() []scenario {
	return []scenario{
		{name: "a lost reply", detail: "20 buyers, each alone in another sale, while a crowd buys",
			crowd: plan{buyers: 200, units: 80, span: 6 * time.Second, pays: 40, cancels: 15, fetchesPath: 20,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) {
				env.Inject("replies and connections lost", func() { loseRepliesAndConnections(env, c) })
			}},
		{name: "a lost reply, and then silence", detail: "8 buyers, each alone in another sale; the connection stays open", long: true,
			crowd: plan{buyers: 200, units: 250, span: 12 * time.Second, pays: 40, payAfter: 300 * time.Millisecond,
				cached: true, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) { env.Inject("replies lost", func() { loseReplies(env, c) }) }},
	}
}

// otherSale is a second sale, in which one buyer at a time buys while the reply of the gate is lost.
type otherSale struct {
	env    *Environment
	c      *Crowd
	sale   int64
	at     string // the start of the paths of its requests
	grant  string // in a reply of its gate that grants a ticket, and in no other reply
	units  int
	buyers []*sandboxtest.Buyer
}

// newOtherSale creates a sale that is open now, with buyers of its own, and waits until every shop knows it.
func newOtherSale(env *Environment, c *Crowd, buyers, units int) (*otherSale, error) {
	printed, err := env.command("sale", "--title", "Another", "--price", "990", "--stock", strconv.Itoa(units), "--start", "now", "--end", "1h")
	if err != nil {
		return nil, err
	}
	other := &otherSale{env: env, c: c, units: units}
	if other.sale, err = strconv.ParseInt(strings.TrimSpace(printed), 10, 64); err != nil {
		return nil, err
	}
	if other.buyers, err = env.newBuyers(buyers, other.sale); err != nil {
		return nil, err
	}
	other.at = "/api/sales/" + strconv.FormatInt(other.sale, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	if !sandboxtest.Poll(func() bool { return env.rdb.Exists(ctx, other.key("gate")).Val() == 1 }) {
		return nil, fmt.Errorf("the other sale has no gate after a minute")
	}
	for _, s := range env.Shops {
		if !sandboxtest.Poll(func() bool {
			return c.ledger.request(s, 0, "", "another", "GET", other.at, "").Status == http.StatusOK
		}) {
			return nil, fmt.Errorf("shop %d does not know the other sale after a minute", s.n)
		}
	}
	// Each sale has epochs of its own, so no reply of another gate has this text.
	other.grant = "NEW " + env.rdb.HGet(ctx, other.key("gate"), "epoch").Val() + ":"
	return other, nil
}

func (other *otherSale) key(name string) string { return fmt.Sprintf("ms:{%d}:%s", other.sale, name) }

// stock returns the units that the gate offers.
func (other *otherSale) stock(ctx context.Context) string {
	return other.env.rdb.HGet(ctx, other.key("gate"), "stock").Val()
}

// lost returns how many replies were lost so far.
func (other *otherSale) lost() (n int) {
	for _, s := range other.env.Shops {
		n += s.ToRedis.Lost()
	}
	return n
}

func (other *otherSale) click(shop int, b *sandboxtest.Buyer) response {
	return other.c.ledger.request(other.env.Shops[shop], b.ID, b.Token, "buy", "POST", other.at+"/buy/"+b.Path, "")
}

// order waits until the buyer has an order, and returns its id.
func (other *otherSale) order(shop int, b *sandboxtest.Buyer) (order string) {
	if !other.env.within(8*time.Second, "I4: the buyer of a lost reply had an order", func() bool {
		order = other.c.ledger.request(other.env.Shops[shop], b.ID, b.Token, "result", "GET", other.at+"/result", "").Data.OrderID
		return order != ""
	}) {
		other.env.Report("I4: the buyer of a lost reply has no order after %v", sandboxtest.Hang)
	}
	return order
}

// checkFinalState checks, after all have bought, that each buyer has one unit. It returns the number of tickets.
func (other *otherSale) checkFinalState(ctx context.Context) int {
	left := other.units - len(other.buyers)
	if !other.env.within(12*time.Second, "I6: the other sale's gate was right and its journal empty", func() bool {
		return other.env.rdb.XLen(ctx, other.key("journal2")).Val() == 0 && other.stock(ctx) == strconv.Itoa(left)
	}) {
		other.env.Report("I6: the other sale after %v: the gate offers %s, want %d and an empty journal", sandboxtest.Hang, other.stock(ctx), left)
	}
	rows, _ := other.env.pool.Query(ctx, `
		select stock,
		       (select count(*) from orders where sale_id = $1) as orders,
		       (select count(*) from ticket_outcomes where sale_id = $1) as tickets
		from   sales where id = $1`, other.sale)
	sold, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Stock, Orders, Tickets int }])
	if err != nil {
		other.env.T.Error(err)
		return 0
	}
	if sold.Stock != left || sold.Orders != len(other.buyers) {
		other.env.Report("I2: of %d units %d are left, with %d orders of %d buyers", other.units, sold.Stock, sold.Orders, len(other.buyers))
	}
	return sold.Tickets
}

// loseRepliesAndConnections loses each reply together with its connection. The shop repeats the call, which finds the
// ticket of the first call: the buyer notices nothing, and the gate offers one unit less, not two.
func loseRepliesAndConnections(env *Environment, c *Crowd) {
	other, err := newOtherSale(env, c, 20, 25)
	if err != nil {
		env.T.Error(err)
		return
	}
	defer env.healRedis()
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	for i, b := range other.buyers {
		shop := i % len(env.Shops)
		env.Shops[shop].ToRedis.Lose(other.grant, 1)
		resp := other.click(shop, b)
		stock := other.stock(ctx)
		left, err := strconv.Atoi(stock)
		switch want := other.units - 1 - i; {
		case err != nil || left < want:
			env.Report("I2: a lost reply cost more than one unit: the gate offers %s, want %d", stock, want)
			return // every later buyer would report the same
		case resp.Status == http.StatusServiceUnavailable, resp.gaveUp():
			env.Late("I4: the buyer of a lost reply got %d %s after %v", resp.Status, resp.Code, formatBound(resp.Took))
			return // the gate may know of the click or not
		case other.lost() != i+1 || left > want:
			env.TooLittle("the shop did not wait for the gate, so it repeated nothing: %d %s, %d replies lost, the gate offers %d, want %d",
				resp.Status, resp.Code, other.lost(), left, want)
			return
		case resp.Status != http.StatusAccepted || resp.Data.Ticket == "":
			env.Report("I4: the buyer of a lost reply got %d %s %s", resp.Status, resp.Code, resp.Data.State)
			continue
		}
		rows, _ := env.pool.Query(ctx, `select ticket from orders where id = $1 and user_id = $2`, other.order(shop, b), b.ID)
		ticket, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		if err != nil || ticket != resp.Data.Ticket {
			env.Report("I4: the buyer was told of ticket %s, and the order has %q (%v)", resp.Data.Ticket, ticket, err)
		}
	}
	// A second ticket of a buyer would be settled as a duplicate.
	if n := other.checkFinalState(ctx); n != len(other.buyers) {
		env.Report("I2: %d buyers had %d tickets", len(other.buyers), n)
	}
}

// loseReplies loses each reply and leaves its connection open and silent. The shop cannot distinguish that from a Redis that
// is down. It may sell to the buyer without the gate while the journal has a ticket of the same buyer. That too must cost
// one unit only.
func loseReplies(env *Environment, c *Crowd) {
	other, err := newOtherSale(env, c, 8, 12)
	if err != nil {
		env.T.Error(err)
		return
	}
	defer env.healRedis()
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	for i, b := range other.buyers {
		shop := i % len(env.Shops)
		env.Shops[shop].ToRedis.Swallow(other.grant, 1+i/2%2) // every other time also the reply to the second try
		if !env.within(8*time.Second, "I4: the buyer of a lost reply was accepted", func() bool {
			resp := other.click(shop, b)
			if resp.Status != http.StatusAccepted && resp.Status != http.StatusServiceUnavailable {
				env.Report("I5: the buyer of a lost reply got %d %s", resp.Status, resp.Code)
			}
			return resp.Status == http.StatusAccepted
		}) {
			env.Report("I4: the buyer of a lost reply was refused for %v", sandboxtest.Hang)
			continue
		}
		other.order(shop, b)
		c.Wait(700 * time.Millisecond) // until the shop uses Redis again
	}
	if n := other.lost(); n < len(other.buyers)/2 {
		env.TooLittle("only %d replies were lost", n)
	}
	other.checkFinalState(ctx)
}

// healRedis repairs the network between the shops and Redis.
func (env *Environment) healRedis() {
	for _, s := range env.Shops {
		s.ToRedis.Heal()
	}
}
