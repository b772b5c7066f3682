package operator

import (
	"context"

	"miaosha/seckill/backend"
	"miaosha/seckill/gate"
	"miaosha/seckill/lineage"
	"miaosha/seckill/live"
	"miaosha/user"
)

// ProvePast lets package lineage make its calls at Redis once. It comes before Prove, which leaves keys: an empty Redis
// has no past.
func ProvePast(ctx context.Context, stores *backend.Stores) error {
	return stores.ProveBoth(ctx, backend.Need{Scripts: lineage.Scripts(), Probe: lineage.Probe})
}

// Prove lets every other part of the shop make its calls at its Redis once, before the shop is open. An error is one
// line that names the setting, the command and the way out.
func Prove(ctx context.Context, stores *backend.Stores, sessions *user.Sessions, gates bool) error {
	needs := []backend.Need{{Scripts: user.Scripts(), Probe: user.Probe}, {Probe: live.Probe}}
	if gates {
		needs = append(needs, backend.Need{Scripts: gate.Scripts(), Probe: gate.Probe})
	}
	if err := stores.Prove(ctx, needs...); err != nil {
		return err
	}
	return stores.ProveSessions(ctx, user.Scripts(), sessions.Probe)
}
