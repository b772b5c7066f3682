package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// drip holds dripConns connections and sends a byte on each every dripEvery.
const dripConns, dripEvery = 500, 250 * time.Millisecond

// slow is capacity beside a Slowloris attack: clients that send their request byte by byte.
func slow(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return single(d.turn(ctx, plan{name: "slow", buyers: buyers, arrivals: len(buyers), duration: d.duration(),
		conns: d.Conns, retry: true,
		background: d.drip}))
}

// drip keeps dripConns slow connections until ctx ends. It reopens those that the shop closes.
func (d *driver) drip(ctx context.Context) {
	var g sync.WaitGroup
	request := fmt.Appendf(nil, "POST /api/sales/%d/path HTTP/1.1\r\nHost: %s\r\nX-Slow: ", d.Sale, d.to.host)
	for range dripConns {
		g.Go(func() {
			for ctx.Err() == nil {
				c, err := d.to.dial(ctx)
				for i := 0; err == nil && ctx.Err() == nil; i++ {
					b := byte('x')
					if i < len(request) {
						b = request[i]
					}
					c.SetWriteDeadline(time.Now().Add(time.Second))
					if _, err = c.Write([]byte{b}); err == nil {
						sleep(ctx, dripEvery)
					}
				}
				if c != nil {
					c.Close()
				}
				sleep(ctx, dripEvery)
			}
		})
	}
	g.Wait()
}
