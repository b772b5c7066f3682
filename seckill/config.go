package seckill

import (
	"errors"
	"fmt"
	"time"
)

// Config has the settings of the rush.
type Config struct {
	Gate         string        `name:"gate" env:"MIAOSHA_GATE" enum:"redis,off" default:"redis" help:"What thins the crowd before Postgres: redis, or off for Postgres alone."`
	GateFactor   int           `name:"gate-factor" env:"MIAOSHA_GATE_FACTOR" default:"5" help:"Hidden addresses alive at once, per unit left."`
	AddressTTL   time.Duration `name:"path-ttl" env:"MIAOSHA_PATH_TTL" default:"60s" help:"How long a hidden address is valid."`
	MaxInFlight  int           `name:"max-in-flight" env:"MIAOSHA_MAX_IN_FLIGHT" default:"4096" help:"Buy requests in progress at once; further ones are answered busy."`
	QMax         int           `name:"qmax" env:"MIAOSHA_QMAX" default:"20000" help:"Tickets queued at once: per sale in Redis, and in all in this process."`
	QueueWorkers int           `name:"queue-workers" env:"MIAOSHA_QUEUE_WORKERS" default:"6" help:"Sales whose tickets this process turns into orders at once, each in a transaction: at most as many as --pool-settle has connections."`

	Optimisations `embed:""`

	SettlePause time.Duration `name:"settle-pause" env:"MIAOSHA_SETTLE_PAUSE" default:"0s" hidden:"" help:"For measuring: pause before each settle transaction."`
}

// Optimisations are what bench --ladder switches off one by one: a batch of 1, or a life of 1 ns, is no optimisation.
type Optimisations struct {
	LaneBatch   int           `name:"lane-batch" default:"256" hidden:"" help:"For measuring: clicks in one reserve call at most. With the sandbox's own stores only."`
	SettleBatch int           `name:"settle-batch" default:"2000" hidden:"" help:"For measuring: tickets in one settle transaction, and the rest of the last one's journal entry. With the sandbox's own stores only."`
	SoldOutMark time.Duration `name:"sold-out-mark" default:"50ms" hidden:"" help:"For measuring: how long a lane refuses strangers itself. With the sandbox's own stores only."`
}

// AllOptimisations returns those of a shop that is not slowed down for measuring.
func AllOptimisations() Optimisations {
	return Optimisations{LaneBatch: laneBatch, SettleBatch: settleBatch, SoldOutMark: soldOutMark}
}

// Validate returns an error for settings that make no sense. A bound of zero is an error, never "unlimited".
func (c Config) Validate() error {
	switch {
	case c.GateFactor < 1:
		return errors.New("--gate-factor: at least 1")
	case c.AddressTTL < time.Second:
		return errors.New("--path-ttl: at least 1s")
	case c.MaxInFlight < 1:
		return errors.New("--max-in-flight: at least 1")
	case c.QMax < 1:
		return errors.New("--qmax: at least 1")
	case c.QueueWorkers < 1:
		return errors.New("--queue-workers: at least 1")
	case c.LaneBatch < 1 || c.LaneBatch > laneBatch:
		return fmt.Errorf("--lane-batch: 1 to %d", laneBatch)
	case c.SettleBatch < 1 || c.SettleBatch > settleBatch:
		return fmt.Errorf("--settle-batch: 1 to %d", settleBatch)
	case c.SoldOutMark < 1 || c.SoldOutMark > soldOutMark:
		return fmt.Errorf("--sold-out-mark: 1ns to %v", soldOutMark)
	case c.SettlePause < 0:
		return errors.New("--settle-pause: at least 0s")
	}
	return nil
}

func (c Config) gateOff() bool { return c.Gate == "off" }
