package sandbox

import (
	"context"
	"errors"
	"os"
)

// Spare says how another Postgres is run beside that of a shop.
type Spare struct {
	Bin      string // the folder of postgres and initdb
	Version  string // such as "15.13"
	Account  bool   // another account has to run it, of these ids
	UID, GID uint32
	Cache    string // a folder for what may be made again; "" for the account's
}

// FindSpare looks for a Postgres on this machine, and fetches none. It makes no folder for a shop that has a Postgres
// of its own.
func FindSpare(ctx context.Context, cfg Config) (s Spare, err error) {
	sandboxed := cfg.Postgres
	cfg.Postgres = true // Validate wants one of them; it does not matter which
	if err := cfg.Validate(); err != nil {
		return s, err
	}
	o := &owner{cfg: cfg, place: place{base: cfg.DataDir, home: os.TempDir(), account: postgresAccount()}}
	if sandboxed {
		if o.place, err = findPlace(cfg.DataDir, "", cfg.Log); err != nil {
			return s, err
		}
		if !isTemporary(cfg.DataDir) {
			s.Cache = cfg.DataDir
		}
	}
	if os.Geteuid() == 0 && !o.place.account.set {
		return s, errors.New("root may not run Postgres, and there is no user postgres or nobody that could")
	}
	found, err := o.onThisMachine(ctx)
	if err == nil && len(found) == 0 {
		err = errors.New("there are no programs of Postgres on this machine")
	}
	if err != nil {
		return s, err
	}
	s.Bin, s.Version = found[0].dir, found[0].version
	s.Account, s.UID, s.GID = o.place.account.ids()
	return s, nil
}
