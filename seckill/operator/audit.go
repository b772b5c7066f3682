package operator

import (
	"context"
	"errors"
	"fmt"

	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
)

// Audit checks the invariants.
type Audit struct {
	archiveFolder
	Thorough bool `help:"Also check that the database refuses what it must refuse, in a transaction that is rolled back. Use it on a copy that no shop uses, as the owner of its tables."`
}

// ErrBroken reports that an invariant does not hold.
var ErrBroken = audit.ErrBroken

// Run prints the violations, and what it has read. It returns ErrBroken if there are any. An error with the exit code
// exitNotAsked reports that a store did not answer: whether an invariant is broken is not known.
func (a Audit) Run(ctx context.Context, env Env) error {
	if err := env.Backend.Validate(); err != nil {
		return exitError{exitUsage, err}
	}
	env.Backend.ReadOnly = true
	p := env.progress()
	p.step("audit: opening the stores; an audit only reads")
	if err := env.requireShop(); err != nil {
		return err
	}
	err := env.withAnyStores(ctx, func(s *backend.Stores) error {
		extent, err := audit.Read(ctx, s.Web, s.Redis)
		if err != nil {
			return err
		}
		var tried []audit.Finding
		if a.Thorough {
			if tried, err = audit.Effects(ctx, s.Web); err != nil {
				return err
			}
		}
		clean, err := audit.RunWith(ctx, s.Web, s.Redis, a.of(s), p.above(env.verdicts()),
			func(part string) { p.count("audit: reading %s", part) })
		p.clear()
		fmt.Fprintf(env.Out, "read: %s\n", extent)
		for _, f := range tried {
			fmt.Fprintf(p.above(env.verdicts()), "BROKEN %s: %s\n", f.Invariant, f.Meaning)
		}
		if err == nil && (!clean || len(tried) > 0) {
			err = ErrBroken
		}
		return err
	})
	p.clear()
	switch {
	case err == nil, errors.Is(err, ErrBroken):
		return err
	case ctx.Err() != nil:
		err = errors.New(
			"stopped before the end: it is not known whether every invariant holds. An audit only reads, so nothing is left behind")
	default:
		err = fmt.Errorf("could not ask, so it is not known whether every invariant holds: %w", err)
	}
	return exitError{exitNotAsked, err}
}
