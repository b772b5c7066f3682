package gate

import (
	"errors"

	"miaosha/goods"
)

// Kinds are those of Reply.Kind.
var Kinds = []string{granted, held, soldOut, busy, early, ended, paused, fault}

const (
	granted, held, soldOut, busy = "granted", "held", "sold_out", "busy"
	early, ended, paused, fault  = "not_started", "ended", "paused", "fault"
)

// Kind names the reply for a metric.
func (r Reply) Kind() string {
	switch {
	case r.Ticket != "":
		return granted
	case r.Existing != nil:
		return held
	case r.Err == goods.ErrSoldOut:
		return soldOut
	case r.Err == ErrBusy:
		return busy
	case r.Err == goods.ErrEnded:
		return ended
	case r.Err == goods.ErrPaused:
		return paused
	case errors.As(r.Err, new(goods.NotStartedError)):
		return early
	}
	return fault
}
