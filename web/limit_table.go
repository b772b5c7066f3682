package web

import "miaosha/user"

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

// The limits. A second is counted in the process: a hot route asks no Redis for it, also if its setting is a rate such as
// 30/min. The table's own limits of a minute and more are counted by all processes together, behind a bucket of the same
// size in this process.
var (
	rush          = &limit{per: perUser, flag: "--rate", kept: here}
	rushNetwork   = &limit{per: perAddress, flag: "--ip-rate", kept: here}
	pictures      = &limit{per: perUser, flag: "--rate", kept: here}                  // of their own, so that drawing sums takes no buy requests
	words         = &limit{per: perUser, most: user.MustLimit("1/5s", 0), kept: here} // fewer, since programs can read sums in words
	own           = &limit{per: perUser, flag: "--rate", kept: here}                  // orders, payments and the account, so that polling leaves paying alone
	ownNetwork    = &limit{per: perAddress, flag: "--ip-rate", kept: here}
	reads         = &limit{per: perUser, flag: "--rate", most: user.MustLimit("300/min", 0), kept: shared, name: "reads"}
	pays          = &limit{per: perUser, flag: "--rate", most: user.MustLimit("60/min", 0), kept: shared, name: "pays"} // a person needs three for an order
	staff         = &limit{per: perUser, flag: "--rate", most: user.MustLimit("20/s", 100), kept: here}                 // a page of the staff asks for much at once
	searches      = &limit{per: perUser, flag: "--rate", most: user.MustLimit("5/s", 50), kept: here}                   // one that finds nothing reads a whole table, as a sale with its counts does, and a hundred refunds are as many transactions
	downloads     = &limit{per: perUser, flag: "--rate", most: user.MustLimit("1/12s", 30), kept: here}                 // a file may have a million rows; thirty sales have thirty
	uploads       = &limit{per: perUser, flag: "--rate", most: user.MustLimit("1/10s", 40), kept: here}                 // the worst picture takes more than a second of a processor
	loginSums     = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here}                                // of visitors without an account, and answers: a whole class may share an address
	loginWords    = &limit{per: perAddress, most: user.MustLimit("1/s", 0), kept: here}
	practiceSums  = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here} // of their own, so that practice takes no sums of the log-in
	practiceWords = &limit{per: perAddress, most: user.MustLimit("1/s", 0), kept: here}
	practiceTries = &limit{per: perAddress, most: user.MustLimit("100/s", 0), kept: here} // an answer costs less than a sum
	practiceSites = &limit{per: perNetwork, most: user.MustLimit("50/s", 0), kept: here}
	classJoins    = &limit{per: perAddress, most: user.MustLimit("10/s", 0), kept: here}                     // a whole class behind one address joins within some seconds; a code is not guessed at this rate
	programs      = &limit{per: perAddress, most: user.MustLimit("2/s", 60), kept: here}                     // a whole class presses at once; a program is 132 KB to read, and the lab does no two a second
	labReads      = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("300/s", 0), kept: here} // a whole class behind one address, each reading three times a second, which is all that an address has; a token is 4 KB of results
	pictureReads  = &limit{per: perAddress, most: user.MustLimit("50/s", 200), kept: here}                   // at Postgres, once a process for each picture that there is
	pictureMisses = &limit{per: perAddress, most: user.MustLimit("5/s", 50), kept: here}                     // of names that Postgres does not have
	forgedNotices = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("100/s", 0), kept: here} // one HMAC each
	labRuns       = &limit{per: perAddress, flag: "--ip-rate", most: user.MustLimit("5/s", 100), kept: here} // the lab does one at a time, and most are refused
	loginSites    = &limit{per: perNetwork, most: user.MustLimit("50/s", 0), kept: here}
	logins        = &limit{per: perPhone, most: user.LoginsPerAccount, kept: strict, in: "user"} // an address that the account knows has one of its own
	loginDevices  = &limit{per: perDevice, most: user.TriesPerDevice, kept: here, in: "user"}
	tries         = &limit{per: perAddress, most: user.TriesPerAddress, kept: strict, in: "user"} // each route has its own; those that use a code share that of register
	triesNetwork  = &limit{per: perNetwork, most: user.TriesPerNetwork, kept: strict, in: "user"}
	codes         = &limit{per: perPhone, most: user.CodesPerPhone, kept: strict, in: "user"}
	codesHour     = &limit{per: perPhone, most: user.CodesPerPhoneHour, kept: strict, in: "user"}
	codesOfAll    = &limit{per: perShop, most: user.CodesOfAll, kept: strict, in: "user"}
	wrongOfAll    = &limit{per: perShop, most: user.WrongOfAll, kept: strict, in: "user"}
	passwords     = &limit{per: perUser, most: user.PasswordsPerUser, kept: strict, in: "user"}
	passwordHour  = &limit{per: perUser, most: user.PasswordsPerHour, kept: strict, in: "user"}
)

