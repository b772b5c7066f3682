package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox"
)

// ofARealShop reports whether a setting speaks of a real shop: the address of a store, what signs, a payment provider,
// and the ways by which people reach a shop. Beside one of them the sandbox starts only if it is asked for by name.
func ofARealShop(flag string) bool {
	return isSecret(flag) && flag != "asset-url" || flag == "trusted-proxies" || flag == "tls-domain"
}

// CheckSandbox returns an error if the sandbox, whose passwords are public, would run Postgres for a command although a
// setting speaks of a real shop. It is also an error if a secret or a URL among the arguments is empty.
func CheckSandbox(
	parsed *kong.Context, cfg backend.Config, environment func(name string) (value string, ok bool),
) error {
	arguments := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		arguments[p.Flag.Name] = true
		if value, ok := parsed.FlagValue(p.Flag).(string); ok && isSecret(p.Flag.Name) && trim(value) == "" {
			return exitError{exitUsage, fmt.Errorf("--%s is empty: give it a value, or leave it out", p.Flag.Name)}
		}
	}
	var given []string
	proxies := false
	for name, flag := range allFlags(parsed.Model.Node) {
		as := ""
		for _, variable := range []string{flag.Envs[0] + "_FILE", flag.Envs[0]} {
			if _, there := environment(variable); there {
				as = variable
			}
		}
		if arguments[name] {
			as = "--" + name
		}
		if as != "" && ofARealShop(name) {
			given, proxies = append(given, as), proxies || name == "trusted-proxies"
		}
	}
	slices.Sort(given)
	switch asked := cfg.SandboxRuns == "both" || cfg.SandboxRuns == "postgres"; {
	case !cfg.Sandboxed() || len(given) == 0:
		return nil
	case asked && proxies:
		return exitError{exitUsage, errors.New(
			"--trusted-proxies (MIAOSHA_TRUSTED_PROXIES): the sandbox trusts no proxy, because its passwords are public; a real shop needs DATABASE_URL and REDIS_URL")}
	case asked:
		return nil
	}
	runs := "both"
	if cfg.RedisURL != "" {
		runs = "postgres"
	}
	return exitError{exitUsage, fmt.Errorf(
		"%s: this is for a real shop, and DATABASE_URL is not set. Set DATABASE_URL and REDIS_URL; or, for the sandbox, whose passwords are public, leave it out or add --sandbox %s (MIAOSHA_SANDBOX)",
		strings.Join(given, ", "), runs)}
}

// allFlags returns the flags of all commands that the environment sets, by name.
func allFlags(node *kong.Node) map[string]*kong.Flag {
	all := map[string]*kong.Flag{}
	for _, flag := range node.Flags {
		if len(flag.Envs) > 0 {
			all[flag.Name] = flag
		}
	}
	for _, child := range node.Children {
		maps.Copy(all, allFlags(child))
	}
	return all
}

// withShop opens the stores for a command about a shop that there is.
func (env Env) withShop(ctx context.Context, do func(*backend.Stores) error) error {
	if err := env.requireShop(); err != nil {
		return err
	}
	return env.withStores(ctx, do)
}

// requireShop returns an error if there is no shop. A command about a shop makes no sandbox: beside a shop whose
// settings are elsewhere, as those of a service are, a new one would take what was meant for that shop.
func (env Env) requireShop() error {
	missing, err := env.missingSandbox()
	if err == nil && missing != "" {
		err = fmt.Errorf(
			"there is no shop: no setting names one, and there is no sandbox in %s (--data-dir). Set DATABASE_URL, REDIS_URL and the rest as your shop has them (systemctl cat miaosha shows where), or start miaosha, which makes a sandbox",
			missing)
	}
	return err
}

// withLab opens the stores for a run of the lab, which needs no shop: without one, those of a sandbox that is removed
// at the end.
func (env Env) withLab(ctx context.Context, do func(*backend.Stores) error) (err error) {
	missing, err := env.missingSandbox()
	if err != nil {
		return err
	}
	if missing != "" && env.Backend.Sandboxed() {
		var remove func() error
		if env, remove, err = env.ownStores(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	return env.withStores(ctx, do)
}

// withOwnLab opens the stores of a sandbox that is removed at the end, also beside a shop: a program of someone else
// shares no store with it.
func (env Env) withOwnLab(ctx context.Context, do func(*backend.Stores) error) (err error) {
	env.Backend.DatabaseURL = ""
	own, remove, err := env.ownStores(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return own.withStores(ctx, do)
}

// missingSandbox returns the data folder of the sandbox that the settings mean and that does not exist, "" if there is
// none or it exists.
func (env Env) missingSandbox() (folder string, err error) {
	own := env.Backend.Sandbox()
	if err := env.Backend.RequireStores(); err != nil || !own.Postgres && !own.Redis {
		return "", err
	}
	if err := own.Validate(); err != nil {
		return "", err
	}
	exists, err := sandbox.Exists(own)
	if exists || err != nil {
		return "", err
	}
	return own.DataDir, nil
}

// sayWhere says which shop a command has changed.
func (env Env) sayWhere(s *backend.Stores) {
	fmt.Fprintf(env.Err, "changed: %s\n", s.Where())
}
