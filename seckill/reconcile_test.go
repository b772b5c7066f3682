package seckill_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill"
)

// mover is a client's hook that has the gate move each time it was read, as settling does, as often as moves says.
type mover struct {
	s            *shop
	moves, reads int
}

func (m *mover) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mover) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (m *mover) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if m.reads++; m.reads <= m.moves {
			m.s.rdb.HIncrBy(ctx, seckill.GateKey(m.s.sale), "ops", 1)
		}
		return err
	}
}

// A gate that moves while it is held against Postgres is fixed in the same tick, unless it moves on and on.
func TestAGateThatMovesIsFixedAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	client := s.client(nil)
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = client })
	s.ready()
	e.stop()
	m := &mover{s: s}
	client.AddHook(m)
	for moves, want := range map[int]int{0: 10, 1: 10, 3: 10, 100: 4} {
		if err := s.rdb.HSet(t.Context(), seckill.GateKey(s.sale), "stock", 4).Err(); err != nil {
			t.Fatal(err)
		}
		m.moves, m.reads = moves, 0
		e.Reconcile(t.Context())
		if got := s.gate().Stock; got != want || m.reads != min(moves+1, 4) {
			t.Errorf("moved %d times: the gate offers %d, want %d; it was read %d times", moves, got, want, m.reads)
		}
	}
}
