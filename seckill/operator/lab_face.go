package operator

import (
	"context"
	"errors"
	"log/slog"

	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
	"miaosha/web"
)

// NewLab gives the lab of a shop that stands on stores: the face of web, the work of package lab. It opens its own
// connections to the same servers, when it is asked for something.
func NewLab(cfg backend.Config, stores *backend.Stores, schema string, log *slog.Logger) *web.Lab {
	in := labStores(cfg, stores, schema)
	ways := lab.Ladder()
	work := web.LabWork{Ways: ways, Experiments: lab.Experiments(), Faults: lab.Faults(),
		Max: web.LabMax{Buyers: lab.MaxBuyers, Stock: lab.MaxStock, Seconds: lab.MaxSeconds}}
	for _, w := range ways {
		work.Strategies = append(work.Strategies, w.Name)
	}
	work.Check = func(p web.LabPlan) (field, reason string) {
		var invalid lab.InvalidError
		switch {
		case len(p.Strategies) == 0:
			return "strategies", "at least one"
		case errors.As(labPlan(p).Validate(), &invalid):
			return invalid.Field, invalid.Reason
		}
		return "", ""
	}
	work.Run = func(ctx context.Context, p web.LabPlan, now, result func(any)) error {
		_, err := lab.Run(ctx, in, labPlan(p), func(p lab.Progress) {
			if now(p); p.Done != nil {
				result(*p.Done)
			}
		})
		return err
	}
	work.Race = func(ctx context.Context, strategy string, seed uint64) (any, error) {
		return lab.Race(ctx, in, strategy, seed)
	}
	work.Try = func(ctx context.Context, experiment string, seed uint64) (any, error) {
		return lab.Try(ctx, in, experiment, seed)
	}
	return web.NewLab(work, log)
}

func labPlan(p web.LabPlan) lab.Plan {
	return lab.Plan{Strategies: p.Strategies, Buyers: p.Buyers, Stock: p.Stock, DoubleClicks: p.DoubleClicks, Faults: p.Faults,
		Seed: p.Seed, Seconds: p.Seconds}
}
