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

// Baseline is the speed of a bare handler, driven with the same requests before and after the shop.
type Baseline struct {
	Before float64 `json:"before_per_second"`
	After  float64 `json:"after_per_second"`
	Ratio  float64 `json:"ratio"` // the shop's figure divided by the mean of both
}

// ServeBaseline prints its address and answers each purchase with the same few bytes, until stdin ends.
func ServeBaseline(stdin io.Reader, stdout io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open the baseline: %w", err)
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
		io.Copy(io.Discard, stdin) // ends when the parent process ends, even when it is killed
		return s.Close()
	})
	fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	if err := g.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// DriveBaseline drives a baseline and returns its responses a second.
func DriveBaseline(ctx context.Context, url string, conns int, d time.Duration) (float64, error) {
	to, err := parseTarget(url, false)
	if err != nil {
		return 0, err
	}
	// The token and the path are as long as the shop's.
	b := &buyer{Buyer: Buyer{Token: fmt.Sprintf("%043d", 0), Path: fmt.Sprintf("%064d", 0)},
		sale: saleURL(1), step: stepBuy}
	t := &turn{driver: &driver{to: to}}
	began := time.Now()
	var responses atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range conns {
		g.Go(func() error {
			w := worker{t: t, client: client{to: to}}
			defer w.client.close()
			n := int64(0)
			for ; time.Since(began) < d && ctx.Err() == nil; n++ {
				w.writeRequest(b)
				resp, err := w.client.do(ctx, w.out, responseLimit)
				if err != nil || resp.status != http.StatusAccepted || string(jsonValue(resp.body, "code")) != "ok" {
					return fmt.Errorf("the baseline answered %d (%v)", resp.status, err)
				}
			}
			responses.Add(n)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return perSecond(int(responses.Load()), time.Since(began)), nil
}
