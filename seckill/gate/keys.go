package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Every key of a sale carries the hash tag {saleID}. All of a sale's keys are therefore in one slot of a Redis Cluster,
// and one script may use them together.
func key(sale int64, name string) string { return "ms:{" + strconv.FormatInt(sale, 10) + "}:" + name }

// GateKey is a hash: state, stock, epoch, ops, qmax, start_ms, end_ms.
func GateKey(sale int64) string { return key(sale, "gate") }

// TicketsKey is a hash from user id to the encoded Status of the user's ticket.
func TicketsKey(sale int64) string { return key(sale, "tickets") }

// JournalKey is a stream with one entry for each ticket that is granted and not yet settled.
func JournalKey(sale int64) string { return key(sale, "journal") }

// PathsKey is a sorted set: the users with a hidden address that is not used, sorted by its expiry.
func PathsKey(sale int64) string { return key(sale, "paths") }

// WaitingKey is a sorted set: the users who wait for an address, in line.
func WaitingKey(sale int64) string { return key(sale, "waiting") }

// waitingUntilKey is a sorted set: the users who wait, sorted by the time at which they lose their places.
func waitingUntilKey(sale int64) string { return key(sale, "waiting_until") }

// WastedKey is a hash from user id to the number of addresses that ran out unused.
func WastedKey(sale int64) string { return key(sale, "wasted") }

// RefusingKey is a hash: since when the big gate refuses buyers and has granted no ticket, its stock, and the life of an
// address.
func RefusingKey(sale int64) string { return key(sale, "refusing") }

// DeadKey is a stream with copies of the journal entries that could not be settled. It expires after seven days.
func DeadKey(sale int64) string { return key(sale, "dead") }

// CaptchaKey is a string: the answer to a session's sum. It expires after captchaLife.
func CaptchaKey(sale int64, token string) string {
	sum := sha256.Sum256([]byte(token))
	return key(sale, "captcha:"+hex.EncodeToString(sum[:16]))
}
