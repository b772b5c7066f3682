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

// Held is the shop's memory before, with and after connections that do nothing. In bytes.
type Held struct {
	Conns   int     `json:"connections"` // open at once
	Cut     int     `json:"cut"`         // closed by the shop before we did
	Before  int64   `json:"before_bytes"`
	Open    int64   `json:"open_bytes"`
	After   int64   `json:"after_bytes"`
	Seconds float64 `json:"after_seconds"` // since they were closed
}

// Each is what one connection takes, in bytes.
func (h Held) Each() float64 { return float64(h.Open-h.Before) / float64(max(1, h.Conns)) }

const (
	openers = 64              // at once: more would fill the shop's queue of those who knock
	calm    = 2 * time.Second // before the memory is read
)

// conns: connections that have made one request each and stay. The memory with them, and --seconds after they are closed.
func conns(ctx context.Context, d *driver, _ []Buyer) ([]Turn, error) {
	h := &Held{}
	var err error
	if h.Before, err = d.resident(ctx); err != nil {
		return nil, err
	}
	tally, began := newTally(), time.Now()
	all := d.openAll(ctx, tally)
	opened := time.Since(began)
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	if err := sleep(ctx, calm); err != nil {
		return nil, err
	}
	if h.Open, err = d.resident(ctx); err != nil {
		return nil, err
	}
	h.Conns = len(all)
	h.Cut = countCut(all)
	for _, c := range all {
		c.Close()
	}
	all = nil
	fmt.Fprintf(d.progress, "conns     %d were open; %d s of rest\n", h.Conns, d.Seconds)
	closed := time.Now()
	if err := sleep(ctx, d.coming()); err != nil {
		return nil, err
	}
	if h.After, err = d.resident(ctx); err != nil {
		return nil, err
	}
	h.Seconds = time.Since(closed).Seconds()
	t := report(plan{name: "conns", conns: d.Conns}, tally, opened, opened)
	t.Held = h
	return []Turn{t}, nil
}

// openAll opens the connections and lets each ask for the sale. It gives those that got their answer.
func (d *driver) openAll(ctx context.Context, all *tally) (open []net.Conn) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(openers)
	request := d.saleRequest()
	for range d.Conns {
		g.Go(func() error {
			w := wire{to: d.to} // its buffers end here
			began := time.Now()
			a, err := w.ask(ctx, request, answerLimit)
			all.note(func(t *tally) {
				t.Offered++
				switch {
				case err != nil:
					t.Failed++
					t.failed[kind(err)]++
				case a.status != http.StatusOK || a.last:
					t.Failed++
					t.failed[strconv.Itoa(a.status)+" "+string(field(a.body, "code"))]++
				default:
					t.Requests++
					t.Pages++
					record(t.page, time.Since(began))
				}
			})
			if w.c != nil {
				mu.Lock()
				open = append(open, w.c)
				mu.Unlock()
			}
			return nil
		})
	}
	g.Wait()
	return open
}

// countCut counts the connections that the other side has closed: where one is open, there is nothing to read.
func countCut(open []net.Conn) int {
	var cut atomic.Int64
	var g errgroup.Group
	g.SetLimit(openers)
	for _, c := range open {
		g.Go(func() error {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				cut.Add(1)
			}
			return nil
		})
	}
	g.Wait()
	return int(cut.Load())
}

// resident is the shop's memory of this moment.
func (d *driver) resident(ctx context.Context) (int64, error) {
	if d.Usage == nil {
		return 0, errors.New("--shape conns: the shop's memory is out of reach; --ops for a shop at --url")
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
