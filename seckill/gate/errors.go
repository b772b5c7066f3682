package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/goods"
)

// Refusals. Those of a sale's state and window are in package goods.
var (
	ErrBusy        = errors.New("busy, try again")
	ErrNoGate      = errors.New("the sale has no gate")
	ErrWentBack    = errors.New("the data of Redis went back meanwhile")
	ErrUnavailable = fmt.Errorf("%w: the breaker is open", ErrBusy) // Redis was not called
)

// TooManyError carries the time after which to try again.
type TooManyError struct{ RetryAfter time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("too many, try again in %v", e.RetryAfter)
}

// refusal returns the error for a script's verdict: a named refusal, or a fault for an unknown verdict.
func refusal(verdict, argument string) error {
	ms, err := strconv.ParseInt(argument, 10, 64)
	wait := time.Duration(ms) * time.Millisecond
	switch verdict {
	case "NOGATE":
		return ErrNoGate
	case "CLOSED", "ENDED":
		return goods.ErrEnded
	case "PAUSED":
		return goods.ErrPaused
	case "SOLDOUT":
		return goods.ErrSoldOut
	case "BUSY":
		return ErrBusy
	case "EARLY":
		if err == nil {
			return goods.NotStartedError{In: wait}
		}
	case "FULL":
		if err == nil {
			return TooManyError{RetryAfter: wait}
		}
	}
	return fmt.Errorf("a gate script returned %q %q", verdict, argument)
}

// IsRefusal reports whether err is an answer of a healthy gate, or the caller's own cancellation, and not a fault.
func IsRefusal(err error) bool {
	for _, refusal := range []error{goods.ErrNoSale, goods.ErrPaused, goods.ErrEnded, goods.ErrSoldOut, ErrBusy,
		ErrNoGate, context.Canceled} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return errors.As(err, new(goods.NotStartedError)) || errors.As(err, new(TooManyError))
}

// faultOf returns err if it is a failure of Redis, else nil. A refusal, a key of the wrong type and a cancelled caller
// are no failures.
func faultOf(err error) error {
	if err == nil || IsRefusal(err) || isWrongType(err) {
		return nil
	}
	return err
}

// isReply reports whether Redis itself replied with err: it is there, and refuses a command.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isTimeout reports whether a call failed because no reply came in time.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isWrongType reports whether err says that a key has the wrong type: another program wrote it.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// exceptNil returns err, or nil if Redis replied with nothing.
func exceptNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
