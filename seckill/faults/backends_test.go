//go:build faults && linux

package faults

import (
	"context"
	"time"
)

// postgresFaults break Postgres.
func postgresFaults() []scenario {
	return []scenario{
		{name: "Postgres backends killed every 10 ms for 3 s", crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(20)
				w.Strike("backends killed", func() {
					for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						w.killBackends()
					}
				})
			},
			after: func(w *World, c *Crowd) {
				if w.scrape(); w.total("miaosha_settle_retries_total") == 0 {
					w.T.Error("no settle was hit")
				}
			}},
	}
}

// killBackends ends the connections of the shop that are at work just now.
func (w *World) killBackends() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := w.pool.Exec(ctx, `
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'miaosha' and state <> 'idle'`); err != nil {
		w.T.Errorf("kill backends: %v", err)
	}
}
