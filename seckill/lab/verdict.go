package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Student is the Strategy in the Result of a program or of an outside shop.
const Student = "mine"

// Faults of a Plan for a program only.
const (
	LostReply = "lost-reply" // now and then a statement or commit is executed and its reply is lost
	RedisAway = "redis-away" // Redis answers with an error in the first 300 ms
	Cancel    = "cancel"     // one buyer in three returns the unit by cancel, and refused buyers press again
)

// ProgramFaults returns all faults of a plan for a program.
func ProgramFaults() []string { return append(Faults(), LostReply, RedisAway, Cancel) }

// The ways in which a program goes wrong, in Verdict.Kind.
const (
	LostUpdate     = "lost_update"     // one write overwrites another, which it had not read
	CheckThenAct   = "check_then_act"  // the check was true when it was made, and no longer when it counted
	DoubleDelivery = "double_delivery" // one buyer has two orders
	PartialWrite   = "partial_write"   // a process died between two writes that belong together
	LostPromise    = "lost_promise"    // a buyer was told yes and has no order
	UnknownOutcome = "unknown_outcome" // a lost reply was taken for a failure
	DeniedOrder    = "denied_order"    // a buyer was told no, and has an order; see Result.Denied
	StaysUnsold    = "unsold"          // a buyer was told no while a unit was left
	TooSlow        = "too_slow"        // exact, but short of a target
	Unfair         = "unfair"          // exact, but those who came late were served before others
	Tampered       = "tampered"        // the program has changed what belongs to its judge
	Failed         = "error"           // the program did not run; Verdict.Problem says why
)

// The reasons for Failed, in Verdict.Problem.
const (
	BadSyntax   = "syntax"   // the source is not a program
	BadRuntime  = "runtime"  // a function raised an error, each time
	Endless     = "endless"  // it did not end in its time
	TooMuch     = "memory"   // it wanted more memory than it may have
	TooLarge    = "size"     // a result or the database grew too large
	ServerFull  = "server"   // it took more of the server's memory or locks than it may have
	BadDatabase = "database" // the run's database could not be made or reached
)

// Verdict explains the Result of a program.
type Verdict struct {
	Kind     string    `json:"kind"`    // "" if nothing is wrong
	Problem  string    `json:"problem"` // of the kind Failed; the text is in Result.Error
	Output   string    `json:"output"`  // what the program printed, at most maxOutput bytes
	Schedule *Schedule `json:"schedule"`
	AfterEnd int       `json:"after_end"` // units taken after the end of the sale, see Plan.Closes
	Seatless int       `json:"seatless"`  // orders without a seat, and seats without an order, see Plan.Seats
	Unpriced int       `json:"unpriced"`  // orders of buyers for whom think was not called before an answer
	// orders of buyers before whom four times as many had come as there are units
	Late  int            `json:"late"`
	Steps []ScheduleStep `json:"steps"`
}

// Schedule is the shortest schedule, among those that were searched, in which a program goes wrong.
type Schedule struct {
	Stock    int      `json:"stock"`
	Nodes    int      `json:"nodes"`
	Clicks   string   `json:"clicks"`   // TwoBuyers, OneBuyer, OneTwice or ThreeBuyers
	Users    []int64  `json:"users"`    // the buyer of each click
	Before   RowState `json:"before"`   // the first click
	Switches int      `json:"switches"` // from a buyer who could have gone on to another one
	Fault    string   `json:"fault"`    // Kill, LostReply, RedisAway, Stall or ""
	Tried    int      `json:"tried"`    // schedules that were run until this one, which is the last
	Broken   int      `json:"broken"`   // index of the step at which the invariant broke; -1 if none can be named
}

// ScheduleStep is one step of a Schedule, in the order in which the steps were made.
type ScheduleStep struct {
	Buyer    int      `json:"buyer"` // from 1
	Kind     string   `json:"kind"`  // sql, redis, code, answer or fault
	Text     string   `json:"text"`
	Result   string   `json:"result"`
	Line     int      `json:"line"`     // of the source, from 1; 0 if it is not known
	Switched bool     `json:"switched"` // the schedule switched to this buyer here
	Waited   bool     `json:"waited"`   // the step waits for a lock of another buyer, or goes on after its wait
	State    RowState `json:"state"`
}

// RowState is what all can see after a step.
type RowState struct {
	Stock  string            `json:"stock"`  // of the item
	Orders string            `json:"orders"` // their buyers, in order, with spaces between
	Units  string            `json:"units"`  // owners of the rows in units, "-" for none
	Keys   map[string]string `json:"keys"`   // in Redis; without the prefix of the run
}

// ValidateForProgram is Validate for a plan of a program: it knows more faults, and names no strategy.
func (p Plan) ValidateForProgram() error {
	known := p
	known.Strategies, known.Faults = nil, nil
	err := known.Validate(nil)
	for i, fault := range p.Faults {
		if !slices.Contains(ProgramFaults(), fault) {
			err = errors.Join(err, InvalidError{"faults",
				fmt.Sprintf("there is no %q, only %s", fault, strings.Join(ProgramFaults(), ", "))})
		} else if slices.Contains(p.Faults[:i], fault) {
			err = errors.Join(err, InvalidError{"faults", fmt.Sprintf("%q comes twice", fault)})
		}
	}
	if len(p.Strategies) > 0 {
		err = errors.Join(err, InvalidError{"strategies", "none: the plan is for the program"})
	}
	return err
}
