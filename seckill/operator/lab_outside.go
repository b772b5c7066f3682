package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/outside"
)

// judgeOutside sends the crowd to an outside shop.
func (l LabCompare) judgeOutside(ctx context.Context, env Env, plan lab.Plan) error {
	if len(l.Strategies) > 0 {
		return exitError{exitUsage, errors.New("--strategies: --mine judges your shop alone; leave out one of the two")}
	}
	began, shop := time.Now(), outside.New(l.Outside, env.Err)
	fmt.Fprintf(env.Err, "lab: %s: %s\n", l.Outside, planText(plan))
	return env.withOwnLab(ctx, func(s *backend.Stores) error {
		result, err := outside.Run(ctx, LabStores(env.Backend, s, env.Schema), plan, shop, labProgress(env.Err))
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf(
				"stopped. The processes of your shop are killed, and its role, tables and keys are removed; nothing is left behind%s",
				notWritten(l.HTML))
		}
		if err != nil {
			return asFlag(err)
		}
		results := []lab.Result{result}
		page := func(w io.Writer) error { return writeLabPage(w, env.Origin, plan, results, began) }
		text := func(w io.Writer) error { return writeLab(w, plan, results) }
		return env.writeReport(l.HTML, l.JSON, results, page, text)
	})
}
