// Package failpoint names the points at which tests break the shop on purpose, to prove that it
// stays exact. A release has none of them: without the build tag faults, Hit is an empty function,
// and the compiler removes the calls. With the tag, the environment arms points, each at most once,
// separated by semicolons:
//
//	MIAOSHA_FAILPOINTS='F4=kill@20;F5=drop*3;F3=sleep:300ms%10'
//
// kill ends the process as kill -9 does. sleep:DURATION waits. error makes Hit return ErrInjected,
// as if the store had failed. drop makes it return ErrDrop, and the caller goes on as if its last
// call had been lost on the way. @N starts when the point is passed for the Nth time, *N stops
// after N actions, %P acts on P percent of the passes at random.
package failpoint

import (
	"errors"
	"fmt"
	"io"
)

// The points, in the order in which a ticket passes them.
const (
	F1  = "F1"  // a batch is admitted, the reserve script is not called yet
	F2  = "F2"  // the script has granted tickets, no buyer has a reply
	F3  = "F3"  // before BEGIN of the settle transaction
	F4  = "F4"  // before its COMMIT
	F5  = "F5"  // after its COMMIT, before the acks at the gate
	F6  = "F6"  // the gate has the acks, the next batch has not begun
	F7  = "F7"  // the sweeper has committed expired orders
	F8  = "F8"  // a capture is written, before its COMMIT
	F9  = "F9"  // a gate is installed, before the COMMIT of its epoch
	F10 = "F10" // the process drains its queue before it stops
)

// The errors of Hit.
var (
	ErrInjected = fmt.Errorf("injected by a failpoint: %w", io.ErrUnexpectedEOF) // like a lost connection
	ErrDrop     = errors.New("dropped by a failpoint")
)
