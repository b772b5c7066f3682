package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"miaosha/seckill/purpose"
)

// How long keys live that the shop writes from Go. The other keys of a sale get their expiry from the scripts: see each
// key.
const (
	deadLife = 7 * 24 * time.Hour // time for an operator to look
)

// Every key of a sale carries the hash tag {saleID}. All of a sale's keys are therefore in one slot of a Redis Cluster,
// and one script may use them together.
func key(sale int64, name string) string { return "ms:{" + strconv.FormatInt(sale, 10) + "}:" + name }

// GateKey is a hash: state, stock, epoch, ops, qmax, in_flight, start_ms, end_ms, known, seeded. Like the tickets and
// the journal it expires a day after the sale's end: late polls find their results in Redis, and every entry of the
// journal is settled by then.
func GateKey(sale int64) string { return key(sale, "gate") }

// TicketsKey is a hash from user id to the encoded Status of the user's ticket. It expires with the gate, which must
// not believe that a user has none.
func TicketsKey(sale int64) string { return key(sale, "tickets") }

// JournalKey is a stream with one entry for each reserve call that granted tickets, until all of them are settled.
// It expires with the gate.
func JournalKey(sale int64) string { return key(sale, "journal2") }

// TakeoversKey is a hash: the entries of the journal that have a new owner, because the one who wrote them has died,
// with the number of their owners so far, the time of the last takeover in ms by the clock of Redis, and the owner. It
// expires with the journal.
func TakeoversKey(sale int64) string { return key(sale, "takeovers") }

// formerJournalKey is the journal of releases that wrote one entry for each ticket. A sale with one is refused: see
// FormerJournals.
func formerJournalKey(sale int64) string { return key(sale, "journal") }

// beatsKey is a hash from process to its beat, a counter. It expires beatsLife after the last one.
const beatsKey = "ms:beats"

// AddressesKey is a sorted set: the users with a hidden address that is not used, sorted by its expiry. It
// expires with the sale, after which no address is granted, as does what is known of those who wait.
func AddressesKey(sale int64) string { return key(sale, "paths") }

// WaitingKey is a sorted set: the users who wait for an address, in line.
func WaitingKey(sale int64) string { return key(sale, "waiting") }

// waitingUntilKey is a sorted set: the users who wait, sorted by the time at which they lose their places.
func waitingUntilKey(sale int64) string { return key(sale, "waiting_until") }

// WastedKey is a hash from user id to the number of addresses that ran out unused.
func WastedKey(sale int64) string { return key(sale, "wasted") }

// RefusingKey is a hash that expires one life of an address after the last refusal, so that old ones alarm no audit:
// since when the big gate refuses buyers and has granted no ticket, its stock, and the life of an address.
func RefusingKey(sale int64) string { return key(sale, "refusing") }

// seedingKey is a string: the process that seeds the owners. It expires SeedingFor after the process has written its
// last ones.
func seedingKey(sale int64) string { return key(sale, "seeding") }

// DeadKey is a stream with copies of the journal entries that could not be settled. It expires deadLife after the last
// one.
func DeadKey(sale int64) string { return key(sale, "dead") }

// SumOf names the one sum that a holder has for one purpose. A sum is valid for nothing else: its purpose is a part of
// its key.
type SumOf struct {
	purpose purpose.Purpose
	sale    int64 // 0 for none
	holder  string
}

// SumOfSale is the sum of a session in a sale.
func SumOfSale(sale int64, session string) SumOf { return SumOf{purpose.SaleSum, sale, session} }

// SumOfVisitor is the sum of a browser for a purpose that belongs to no sale: purpose.LoginSum or purpose.PracticeSum.
func SumOfVisitor(of purpose.Purpose, browser string) SumOf { return SumOf{of, 0, browser} }

// Key is a string: the answer to a sum, and those of the sums that it replaced, see scripts/draw.lua. It expires after
// the life of its purpose: a sum that takes a person longer was left.
func (s SumOf) Key() string {
	hash := sha256.Sum256([]byte(s.holder))
	return key(s.sale, s.purpose.Name+":"+hex.EncodeToString(hash[:16]))
}

// processesKey is a sorted set: the processes of the shop, sorted by the time at which each was last seen. Those that
// were not seen for a day leave it when a process starts.
const processesKey = "ms:processes"

// secretsKey is a sorted set: the processes that live, each as its name and the fingerprints of its secrets, sorted by
// the time at which each was last seen. It expires secretsLife after the last one.
const secretsKey = "ms:secrets"

// readingsKey is a hash from process to what it has published of the gates that it reads. It expires readingsLife after
// the last publication.
const readingsKey = "ms:{shop}:readings"

// asksKey is a sorted set: the questions that every process is asked, sorted by time. It expires askLife after the last
// one.
const asksKey = "ms:asks"

// answersKey is a hash from process to its answer to one question. It expires askLife after the last one.
func answersKey(id string) string { return "ms:answers:" + id }
