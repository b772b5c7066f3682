package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// slowClients is how many connections the slow ones hold.
const slowClients = 500

// slow: the crowd of capacity, beside clients who send a request a byte at a time.
func slow(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return one(d.turn(ctx, plan{name: "slow", buyers: buyers, arrivals: len(buyers), coming: d.coming(), conns: d.Conns, again: true,
		beside: d.drip}))
}

// drip holds slowClients connections until ctx ends. One that the shop has had enough of is opened again.
func (d *driver) drip(ctx context.Context) error {
	var g errgroup.Group
	request := fmt.Appendf(nil, "POST /api/sales/%d/path HTTP/1.1\r\nHost: %s\r\nX-Slow: ", d.Sale, d.to.host)
	for range slowClients {
		g.Go(func() error {
			tick := time.NewTicker(250 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				c, err := d.to.dial(ctx)
				for i := 0; err == nil && ctx.Err() == nil; i++ {
					b := byte('x')
					if i < len(request) {
						b = request[i]
					}
					c.SetWriteDeadline(time.Now().Add(time.Second))
					if _, err = c.Write([]byte{b}); err == nil {
						select {
						case <-tick.C:
						case <-ctx.Done():
						}
					}
				}
				if c != nil {
					c.Close()
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}
	return g.Wait()
}
