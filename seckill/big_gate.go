package seckill

import (
	"context"
	"errors"
	"time"

	"miaosha/seckill/gate"
	"miaosha/seckill/rebuild"
)

// bigGate bounds the number of live hidden addresses by the units left, and puts the users it has none for in line.
type bigGate struct {
	cfg       Config
	gate      *gate.Gate
	rebuilder *rebuild.Rebuilder
	metrics   *metrics
}

// admit returns the expiry of a user's address. Refusals: see Engine.Address.
func (b *bigGate) admit(ctx context.Context, sale, user int64, now time.Time) (expiry time.Time, err error) {
	if b.cfg.gateOff() {
		return now.Add(b.cfg.AddressTTL), nil
	}
	expiry, wasted, err := b.gate.Address(ctx, sale, user, b.cfg.AddressTTL, b.cfg.GateFactor)
	if errors.Is(err, gate.ErrNoGate) && b.rebuilder.Rebuild(ctx, sale) == nil {
		expiry, wasted, err = b.gate.Address(ctx, sale, user, b.cfg.AddressTTL, b.cfg.GateFactor)
	}
	b.metrics.wasted.Add(float64(wasted))
	return expiry, b.metrics.refusal("path", err)
}
