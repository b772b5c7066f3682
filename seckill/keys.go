package seckill

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Every key of a sale carries the hash tag {saleID}, so all of a sale's keys live in one slot of a Cluster and any
// script may touch them together.
func key(sale int64, name string) string { return "ms:{" + strconv.FormatInt(sale, 10) + "}:" + name }

func gateKey(sale int64) string    { return key(sale, "gate") }    // hash: state, stock, epoch, ops, qmax, start_ms, end_ms
func ticketsKey(sale int64) string { return key(sale, "tickets") } // hash: user -> Q<ticket> | O<order id> | X<reason>
func journalKey(sale int64) string { return key(sale, "journal") } // stream: granted and not yet settled
func pathsKey(sale int64) string   { return key(sale, "paths") }   // zset: user -> expiry of his live address
func deadKey(sale int64) string    { return key(sale, "dead") }    // stream: journal entries that could not be settled

// captchaKey holds the answer of a session's picture, 60 s.
func captchaKey(sale int64, token string) string {
	sum := sha256.Sum256([]byte(token))
	return key(sale, "captcha:"+hex.EncodeToString(sum[:16]))
}
