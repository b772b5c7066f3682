package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A user who clicks again while a click is being served waits for the reply to that click. The lane serves one click,
// however many requests wait, and every request that still waits receives the reply.
func TestOneClickOfAUserIsInFlight(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" }) // the reply waits for Postgres
	release := s.lockSale()
	buy := func(ctx context.Context) chan error {
		reply := make(chan error, 1)
		go func() {
			b, err := e.Buy(ctx, s.sale, 1)
			if err == nil && b.Status.State != seckill.Ordered {
				err = fmt.Errorf("state %s", b.Status.State)
			}
			reply <- err
		}()
		return reply
	}
	ctx, leave := context.WithCancel(t.Context())
	first := buy(ctx)
	sandboxtest.Until(t, "the first click is being served", func() bool { return s.clicksServed(e) == 1 })
	second := buy(t.Context())
	var others errgroup.Group
	for range 50 {
		others.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) //timing: the limit of a client's own
			defer cancel()
			if _, err := e.Buy(ctx, s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
				return fmt.Errorf("a request with a limit of 20 ms: %v, want busy", err)
			}
			return nil
		})
	}
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
	leave()
	if err := <-first; !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("the request that was cancelled: %v, want busy", err)
	}
	release()
	if err := <-second; err != nil {
		t.Errorf("the request that waited: %v, want an order", err)
	}
	if n := s.clicksServed(e); n != 1 {
		t.Errorf("the lane served %v clicks, want 1", n)
	}
}
