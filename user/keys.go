package user

import "strconv"

// The Redis keys of this package. A phone number in a key is cut to one character more than the
// schema allows, so that a stranger cannot make long keys.
const (
	sessionPrefix = "ms:session:" // + hash of the token -> one session, encoded by codec
	indexPrefix   = "ms:sessions:"
	codePrefix    = "ms:otp:"
	knownPrefix   = "ms:known:" // + phone and address -> "": the account has logged in from there

	// Limits; the limiter adds the prefix "rate:".
	limitLogin        = "ms:login:phone:"
	limitLoginKnown   = "ms:login:known:"
	limitLoginAddress = "ms:login:addr:"
	limitPassword     = "ms:password:"
	limitCode         = "ms:otp:phone:"
	limitCodeAddress  = "ms:otp:addr:"
	limitRegister     = "ms:register:addr:"
)

// indexKey names a user's zset: hash of a token -> its expiry in Unix milliseconds.
func indexKey(userID int64) string { return indexPrefix + strconv.FormatInt(userID, 10) }

// codeKey names a phone's hash: mac, browser, tries, strange, winner.
func codeKey(phone string) string { return codePrefix + short(phone) }

func knownKey(phone, addr string) string { return knownPrefix + short(phone) + ":" + addr }

func short(phone string) string { return phone[:min(len(phone), 21)] }
