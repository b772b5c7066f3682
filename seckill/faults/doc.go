// Package faults proves that the shop stays exact whatever is broken under it: each scenario runs real processes of the
// built shop on a Postgres and a Redis of its own, breaks something in the middle of a sale, and holds what every buyer
// was told against what is.
//
// The crowd's ledger is the only witness of what was promised. Safety is checked each second while it is broken, and
// everything once it is at rest. A violation is reported as "I<n>: what", n as in the list of invariants, so that a
// mutant of the shop can be told to fail on the invariant it breaks.
//
// It is all tests: make faults runs them, -short those for every change.
package faults
