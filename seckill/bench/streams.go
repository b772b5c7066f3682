package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// toldLimit is how long the streams may take to tell of the last order.
const toldLimit = 10 * time.Second

// streams opens an event stream for each buyer. Then all of them buy, evenly in --seconds, and none of them polls: each
// stream tells of its order.
func streams(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	s := &eventStreams{told: map[string]time.Time{}}
	defer s.close()
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for _, b := range buyers {
		g.Go(func() (err error) {
			for until := time.Now().Add(responseLimit); ; {
				if err = s.open(ctx, d.to, b); err == nil || time.Now().After(until) {
					return err
				}
				if err := sleep(ctx, 200*time.Millisecond); err != nil { // a shop that is busy now
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("--shape streams: %w", err)
	}
	fmt.Fprintf(d.progress, "streams   %d event streams are open\n", len(buyers))
	quiet := *d
	quiet.Poll = 0
	t, err := quiet.turn(ctx, plan{name: "streams", buyers: buyers, arrivals: len(buyers),
		when:     atRate(float64(len(buyers)) / d.duration().Seconds()),
		duration: d.duration() + toldLimit, retry: true, fixed: true, conns: d.Conns})
	for until := time.Now().Add(toldLimit); err == nil && s.count() < int(t.Accepted) && time.Now().Before(until); {
		err = sleep(ctx, 10*time.Millisecond)
	}
	if err != nil || d.Committed == nil {
		return []Turn{t}, err
	}
	committed, err := d.Committed(ctx)
	told := newHistogram()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range s.told {
		if was, known := committed[id]; known {
			record(told, at.Sub(was))
		}
	}
	l := latency(told)
	t.Told = &l
	return []Turn{t}, err
}

// eventStreams are the open streams of buyers, and when each order was told of.
type eventStreams struct {
	mu    sync.Mutex
	conns []net.Conn
	told  map[string]time.Time
	reads sync.WaitGroup
}

// open opens a stream and returns when it has told of the first result.
func (s *eventStreams) open(ctx context.Context, to target, b Buyer) error {
	conn, err := to.dial(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns = append(s.conns, conn)
	s.mu.Unlock()
	if _, err := fmt.Fprintf(conn, "GET %s/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
		saleURL(b.Sale), to.host, b.Token); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(responseLimit))
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || !bytes.Contains(lines.Bytes(), []byte(" 200 ")) {
		return fmt.Errorf("no event stream: %q", lines.Text())
	}
	for !bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
		if !lines.Scan() {
			return fmt.Errorf("an event stream without an event: %w", lines.Err())
		}
	}
	conn.SetReadDeadline(time.Time{})
	s.reads.Go(func() {
		for lines.Scan() {
			if id := jsonValue(lines.Bytes(), "order_id"); len(id) > 0 {
				s.mu.Lock()
				s.told[string(id)] = time.Now()
				s.mu.Unlock()
				return
			}
		}
	})
	return nil
}

func (s *eventStreams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told)
}

func (s *eventStreams) close() {
	for _, c := range s.conns {
		c.Close()
	}
	s.reads.Wait()
}
