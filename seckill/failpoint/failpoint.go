// Package failpoint names the points at which tests break the shop on purpose, to prove that it
// stays exact. A release has none of them: without the build tag faults, Hit is an empty function,
// and the compiler removes the calls. With the tag, the environment arms points, each at most once,
// separated by semicolons:
//
//	MIAOSHA_FAILPOINTS='BeforeCommit=kill@20;BeforeAck=drop*3;BeforeBegin=sleep:300ms%10'
//
// kill ends the process as kill -9 does. stop suspends it until it gets SIGCONT. sleep:DURATION waits. error makes Hit
// return ErrInjected, as if the store had failed. drop makes it return ErrDrop, and the caller goes on as if its last
// call had been lost on the way. @N starts when the point is passed for the Nth time, *N stops after N actions, %P acts
// on P percent of the passes at random.
package failpoint

import (
	"errors"
	"fmt"
	"io"
)

// The points, in the order in which a ticket passes them.
const (
	BeforeReserve       = "BeforeReserve"       // a batch is admitted, the reserve script is not called yet
	AfterReserve        = "AfterReserve"        // the script has granted tickets, no buyer has a reply
	BeforeBegin         = "BeforeBegin"         // of the settle transaction
	BeforeCommit        = "BeforeCommit"        // of the settle transaction
	BeforeAck           = "BeforeAck"           // it is committed, the gate has no acks yet
	AfterAck            = "AfterAck"            // the next batch has not begun
	AfterExpire         = "AfterExpire"         // the sweeper has committed expired orders
	BeforeCaptureCommit = "BeforeCaptureCommit" // a capture is written
	BeforeInstallCommit = "BeforeInstallCommit" // a gate is installed, its epoch is not committed
	// the reader of a sale has read gates, the other processes do not have them yet
	BeforePublish = "BeforePublish"
	BeforeDrain   = "BeforeDrain" // the process drains its queue before it stops
)

// The errors of Hit.
var (
	ErrInjected = fmt.Errorf("injected by a failpoint: %w", io.ErrUnexpectedEOF) // like a lost connection
	ErrDrop     = errors.New("dropped by a failpoint")
)
