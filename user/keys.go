package user

import (
	"strconv"
	"time"
)

// How long keys live. Sessions, and the two keys beside them, expire idleFor after the last use, and at the end of the
// life that NewSessions takes at the latest; buckets when they are full again: a missing one is a full one.
const (
	idleFor = 12 * time.Hour // who logs in in the morning is there for the sale of the evening
	// after a log-in its address has a bucket of its own for the account: owners log in monthly
	knownFor = 30 * 24 * time.Hour
)

// The Redis keys of this package. A phone number in a key is cut to one character more than the
// schema allows, so that a stranger cannot make long keys.
const (
	sessionPrefix = "ms:session:" // + hash of the token -> one session, encoded by codec
	indexPrefix   = "ms:sessions:"
	originsPrefix = "ms:origins:"
	codePrefix    = "ms:otp:"
	knownPrefix   = "ms:known:" // + phone and address -> "": the account has logged in from there

	bansKey = "ms:bans" // see ban.lua

	// Buckets: see limit_take.lua.
	limitLogin        = "ms:limit:login:phone:"
	limitLoginKnown   = "ms:limit:login:known:"
	limitLoginAddress = "ms:limit:login:addr:"
	limitPassword     = "ms:limit:password:"
	limitPasswordHour = "ms:limit:password:hour:"
	limitCode         = "ms:limit:otp:phone:"
	limitCodeHour     = "ms:limit:otp:hour:"
	limitCodeAddress  = "ms:limit:otp:addr:"
	limitCodeNetwork  = "ms:limit:otp:net:"
	limitRegister     = "ms:limit:register:addr:"
	limitRegisterNet  = "ms:limit:register:net:"
	limitUser         = "ms:limit:user:"    // + name of the limit and id of the user
	limitRefused      = "ms:limit:refused:" // + id of the user
	limitCodesOfAll   = "ms:limit:otp:all"
	limitWrongOfAll   = "ms:limit:register:all"
)

// indexKey names a user's zset: hash of a token -> its expiry in Unix milliseconds.
func indexKey(userID int64) string { return indexPrefix + strconv.FormatInt(userID, 10) }

// originsKey names a user's hash beside it: hash of a token -> generation, address and client of its log-in;
// generation -> the highest one of the account.
func originsKey(userID int64) string { return originsPrefix + strconv.FormatInt(userID, 10) }

// codeKey names a phone's hash: mac, browser, tries, winner.
func codeKey(phone string) string { return codePrefix + short(phone) }

// refusedKey names the bucket of a user's refusals: when it is empty, the user is banned.
func refusedKey(userID int64) string { return limitRefused + strconv.FormatInt(userID, 10) }

func knownKey(phone, addr string) string { return knownPrefix + short(phone) + ":" + addr }

func short(phone string) string { return phone[:min(len(phone), 21)] }
