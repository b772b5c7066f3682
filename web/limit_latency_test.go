//go:build latency

package web_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// One user who sends 1,000 requests a second does not slow down the others. The best of several rounds
// counts, since the machine may do other things.
func TestLatencyBesideOneUsersFlood(t *testing.T) {
	shop := openShop(t, "MIAOSHA_IP_RATE=off")
	const rounds, each, pace = 3, 400, 10 * time.Millisecond // each: buys of a phase; pace: the time between two
	sale := shop.sale("--stock", "5000")
	buyers := shop.newBuyers(2*rounds*each + 1)
	bot, buyers := buyers[0], buyers[1:]
	phase := func(buyers []*sandboxtest.Buyer) time.Duration {
		times := make([]time.Duration, len(buyers))
		var crowd sync.WaitGroup
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i, p := range buyers {
			<-tick.C
			crowd.Go(func() {
				at := signPath(t, p, sale, time.Minute)
				began := time.Now()
				if r := shop.call("POST", "/api/sales/"+sale+"/buy/"+at, p.Token, ""); r.Status != 202 {
					t.Errorf("a buy of another user: %d %s", r.Status, r.Raw)
				}
				times[i] = time.Since(began)
			})
		}
		crowd.Wait()
		return p99(times)
	}
	for round := range rounds {
		ofRound := buyers[2*round*each:]
		before := phase(ofRound[:each])
		ctx, stop := context.WithCancel(t.Context())
		var sent, refused atomic.Int64
		var flood sync.WaitGroup
		at := signPath(t, bot, sale, time.Minute)
		flood.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				for range 5 {
					flood.Go(func() {
						sent.Add(1)
						if shop.call("POST", "/api/sales/"+sale+"/buy/"+at, bot.Token, "").Status == 429 {
							refused.Add(1)
						}
					})
				}
			}
		})
		began := time.Now()
		during := phase(ofRound[each : 2*each])
		took := time.Since(began)
		stop()
		flood.Wait()
		rate := float64(sent.Load()) / took.Seconds()
		t.Logf("p99 of the others' buys: %v alone, %v beside %.0f requests a second of one user; %d of %d of these refused", before, during, rate, refused.Load(), sent.Load())
		if refused.Load() < sent.Load()*9/10 {
			t.Errorf("only %d of one user's %d requests were refused", refused.Load(), sent.Load())
		}
		if !slower(before, during) {
			return
		}
	}
	t.Error("in each round the p99 of the others is more than twice that before")
}

// An account that cancels its own cancelled order again and again, on 1,000 connections, does not slow
// down the others' payments. The bucket is the account's: on more connections no more requests reach Postgres.
// The best of several rounds counts.
func TestLatencyOfPayingBesideCancels(t *testing.T) {
	shop := openShop(t)
	const rounds, pays, pace, connections, attack = 3, 300, 10 * time.Millisecond, 1000, 3000 // attack: requests a second
	sale := shop.sale("--stock", "5000")
	buyers := shop.Buyers(t, 61, sale)
	orders := make([]string, len(buyers))
	for i, b := range buyers {
		orders[i] = b.Order(t)
	}
	bot, mine, buyers := buyers[60], orders[60], buyers[:60]
	if r := bot.Cancel(time.Now().Add(sandboxtest.Hang), mine); r.Code != "ok" {
		t.Fatalf("cancel: %d %s", r.Status, r.Raw)
	}
	bots := &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	phase := func() time.Duration {
		times := make([]time.Duration, pays)
		var crowd sync.WaitGroup
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := range times {
			<-tick.C
			crowd.Go(func() {
				began := time.Now()
				if r := buyers[i%len(buyers)].Send("pay", "POST", "/api/orders/"+orders[i%len(buyers)]+"/pay", ""); r.Code != "ok" {
					t.Errorf("a payment: %d %s", r.Status, r.Raw)
				}
				times[i] = time.Since(began)
			})
		}
		crowd.Wait()
		return p99(times)
	}
	for range rounds {
		before := phase()
		ctx, stop := context.WithCancel(t.Context())
		var sent, refused atomic.Int64
		var flood sync.WaitGroup
		flood.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				for range attack / 200 {
					flood.Go(func() {
						sent.Add(1)
						if sandboxtest.CallBy(bots, "POST", shop.URL+"/api/orders/"+mine+"/cancel", bot.Token, "").Status == 429 {
							refused.Add(1)
						}
					})
				}
			}
		})
		during := phase()
		stop()
		flood.Wait()
		t.Logf("p99 of the others' payments: %v alone, %v beside the account; %d of its %d requests refused", before, during, refused.Load(), sent.Load())
		if refused.Load() < sent.Load()*9/10 {
			t.Errorf("only %d of the account's %d requests were refused", refused.Load(), sent.Load())
		}
		if !slower(before, during) {
			return
		}
	}
	t.Error("in each round the p99 of the others' payments is more than twice that before")
}
