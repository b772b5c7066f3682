package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/errgroup"
)

// Yardstick is a bare handler driven before and after the shop, with the same requests over as many connections.
type Yardstick struct {
	Before float64 `json:"before_per_second"`
	After  float64 `json:"after_per_second"`
	Ratio  float64 `json:"ratio"` // the shop's figure to the mean of the two
}

// ServeYardstick answers a purchase with a few fixed bytes until hold ends, and does nothing else. It says its address.
func ServeYardstick(hold io.Reader, say io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open the yardstick: %w", err)
	}
	body := []byte(`{"code":"ok","data":{"ticket":"0123456789abcdef","state":"queued","ahead":0,"next_poll_ms":200}}`)
	r := chi.NewRouter()
	r.Post("/api/sales/{id}/buy/{path}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusAccepted)
		w.Write(body)
	})
	s := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	var g errgroup.Group
	g.Go(func() error { return s.Serve(l) })
	g.Go(func() error {
		io.Copy(io.Discard, hold) // ends with whoever started us, however he ends
		return s.Close()
	})
	fmt.Fprintf(say, "http://%s\n", l.Addr())
	if err := g.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Bare drives a yardstick and gives its answers a second.
func Bare(ctx context.Context, url string, conns int, d time.Duration) (float64, error) {
	to, err := parseTarget(url, false)
	if err != nil {
		return 0, err
	}
	// A token and an address as long as the shop's.
	b := &buyer{Buyer: Buyer{Token: fmt.Sprintf("%043d", 0), Path: fmt.Sprintf("%064d", 0)}, sale: saleURL(1), step: stepBuy}
	t := &turn{driver: &driver{to: to}}
	began := time.Now()
	var answered atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range conns {
		g.Go(func() error {
			w := worker{t: t, wire: wire{to: to}}
			defer w.wire.close()
			n := int64(0)
			for ; time.Since(began) < d && ctx.Err() == nil; n++ {
				w.write(b)
				a, err := w.wire.ask(ctx, w.out, answerLimit)
				if err != nil || a.status != http.StatusAccepted || string(field(a.body, "code")) != "ok" {
					return fmt.Errorf("the yardstick answered %d (%v)", a.status, err)
				}
			}
			answered.Add(n)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return perSecond(int(answered.Load()), time.Since(began)), nil
}
