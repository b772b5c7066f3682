// Package purpose is the table of all tokens and signatures of the shop: sessions, sums, codes, addresses, links,
// seats, notices. Each has one purpose. A signature has a key of its purpose, made of the shop's secret, and what is
// stored has its purpose in its key. So what was given for one purpose opens no other door.
package purpose

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"
)

// Purpose is one row of the table.
type Purpose struct {
	Name  string // also that of the key
	Bound string // to whom and to what
	Life  time.Duration
	Until string // how long it is good, if Life is zero or not all of it
	Uses  string // "one" or "any"
	Kept  string // "signed", or where it is stored
	Shown string // the test that offers it for another user, session or sale, a second time, and after its life
}

// Key returns the key with which a purpose signs. A key of one purpose says nothing of another one's.
func (p Purpose) Key(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("miaosha " + p.Name))
	return mac.Sum(nil)
}

const (
	one    = "one"
	many   = "any"
	signed = "signed"
	redis  = "Redis, as a hash"
	memory = "memory of the process"
)

// Tokens of visitors, buyers and the staff.
var (
	Session = Purpose{"session", "a user", 0, "three days, or twelve hours without use", many, redis,
		"TestASessionExpires"}
	Device = Purpose{"device", "a phone and the hash of its password", 180 * 24 * time.Hour, "", many, signed,
		"TestADeviceIsKnownForItsAccountAlone"}
	OneTimeCode = Purpose{"one-time code", "a phone and a browser", 5 * time.Minute, "", one, "Redis, as an HMAC",
		"TestACodeIsGoodInItsBrowserAlone"}
	SaleSum       = Purpose{"captcha", "a session and a sale", time.Minute, "", one, "Redis", "TestCaptcha"}
	LoginSum      = Purpose{"login_sum", "a browser", time.Minute, "", one, "Redis", "TestASumHasOnePurpose"}
	PracticeSum   = Purpose{"practice_sum", "a browser", time.Minute, "", one, "Redis", "TestASumHasOnePurpose"}
	HiddenAddress = Purpose{"hidden address", "a user, a session and a sale", 0, "`--path-ttl`", many, signed,
		"TestAddress"}
	Lot = Purpose{"lot", "a user and a sale", 0, "the first second of a sale", many,
		"nowhere: it is computed", "TestTurns"}
	LiveView  = Purpose{"live view", "no user", 0, "up to 720 hours", many, signed, "TestALinkToTheLiveViewEnds"}
	ClassCode = Purpose{"class code", "a class", 24 * time.Hour, "or until the class is closed or locked", many,
		memory, "TestStudentsJoinAClass"}
	Seat = Purpose{"class seat", "a student of a class", 24 * time.Hour, "", many, memory,
		"TestStudentsJoinAClass"}
	LabRuns    = Purpose{"lab", "a browser", 0, "as long as its jobs", many, memory, "TestLabRunIsStoppedByItsOwner"}
	RequestKey = Purpose{"idempotency key", "a user, a route and a body", 0, "as long as the line in the log", many,
		"Postgres", "TestALostAnswerOfAChangeOfTheStaff"}
)

// Signatures between the processes of the shop and its cashier.
var (
	CashierNotice = Purpose{"payment notices", "a notice of the play-money cashier", 5 * time.Minute, "", many, signed,
		"TestNoticesAreTheProvidersAlone"}
	Presence = Purpose{"presence", "the processes of a shop on one machine", 0, "as long as a process", many,
		"the name of a folder", "TestPresence"}
	Fingerprint = Purpose{"fingerprint of a secret", "the secret", 0, "as long as a process", many, "Redis",
		"TestAProcessWithAnotherSecretIsRefused"}
)

// All is the table.
var All = []Purpose{Session, Device, OneTimeCode, SaleSum, LoginSum, PracticeSum, HiddenAddress, Lot, LiveView,
	ClassCode, Seat, LabRuns, RequestKey,
	CashierNotice, Presence, Fingerprint}
