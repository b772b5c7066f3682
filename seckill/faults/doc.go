// Package faults proves that the shop stays correct when parts of it fail. Each scenario starts real processes of the
// shop on its own Postgres and Redis, injects a fault in the middle of a sale, and compares every response with the
// data.
//
// Package faults has only tests: make faults runs all of them, and make short those for every change. The scenarios are
// in scenarios_*_test.go. A scenario runs in an Environment (the shops, their stores, and a proxy to each store). A
// Crowd of buyers buys in it, and a Ledger records every response: it is the only record of what the shops promised.
//
// At the end the history of the sale is checked by a model: was there one order of all events in which every reply was
// true? The models and their tests need no build tag.
//
// An observer checks the invariants during the sale. The checks in check_*_test.go run when nothing changes.
// They report a broken invariant as "I<n>: what is wrong", with the number in the list of invariants. So a mutant,
// which is the shop without one of its defences, must fail on the invariant that this defence protects.
package faults
