package web

import (
	"miaosha/user"
)

// limit is a limit as data: what the courses write as an annotation above a method,
// @AccessLimit(seconds = 1, maxCount = 5). Each of its keys has a token bucket of its own, which all routes
// share that name the limit.
type limit struct {
	per  string     // the key
	flag string     // the setting that has the rate; beside a rate, the one whose "off" switches the limit off, too
	most user.Limit // zero if the setting has the rate
	kept string
	name string // of the buckets in Redis, if all processes share them
	in   string // the domain that takes from the buckets; "" for this package
}

// The keys of limits.
const (
	perUser    = "user"
	perAddress = "address" // a /64 network of IPv6
	perNetwork = "network" // /24, or /48 of IPv6
	perPhone   = "phone"
	perDevice  = "device" // a browser in which the owner of the account has logged in
	perShop    = "whole shop"
)

// Where the buckets are.
const (
	here   = "here"   // in each process by itself
	shared = "shared" // by all processes; each by itself while Redis is away
	strict = "strict" // by all processes; `busy` while Redis is away
)

// The limits. A second is counted in the process: a hot route asks no Redis for it, also if its setting is a rate such
// as 30/min. The table's own limits of a minute and more are counted by all processes together, behind a bucket of the
// same size in this process.
var (
	rush        = &limit{per: perUser, flag: "--rate", kept: here}
	rushNetwork = &limit{per: perAddress, flag: "--ip-rate", kept: here}
	// of their own, so that drawing sums takes no buy requests
	pictures = &limit{per: perUser, flag: "--rate", kept: here}
	// fewer, since programs can read sums in words
	words = &limit{per: perUser, most: user.MustLimit("1/5s", 0), kept: here}
	// orders, payments and the account, so that polling leaves paying alone
	own        = &limit{per: perUser, flag: "--rate", kept: here}
	ownNetwork = &limit{per: perAddress, flag: "--ip-rate", kept: here}
	reads      = &limit{per: perUser, flag: "--rate", most: user.MustLimit("300/min", 0),
		kept: shared, name: "reads"}
	// a person needs three for an order
	pays = &limit{per: perUser, flag: "--rate", most: user.MustLimit("60/min", 0), kept: shared, name: "pays"}
	// a page of the staff asks for much at once
	staff = &limit{per: perUser, flag: "--rate", most: user.MustLimit("20/s", 100), kept: here}
	// one that finds nothing reads a whole table, as a sale with its counts does, and a hundred refunds are as many
	// transactions
	searches = &limit{per: perUser, flag: "--rate", most: user.MustLimit("5/s", 50), kept: here}
	// a file may have a million rows; thirty sales have thirty
	downloads = &limit{per: perUser, flag: "--rate", most: user.MustLimit("1/12s", 30), kept: here}
	// the worst picture takes more than a second of a processor
	uploads = &limit{per: perUser, flag: "--rate", most: user.MustLimit("1/10s", 40), kept: here}
	// of visitors without an account, and answers: a whole class may share an address
	loginSums  = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here}
	loginWords = &limit{per: perAddress, most: user.MustLimit("1/s", 0), kept: here}
	// of their own, so that practice takes no sums of the log-in
	practiceSums  = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here}
	practiceWords = &limit{per: perAddress, most: user.MustLimit("1/s", 0), kept: here}
	// an answer costs less than a sum
	practiceTries = &limit{per: perAddress, most: user.MustLimit("100/s", 0), kept: here}
	practiceSites = &limit{per: perNetwork, most: user.MustLimit("50/s", 0), kept: here}
	// a whole class behind one address joins within some seconds; a code is not guessed at this rate
	classJoins = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here}
	// a whole class presses at once; a program is 132 KB to read, and the lab does no two a second
	programs = &limit{per: perAddress, most: user.MustLimit("2/s", 60), kept: here}
	// a whole class behind one address, each reading three times a second, which is all that an address has; a token is
	// 4 KB of results
	labReads = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("300/s", 0), kept: here}
	// at Postgres, once a process for each picture that there is
	pictureReads = &limit{per: perAddress, most: user.MustLimit("50/s", 200), kept: here}
	// of names that Postgres does not have
	pictureMisses = &limit{per: perAddress, most: user.MustLimit("5/s", 50), kept: here}
	// one HMAC each
	forgedNotices = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("100/s", 0), kept: here}
	// the lab does one at a time, and most are refused
	labRuns    = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("5/s", 100), kept: here}
	loginSites = &limit{per: perNetwork, most: user.MustLimit("50/s", 0), kept: here}
	// an address that the account knows has one of its own
	logins       = &limit{per: perPhone, most: user.LoginsPerAccount, kept: strict, in: "user"}
	loginDevices = &limit{per: perDevice, most: user.TriesPerDevice, kept: here, in: "user"}
	// each route has its own; those that use a code share that of register
	tries        = &limit{per: perAddress, most: user.TriesPerAddress, kept: strict, in: "user"}
	triesNetwork = &limit{per: perNetwork, most: user.TriesPerNetwork, kept: strict, in: "user"}
	codes        = &limit{per: perPhone, most: user.CodesPerPhone, kept: strict, in: "user"}
	codesHour    = &limit{per: perPhone, most: user.CodesPerPhoneHour, kept: strict, in: "user"}
	codesOfAll   = &limit{per: perShop, most: user.CodesOfAll, kept: strict, in: "user"}
	wrongOfAll   = &limit{per: perShop, most: user.WrongOfAll, kept: strict, in: "user"}
	passwords    = &limit{per: perUser, most: user.PasswordsPerUser, kept: strict, in: "user"}
	passwordHour = &limit{per: perUser, most: user.PasswordsPerHour, kept: strict, in: "user"}
)

// requests is what all routes share: what an address may ask for in all, a page with its files as well as a purchase.
// It is half as much again as --ip-rate, and as much at once as a class needs that opens its first page.
var requests = &limit{per: perAddress, flag: "--ip-rate", kept: here}

// rule says what a caller may ask of a route.
type rule struct {
	limits []*limit // in the order in which they count
	place  string   // of the limits in the order of checks, or why there are none
	late   bool     // the handler takes from them, or a domain; otherwise the door does
	buys   bool     // a banned user (--ban) is refused, right before the limits
	words  []*limit // with ?kind=words, where these decide
}

const (
	afterSession = "after the session, before all else"
	beforeAll    = "before all else"
	cached       = "none: from memory, for anyone"
	afterForm    = "the first if there is a sum; the others after the form; a solved sum goes ahead of the shop's"
)

// first is the rule of most routes for logged-in users.
func first(l ...*limit) rule { return rule{limits: l, place: afterSession} }

// ahead is the rule of most routes for anyone.
func ahead(l ...*limit) rule { return rule{limits: l, place: beforeAll} }

// at is a rule that the door keeps, in a place of its own.
func at(place string, l ...*limit) rule { return rule{limits: l, place: place} }

// late is a rule that the handler keeps, or a domain.
func late(place string, l ...*limit) rule { return rule{limits: l, place: place, late: true} }

// free is the rule of a route without limits. why begins with none.
func free(why string) rule { return rule{place: why} }

// then is r before another bound of its route.
func (r rule) then(bound string) rule {
	r.place += "; then " + bound
	return r
}

// ofBuyers is r for those who are not banned.
func (r rule) ofBuyers() rule {
	r.buys = true
	return r
}