// requests is what all routes share: what an address may ask for in all, a page with its files as well as a purchase. It is half as
// much again as --ip-rate, and as much at once as a class needs that opens its first page.
var requests = &limit{per: perAddress, flag: "--ip-rate", kept: here}

func (c Config) requests() user.Limit {
	l := c.ipRate
	l.N, l.Burst = 1.5*l.N, 25*l.Burst
	return l
}

// limitRow says which limits a route has, in the order in which they count.
type limitRow struct {
	route  string // with the query, if it decides
	buys   bool   // a banned user (--ban) is refused, right before the limits
	place  string // of the limits in the order of checks, or why there are none
	limits []*limit
}

const (
	first         = "after the session, before all else"
	cached        = "none: from memory, for anyone"
	pictureLimits = "only of a picture that is not in memory, the second if Postgres does not have it, either; four are read at once"
	oneCrowd      = "one crowd at a time; the limit where other machines reach the sandbox, after the session"
	labQueue      = "before the body; then the lab does one job at a time"
	labResults    = "the first before all else, and one more for each 4 KB of the answer"
	labProgram    = "before the body; then the lab does one job at a time, and has 32 places of an address"
)

// limitTable has each route of the shop once. Buy checks first what costs nothing, so its limits stand last.
var limitTable = []limitRow{
	{"GET /api/sales/{id}/captcha", true, first, []*limit{pictures}},
	{"GET /api/sales/{id}/captcha?kind=words", true, first, []*limit{words}},
	{"POST /api/sales/{id}/path", true, first, []*limit{rush, rushNetwork}},
	{"POST /api/sales/{id}/buy/{path}", true, "after the address, the sold-out mark, the bound on buys in flight and the session; before the lane", []*limit{rush, rushNetwork}},
	{"GET /api/sales/{id}/result", false, first, []*limit{rush, rushNetwork}},
	{"HEAD /api/sales/{id}/result", false, first, []*limit{rush, rushNetwork}},
	{"GET /api/sales/{id}/events", false, first + "; then at most 5 open streams of a user and 10,000 of a process, where the largest network makes room", []*limit{rush, rushNetwork}},

	{"GET /api/me", false, first, []*limit{own, ownNetwork}},
	{"GET /api/orders", false, first, []*limit{own, reads, ownNetwork}},
	{"GET /api/orders/{id}", false, first, []*limit{own, reads, ownNetwork}},
	{"GET /api/orders/{id}/ticket", false, first, []*limit{own, reads, ownNetwork}},
	{"POST /api/orders/{id}/pay", false, first + "; then at most 5 payments of an order", []*limit{own, pays, ownNetwork}},
	{"POST /api/cashier/{id}", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/orders/{id}/cancel", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/orders/{id}/address", false, first, []*limit{own, pays, ownNetwork}},
	{"GET /api/account/sessions", false, first, []*limit{own, reads, ownNetwork}},
	{"POST /api/account/sessions/{session}/end", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/account/nickname", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/account/phone", false, "the first if there is a sum; the others after the session and the form, those of the address and the shop are of register; a solved sum goes ahead of the shop's", []*limit{loginSums, passwords, passwordHour, tries, triesNetwork, wrongOfAll}},
	{"GET /api/account/address", false, first, []*limit{own, reads, ownNetwork}},
	{"POST /api/account/address", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/account/address/erase", false, first, []*limit{own, pays, ownNetwork}},
	{"POST /api/password", false, "after the session and the form; before Postgres", []*limit{passwords, passwordHour}},
	{"POST /api/logout", false, "none: the session is over after the first", nil},

	{"POST /api/login", false, "the first if there is a sum; the others after the places in the queue of the hasher, before Postgres; a known device has the last one alone", []*limit{loginSums, tries, logins, loginDevices}},
	{"POST /api/otp", false, "the first if there is a sum; the others after the form; a solved sum goes ahead of the shop's", []*limit{loginSums, tries, triesNetwork, codesOfAll, codes, codesHour}},
	{"POST /api/register", false, "the first if there is a sum; the others after the form; a solved sum goes ahead of the shop's", []*limit{loginSums, tries, triesNetwork, wrongOfAll}},
	{"POST /api/password/reset", false, "the first if there is a sum; the others, which are those of register, after the form; a solved sum goes ahead of the shop's", []*limit{loginSums, tries, triesNetwork, wrongOfAll}},
	{"GET /api/login/captcha", false, "before all else", []*limit{loginSites, loginSums}},
	{"GET /api/login/captcha?kind=words", false, "before all else", []*limit{loginSites, loginWords}},

	{"GET /api/practice", false, "before all else", []*limit{practiceSites, practiceSums}},
	{"GET /api/practice?kind=words", false, "before all else", []*limit{practiceSites, practiceWords}},
	{"POST /api/practice", false, "before all else", []*limit{practiceTries}},

	{"GET /api/admin/users", false, first, []*limit{searches}},
	{"GET /api/admin/users/{id}", false, first, []*limit{staff}},
	{"POST /api/admin/users/{id}/role", false, first, []*limit{staff}},
	{"POST /api/admin/users/{id}/disable", false, first, []*limit{staff}},
	{"POST /api/admin/users/{id}/enable", false, first, []*limit{staff}},
	{"GET /api/admin/log", false, first, []*limit{searches}},
	{"GET /api/admin/log.csv", false, first, []*limit{downloads}},
	{"GET /api/admin/live", false, first + "; then at most 5 open streams of a user and 10,000 of a process, where the largest network makes room", []*limit{staff}},
	{"POST /api/admin/live/link", false, first, []*limit{staff}},
	{"GET /api/live", false, "before all else; then at most 500 open streams of a process, where the largest network makes room", []*limit{ownNetwork}},
	{"GET /api/admin/sales", false, first, []*limit{searches}},
	{"POST /api/admin/sales", false, first, []*limit{staff}},
	{"GET /api/admin/sales/{id}", false, first, []*limit{searches}},
	{"POST /api/admin/sales/{id}", false, first, []*limit{staff}},
	{"GET /api/admin/orders", false, first, []*limit{searches}},
	{"GET /api/admin/orders.csv", false, first, []*limit{downloads}},
	{"GET /api/admin/orders/{id}", false, first, []*limit{staff}},
	{"POST /api/admin/orders/{id}/refund", false, first, []*limit{staff}},
	{"POST /api/admin/orders/{id}/confirm", false, first, []*limit{staff}},
	{"POST /api/admin/orders/{id}/cancel", false, first, []*limit{staff}},
	{"POST /api/admin/orders/{id}/extend", false, first, []*limit{staff}},
	{"POST /api/admin/orders/{id}/ship", false, first, []*limit{staff}},
	{"POST /api/admin/refunds", false, first, []*limit{searches}},
	{"GET /api/admin/payments", false, first, []*limit{searches}},
	{"POST /api/admin/payments/{id}/retry", false, first, []*limit{staff}},
	{"POST /api/admin/payments/{id}/returned", false, first, []*limit{staff}},
	{"GET /api/admin/tickets/{ticket}", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/publish", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/pause", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/resume", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/close", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/units", false, first, []*limit{searches}},
	{"POST /api/admin/sales/{id}/window", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/price", false, first, []*limit{staff}},
	{"POST /api/admin/sales/{id}/plans", false, first, []*limit{searches}},
	{"POST /api/admin/plans/{id}/cancel", false, first, []*limit{staff}},
	{"GET /api/admin/goods", false, first, []*limit{staff}},
	{"POST /api/admin/goods", false, first, []*limit{staff}},
	{"GET /api/admin/goods/{id}", false, first, []*limit{staff}},
	{"POST /api/admin/goods/{id}", false, first, []*limit{staff}},
	{"POST /api/admin/pictures", false, first + "; then one picture is decoded at a time", []*limit{uploads}},

	{"GET /*", false, cached, nil},
	{"HEAD /*", false, cached, nil},
	{"GET /pictures/{name}", false, pictureLimits, []*limit{pictureReads, pictureMisses}},
	{"HEAD /pictures/{name}", false, pictureLimits, []*limit{pictureReads, pictureMisses}},
	{"GET /api/sales", false, cached, nil},
	{"HEAD /api/sales", false, cached, nil},
	{"GET /api/sales/{id}", false, cached, nil},
	{"HEAD /api/sales/{id}", false, cached, nil},
	{"GET /api/slots", false, cached, nil},
	{"POST /api/payments/notify", false, "before all else, instead of that of all requests; only a refused notice takes a token", []*limit{forgedNotices}},
	{"POST /api/sandbox/login", false, "as those of a log-in", []*limit{tries, logins, loginDevices}},
	{"POST /api/sandbox/bots", false, oneCrowd, []*limit{staff}},
	{"GET /api/sandbox/bots", false, oneCrowd, []*limit{staff}},
	{"POST /api/sandbox/teach", false, first + "; then one fault at a time", []*limit{staff}},
	{"GET /api/sandbox/teach", false, first, []*limit{staff}},
	{"GET /api/sandbox/classes", false, first, []*limit{staff}},
	{"POST /api/sandbox/classes", false, first + "; then at most 8 classes are open", []*limit{staff}},
	{"GET /api/sandbox/classes/{code}", false, first, []*limit{staff}},
	{"POST /api/sandbox/classes/{code}/run", false, first + "; then the lab does one job at a time", []*limit{staff}},
	{"POST /api/sandbox/classes/{code}/remove", false, first, []*limit{staff}},
	{"POST /api/sandbox/classes/{code}/lock", false, first, []*limit{staff}},
	{"POST /api/sandbox/classes/{code}/close", false, first, []*limit{staff}},
	{"GET /api/sandbox/classes/{code}/results.csv", false, first, []*limit{staff}},
	{"GET /api/sandbox/classes/{code}/results.json", false, first, []*limit{staff}},
	{"GET /api/sandbox/class", false, "before all else", []*limit{ownNetwork}},
	{"POST /api/sandbox/class", false, "before all else; then at most 100 students of a class, of which a seat without work may make room", []*limit{classJoins}},
	{"GET /api/lab", false, "before all else", []*limit{labReads}},
	{"GET /api/lab/source", false, "before all else", []*limit{labReads}},
	{"GET /api/lab/programs", false, "before all else", []*limit{labReads}},
	{"POST /api/lab/mine", false, labProgram, []*limit{programs}},
	{"GET /api/lab/exercises", false, "before all else", []*limit{labReads}},
	{"POST /api/lab/exercises/{name}", false, labProgram, []*limit{programs}},
	{"GET /api/lab/run", false, labResults, []*limit{labReads}},
	{"POST /api/lab/run", false, labQueue, []*limit{labRuns}},
	{"POST /api/lab/run/stop", false, labQueue, []*limit{labReads}},
	{"POST /api/lab/race", false, labQueue, []*limit{labRuns}},
	{"POST /api/lab/try", false, labQueue, []*limit{labRuns}},
	{"POST /api/lab/without", false, labQueue, []*limit{labRuns}},
}

// of returns how much a limit allows with these settings; the zero Limit if all.
func (c Config) of(l *limit) user.Limit {
	flag := map[string]user.Limit{"--rate": c.rate, "--ip-rate": c.ipRate}[l.flag]
	if l.flag != "" && (flag == user.Limit{} || l.most == user.Limit{}) {
		return flag
	}
	return l.most
}

// limits are those of one route.
type limits struct {
	buys    bool
	buckets []*buckets // in the order in which they count
}

// newLimits returns the limits of each route in the table, without those from which a domain takes.
func newLimits(cfg Config) map[string]limits {
	made, routes := map[*limit]*buckets{}, map[string]limits{}
	for _, row := range limitTable {
		all := limits{buys: row.buys}
		for _, l := range row.limits {
			if l.in != "" {
				continue
			}
			if made[l] == nil {
				made[l] = newBuckets(l, cfg.of(l))
			}
			all.buckets = append(all.buckets, made[l])
		}
		routes[row.route] = all
	}
	return routes
}
