// Package failpoint names the moments at which the shop is broken on purpose, to prove that it stays exact. A release has
// none of it: without the build tag faults Hit is an empty function, and the calls are compiled away. With the tag, the
// environment arms points, each once or with semicolons between:
//
//	MIAOSHA_FAILPOINTS='F4=kill@20;F5=drop*3;F3=sleep:300ms%10'
//
// kill ends the process as kill -9 does; sleep:DURATION waits; error makes Hit fail, as the store would; drop makes it
// fail with ErrDrop, and the caller goes on as if what he did there had been lost on its way. @N starts with the Nth
// time the point is passed, *N stops after N actions, %P acts on P in a hundred at random.
package failpoint

import (
	"errors"
	"fmt"
	"io"
)

// The points, in the order in which a ticket passes them.
const (
	F1  = "F1"  // a batch is admitted, the reserve script is not asked yet
	F2  = "F2"  // the script has granted tickets, nobody has his answer
	F3  = "F3"  // before BEGIN of the settle transaction
	F4  = "F4"  // before its COMMIT
	F5  = "F5"  // after its COMMIT, before the gate is told
	F6  = "F6"  // the gate is told, the next batch is not begun
	F7  = "F7"  // the sweeper has committed expired orders
	F8  = "F8"  // a capture is written, before its COMMIT
	F9  = "F9"  // a gate is installed, before the COMMIT of its epoch
	F10 = "F10" // the process drains its queue to stop
)

// Failures of Hit.
var (
	ErrInjected = fmt.Errorf("failpoint: injected: %w", io.ErrUnexpectedEOF) // as of a connection that was lost
	ErrDrop     = errors.New("failpoint: dropped")
)
