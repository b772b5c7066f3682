package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Memory is the memory of the shop before, with and after idle connections, in bytes.
type Memory struct {
	Conns        int     `json:"connections"` // open at once
	ClosedByShop int     `json:"cut"`         // before the bench closed them
	Before       int64   `json:"before_bytes"`
	Open         int64   `json:"open_bytes"`
	After        int64   `json:"after_bytes"`
	Seconds      float64 `json:"after_seconds"` // from closing them to After
}

// PerConn returns the memory of one connection, in bytes.
func (h Memory) PerConn() float64 { return float64(h.Open-h.Before) / float64(max(1, h.Conns)) }

const (
	openAtOnce = 64              // more would overflow the accept queue of the shop
	restTime   = 2 * time.Second // before the memory is read
)

// conns reads the shop's memory before, with and --seconds after connections that stay idle.
func conns(ctx context.Context, d *driver, _ []Buyer) ([]Turn, error) {
	h := &Memory{}
	var err error
	if h.Before, err = d.residentMemory(ctx); err != nil {
		return nil, err
	}
	tally, began := newTally(), time.Now()
	all := d.openAll(ctx, tally)
	opened := time.Since(began)
	closeAll := func() {
		for _, c := range all {
			c.Close()
		}
	}
	defer closeAll() // after an error; a second time is harmless
	if err := sleep(ctx, restTime); err != nil {
		return nil, err
	}
	if h.Open, err = d.residentMemory(ctx); err != nil {
		return nil, err
	}
	h.Conns = len(all)
	h.ClosedByShop = countClosed(all)
	closeAll()
	fmt.Fprintf(d.progress, "conns     %d connections were open; waiting %d s\n", h.Conns, d.Seconds)
	closed := time.Now()
	if err := sleep(ctx, d.duration()); err != nil {
		return nil, err
	}
	if h.After, err = d.residentMemory(ctx); err != nil {
		return nil, err
	}
	h.Seconds = time.Since(closed).Seconds()
	t := turnReport(plan{name: "conns", conns: d.Conns}, tally, opened, opened)
	t.Memory = h
	return []Turn{t}, nil
}

// openAll opens the connections, requests the sale once on each and returns the open ones.
func (d *driver) openAll(ctx context.Context, all *tally) (open []net.Conn) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	request := d.saleRequest()
	for range d.Conns {
		g.Go(func() error {
			c := client{to: d.to} // its buffers are freed here
			began := time.Now()
			resp, err := c.do(ctx, request, responseLimit)
			all.update(func(t *tally) {
				t.Offered++
				switch {
				case err != nil:
					t.Failed++
					t.failed[faultKind(err)]++
				case resp.status != http.StatusOK || resp.closing:
					t.Failed++
					t.failed[strconv.Itoa(resp.status)+" "+string(jsonValue(resp.body, "code"))]++
				default:
					t.Requests++
					t.Pages++
					record(t.page, time.Since(began))
				}
			})
			if c.conn != nil {
				mu.Lock()
				open = append(open, c.conn)
				mu.Unlock()
			}
			return nil
		})
	}
	g.Wait()
	return open
}

// countClosed returns how many connections the shop has closed. An open one has nothing to read. All are read at once,
// with one end: a machine that is busy for a moment has a whole second to come to each.
func countClosed(open []net.Conn) int {
	var cut atomic.Int64
	var reading sync.WaitGroup
	deadline := time.Now().Add(time.Second)
	for _, c := range open {
		c.SetReadDeadline(deadline)
		reading.Go(func() {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				cut.Add(1)
			}
		})
	}
	reading.Wait()
	return int(cut.Load())
}

// residentMemory returns the current memory of the shop.
func (d *driver) residentMemory(ctx context.Context) (int64, error) {
	if d.Usage == nil {
		return 0, errors.New("--shape conns: cannot read the memory of the shop; with --url use --ops")
	}
	u, err := d.Usage(ctx)
	return u.Resident, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
