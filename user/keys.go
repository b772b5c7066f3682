package user

import "strconv"

// Every name this package uses in Redis. A phone number in a key is cut to the length the schema allows, so that no
// stranger's string makes a long one.
const (
	sessionPrefix = "ms:session:" // + hash of the token -> one session, as Codec writes it
	indexPrefix   = "ms:sessions:"
	codePrefix    = "ms:otp:"
	knownPrefix   = "ms:known:" // + phone and address -> "": he has logged in from there

	// Limits; the limiter puts "rate:" before each.
	limitLogin        = "ms:login:phone:"
	limitLoginKnown   = "ms:login:known:"
	limitLoginAddress = "ms:login:addr:"
	limitPassword     = "ms:password:"
	limitCode         = "ms:otp:phone:"
	limitCodeAddress  = "ms:otp:addr:"
	limitRegister     = "ms:register:addr:"
)

// indexKey is a zset: hash of a token -> its expiry in Unix milliseconds, for one user.
func indexKey(userID int64) string { return indexPrefix + strconv.FormatInt(userID, 10) }

// codeKey is a hash: mac, browser, tries, strange, winner.
func codeKey(phone string) string { return codePrefix + short(phone) }

func knownKey(phone, addr string) string { return knownPrefix + short(phone) + ":" + addr }

func short(phone string) string { return phone[:min(len(phone), 21)] }
