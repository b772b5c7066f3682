package user

import "strconv"

// The Redis keys of this package. A phone number in a key is cut to one character more than the
// schema allows, so that a stranger cannot make long keys.
const (
	sessionPrefix = "ms:session:" // + hash of the token -> one session, encoded by codec
	indexPrefix   = "ms:sessions:"
	originsPrefix = "ms:origins:"
	codePrefix    = "ms:otp:"
	knownPrefix   = "ms:known:" // + phone and address -> "": the account has logged in from there

	// Buckets: see limit_take.lua.
	limitLogin        = "ms:limit:login:phone:"
	limitLoginKnown   = "ms:limit:login:known:"
	limitLoginAddress = "ms:limit:login:addr:"
	limitPassword     = "ms:limit:password:"
	limitCode         = "ms:limit:otp:phone:"
	limitCodeAddress  = "ms:limit:otp:addr:"
	limitCodeNetwork  = "ms:limit:otp:net:"
	limitRegister     = "ms:limit:register:addr:"
	limitRegisterNet  = "ms:limit:register:net:"
	limitCodesOfAll   = "ms:limit:otp:all"
	limitWrongOfAll   = "ms:limit:register:all"
)

// indexKey names a user's zset: hash of a token -> its expiry in Unix milliseconds.
func indexKey(userID int64) string { return indexPrefix + strconv.FormatInt(userID, 10) }

// originsKey names a user's hash beside it: hash of a token -> generation and address of its log-in;
// generation -> the highest one of the account.
func originsKey(userID int64) string { return originsPrefix + strconv.FormatInt(userID, 10) }

// codeKey names a phone's hash: mac, browser, tries, winner.
func codeKey(phone string) string { return codePrefix + short(phone) }

func knownKey(phone, addr string) string { return knownPrefix + short(phone) + ":" + addr }

func short(phone string) string { return phone[:min(len(phone), 21)] }
