// The texts of the lessons. `text` is a list of paragraphs; the page shows text between backticks as code.
const n = (x) => Number(x).toLocaleString('en-GB', { maximumFractionDigits: x < 100 ? 1 : 0 });
const few = (x) => (x < 0.1 ? 'less than 0.1' : n(x));
const units = (x) => `${n(x)} ${x === 1 ? 'unit' : 'units'}`;
const orders = (x) => `${n(x)} ${x === 1 ? 'order' : 'orders'}`;

export default {
  'lesson.oversell.text': [
    'Almost every first flash sale is written like this: read the stock, check that it is above zero, write back one less, insert the order. Each statement is right. Together they are wrong: time passes between the read and the write, and meanwhile another buyer reads the same number. Two buyers both read 1, both write 0, and both receive an order. The database did what it was told, and no log shows an error.',
    'This is called a lost update. It needs no slow server, only two requests at the same time, and a flash sale consists of requests at the same time. A constraint that keeps the stock from going below zero does not help: the stock never goes below zero, it is only reduced too few times.',
    'Our shop never takes a unit like that: the condition is inside the write. Run it first, then read the marked lines.',
  ],
  'lesson.oversell.taught': ['overselling', 'lost update'],
  'lesson.oversell.ask': '200 buyers come at once for 20 units. How many orders will there be?',
  'lesson.oversell.choices': ['Exactly 20', 'Fewer than 20', 'More than 20'],
  'lesson.oversell.shown': ({ sold, stock }) => `There are ${units(stock)} and ${orders(sold)}.`,

  'lesson.locks.text': [
    'The first idea against the race is to let in one buyer at a time. Whether it works depends on where the lock is. A mutex is inside one process. Two servers have two mutexes, so the race is back on the day you add a second server, which is the day you need the lock most.',
    'A lock in the database is seen by all servers: `select ... for update` locks the row until the transaction ends, and an advisory lock locks a number of your choice. Both are right. Both make every buyer wait for every other buyer, and each turn takes one more network round trip than the work itself.',
    'A lock in Redis (`SET NX` with an expiry) is seen by all servers too, but it expires. A holder that pauses longer than the expiry wakes up and believes that it still holds the lock. Our shop also locks the row of the sale, but once per batch, never once per buyer.',
  ],
  'lesson.locks.taught': ['pessimistic lock', 'distributed lock', 'synchronized'],
  'lesson.locks.ask': 'Two servers, each with a mutex around read-then-write. What happens?',
  'lesson.locks.choices': ['They sell exactly the stock: one buyer at a time', 'They oversell: each has its own lock', 'They leave units unsold'],
  'lesson.locks.shown': ({ sold, stock, row, rowSpeed, redis }) => `Stock: ${units(stock)}. A mutex in each of two servers: ${orders(sold)}. Row lock: ${n(row)}, at ${n(rowSpeed)} clicks per second. Redis lock, whose holder sometimes pauses: ${n(redis)}.`,

  'lesson.optimistic.text': [
    'Do not keep other buyers out. Let all of them read, and check at the write whether another one was faster: `update ... where version = $2`. The row has a version, each write raises it by one, and a write with an old version changes no row. It never oversells, and no lock is held while the program thinks.',
    'But in a rush almost all buyers read the same version. One succeeds. The others are refused, although most of the stock is still there. Courses often stop here, and a shop that copies them undersells: buyers leave without a unit while units remain. So the losers must retry, and a hundred losers that retry are a crowd again: in each round one succeeds, and all the others did useless work.',
    'Where conflicts are rare, this is the best method. Our shop uses it for the stock in Redis: the script `fix` changes it only if epoch and ops are unchanged.',
  ],
  'lesson.optimistic.taught': ['optimistic lock', 'version number', 'CAS'],
  'lesson.optimistic.ask': 'With a version and without retry: what remains when 200 buyers want 20 units?',
  'lesson.optimistic.choices': ['Nothing, all 20 are sold', 'Units remain, although buyers were refused', 'It even oversells'],
  'lesson.optimistic.shown': ({ sold, unsold, retried, sql }) => `Without retry: ${orders(sold)}, ${units(unsold)} unsold. With retry: ${n(retried)} unsold, at ${n(sql)} SQL statements per order.`,

  'lesson.guard.text': [
    'Put the question into the update: `update ... set stock = stock - 1 where id = $1 and stock > 0`. One statement reads, decides and writes. Postgres locks the row only for the rest of this transaction, and a transaction that waited sees the current value of the row, not the one from when it arrived. The number of changed rows is the answer: 1 is a success, 0 is sold out.',
    'Nothing can go wrong between two steps, because there is only one step. No buyer reads first, none retries, and no lock is held over the network while your program thinks. The time window works the same way: with `clock_timestamp() >= starts_at and clock_timestamp() < ends_at` beside it, no buyer buys early because the clock of a server is fast.',
    'This line is the foundation of the shop, whatever stands in front of it. It counts units only: one order per buyer needs the unique index of the next lesson. Queues and caches make the shop fast; this line makes it right. Cancelling and paying are written the same way.',
  ],
  'lesson.guard.taught': ['atomic stock update', 'row lock'],
  'lesson.guard.ask': 'As long as no buyer clicks twice, all of these sell exactly the stock. Which one is the fastest on this machine?',
  'lesson.guard.choices': ['The row lock (for update)', 'The optimistic lock with retry', 'The conditional update'],
  'lesson.guard.shown': ({ lock, retry, guard }) => `Clicks answered per second: row lock ${n(lock)}, optimistic lock ${n(retry)}, conditional update ${n(guard)}. Differences of a few per cent are noise; run it again. The conditional update is exact here because no buyer clicked twice: it does not know buyers, which is the next lesson.`,

  'lesson.double-click.text': [
    'The conditional update counts units, not buyers. A buyer who clicks twice, or whose browser sends again after a lost reply, makes two requests and takes two units. Check first whether the buyer has an order? That is lesson 1 again: both requests check, and neither finds an order.',
    'Only a unique index makes this certain: `unique (sale_id, user_id)`. The second insert fails or, with `on conflict do nothing`, changes nothing. The order and the unit must be in one transaction. If you take the unit, fail to insert the order and forget to roll back, a unit is lost that no one bought.',
    'Our shop checks three times, the cheapest check first: the button is disabled after a click, then the tickets hash at the gate, then the unique index. The first two save work. Only the index is a guarantee; a disabled button does not stop a script.',
  ],
  'lesson.double-click.taught': ['one order per user', 'idempotence', 'duplicate orders'],
  'lesson.double-click.ask': 'Half of the buyers click twice. What happens with the conditional update alone?',
  'lesson.double-click.choices': ['Nothing bad, the condition protects the stock', 'Some buyers get two units', 'It sells more than the stock'],
  'lesson.double-click.shown': ({ duplicates, withIndex }) => `The conditional update alone: ${n(duplicates)} duplicate ${duplicates === 1 ? 'order' : 'orders'}. With the unique index in the same transaction: ${n(withIndex)}.`,

  'lesson.pre-stock.text': [
    'A row in Postgres is changed by one transaction at a time. Redis counts faster, so four of the five courses put a counter in Redis in front of the database and decrement it first. `GET`, check, `DECR` is lesson 1 in a new place. `DECR` first and then check its result cannot oversell: the counter changes in one step.',
    'But now units disappear. A double click decrements twice and makes one order. If the order fails, or the server dies after `DECR`, the unit is decremented for nothing. The counter is zero, the database still has units, and all buyers are told "sold out". Giving the unit back with `INCR` looks simple, until this compensation runs twice. Some shops load more stock into Redis than they have, and let the database refuse the rest.',
    'Our script checks the buyer and takes the unit in one step, and never adds a unit back. A reconciliation with Postgres corrects the counter several times a second.',
  ],
  'lesson.pre-stock.taught': ['pre-decrement', 'stock warm-up', 'Lua'],
  'lesson.pre-stock.ask': 'DECR first, then check whether the buyer has an order. Some buyers click twice. What goes wrong?',
  'lesson.pre-stock.choices': ['It oversells', 'Units stay unsold', 'Nothing'],
  'lesson.pre-stock.shown': ({ unsold, oversold, lua }) => `DECR first, then check: ${units(unsold)} unsold, ${n(oversold)} oversold. The script that checks first: ${n(lua)} unsold.`,

  'lesson.refill.text': [
    'Redis has taken a unit, and then the order fails: the buyer has one already, a statement runs into its time limit, the database restarts. The unit must return to the pre-stock, or it is never sold. Courses compare three strategies. `INCR` is the inverse of `DECR`, and looks right. But every refused buyer has decremented too, so the counter is not at 0, it is at -2 or at -500. `INCR` makes it -499, and no buyer gets in.',
    'So `SET 1`: it does not matter how far below zero the counter was. But when two orders fail before the next buyer comes, one unit returns instead of two; and when an order fails while 12 units are left, the other eleven are gone. Both ways infer a number from one event. Neither looks at how many units there are.',
    'The third one looks: read the true stock in Postgres, and set the counter to it, only if the counter has not changed meanwhile (compare and set). A number that is a little too high costs some work, since Postgres has the last word; one that is too low costs units. Our shop does this on a timer, several times a second, also for units that come back from cancelled orders and for processes that died. No code adds one at the gate. Courses then clear the sold-out mark in the memory of every server by a broadcast; ours lives for 50 ms (250 ms without Redis), so there is nothing to clear.',
  ],
  'lesson.refill.taught': ['refill of the pre-stock', 'sold-out mark in memory'],
  'lesson.refill.ask': 'One order in three fails at its first try, and refused buyers click again while the page shows units. Which refill sells all units?',
  'lesson.refill.choices': ['INCR: it undoes the DECR', 'SET 1: it lets one buyer in', 'Set the counter to the stock in Postgres'],
  'lesson.refill.shown': ({ stock, incr, one, truth }) => `Of ${units(stock)}, unsold: ${n(incr)} with INCR, ${n(one)} with SET 1, ${n(truth)} with the stock from Postgres.`,

  'lesson.journal.text': [
    'A script in Redis takes the unit and replies at once. The order is written later, from a queue. The simplest queue is a channel in memory, and it works until the process ends: a deployment, a crash, the system is out of memory. The buyers in the channel were promised a unit. Their units are gone from Redis, their orders were never written, and no record of them remains.',
    'So a promise must be recorded where it is made, in the same step. Our script adds an entry to a stream beside the stock: the journal. The queue in memory is only a fast copy of the journal. Another process takes over the entries of a dead process: at once on the same machine, after five seconds on another machine. An entry leaves the journal only after Postgres has committed.',
    'So a ticket may be settled twice, and this must be harmless: settling is idempotent. The result of each ticket is stored under its id, in the transaction that makes the order.',
  ],
  'lesson.journal.taught': ['stock journal', 'asynchronous order', 'message queue', 'peak shaving'],
  'lesson.journal.ask': 'The process is killed during the sale. Which buyers were promised a unit and have no order?',
  'lesson.journal.choices': ['None, with the channel or with the journal', 'Some with the channel; none with the journal', 'Some with both'],
  'lesson.journal.shown': ({ channel, journal }) => `Promised a unit but left without an order: ${n(channel)} with the channel, ${n(journal)} with the shop's journal.`,

  'lesson.batch.text': [
    'All buyers of one sale want the same row. However many connections you open, only one transaction at a time changes this row, and the next one waits until the last is on disk. More connections only make the queue longer. This is the hot row.',
    'You can split the row: one row per unit, and `skip locked`, so that each transaction takes another row. It helps, and costs one row per unit. Or each turn can do more: if a hundred buyers wait anyway, lock the row once, insert a hundred orders in one statement, subtract a hundred, commit once.',
    'Our shop does this at both ends. A lane merges the waiting requests, up to 256, into one script call. The order queue then settles up to 2,000 tickets in one transaction. No request waits for a batch to fill: a single request goes alone. A batch grows only while the one before it is at work.',
  ],
  'lesson.batch.taught': ['hot row', 'draining the queue', 'batch'],
  'lesson.batch.ask': '2,000 buyers, 1,000 units. How many SQL statements per order does the shop need, including those for refused buyers?',
  'lesson.batch.choices': ['Two or more, like the others', 'About one', 'Less than a half'],
  'lesson.batch.shown': ({ shopSql, oneSql, shop, one }) => `SQL statements per order: ${few(shopSql)} in the shop, ${few(oneSql)} with one order per transaction. Clicks answered per second: ${n(shop)} and ${n(one)}.`,

  'lesson.buckets.text': [
    'If one row is too hot, make sixteen rows of it. The stock is divided over sixteen buckets, a hash of the buyer names the bucket, and the conditional update runs on that row alone. Sixteen transactions can commit at once. Each bucket is as safe as the one row was, so nothing is oversold.',
    'But a hash spreads buyers evenly only on average. In the end some buckets have units and no buyers, and others have buyers and no units: they say "sold out" to a buyer while units are left next door. A unit of a cancelled order goes back to a bucket whose buyers have gone.',
    'With ten buyers for each unit every bucket gets enough of them, and no one sees the error. It shows when buyers and units are about as many, or at the end of a long sale. Looking into the other buckets would be right, but then each refused buyer asks all sixteen. Our shop keeps one row and makes each turn on it do more, as the lesson before this one shows.',
  ],
  'lesson.buckets.taught': ['bucketed stock', 'stock sharding', 'hot row'],
  'lesson.buckets.ask': '180 units in 16 buckets, 200 buyers, and no one clicks twice. What happens?',
  'lesson.buckets.choices': ['All 180 are sold: together the buckets hold them all', 'Units stay unsold, although buyers were refused', 'It oversells: no one counts all buckets'],
  'lesson.buckets.shown': ({ unsold, speed, oneUnsold, oneSpeed }) => `Buckets: ${units(unsold)} unsold, ${n(speed)} clicks answered per second. One row: ${n(oneUnsold)} unsold, ${n(oneSpeed)} per second.`,

  'lesson.tokens.text': [
    'In place of a counter, fill a list with one token for each unit. `LPOP` hands out each token once, and an empty list means sold out. There is no number to compare, and nothing falls below zero: however many buyers are refused, a token that is put back is there for the next one. A counter at -500 would not notice.',
    'A double click takes two tokens, so the buyer comes first: `SADD buyers 42` adds the buyer to a set and reports whether they are new, in one step. Two commands, and each of them checks and writes at once. Their order decides. `LPOP` first and `SADD` second is `redis-decr` again.',
    'What remains is the way from Redis to Postgres. A process that dies between `LPOP` and the order has the token only in its memory. Pushing a token back after an error is no cure: if only the reply was lost, the order exists, and its token would be sold twice. The next lesson is about that.',
  ],
  'lesson.tokens.taught': ['token list', 'LPOP', 'Redis List', 'Redis Set'],
  'lesson.tokens.ask': 'Half of the buyers click twice. `SADD` first, then `LPOP`: what goes wrong?',
  'lesson.tokens.choices': ['Units stay unsold, as with DECR', 'Nothing: the second click takes no token', 'It oversells, or sells two units to one buyer'],
  'lesson.tokens.shown': ({ stock, decr, list }) => `Of ${units(stock)}, unsold: ${n(decr)} with DECR first, ${n(list)} with SADD and LPOP.`,

  'lesson.outbox.text': [
    'A unit is taken in Redis, an order is written in Postgres, and a process can die between the two. No transaction covers both. So leave a trace before and a proof after: the script that takes the unit also leaves a message, "prepared", and the order is written together with a line of the stock log, in one transaction. If the message stays, someone must ask the log: this is the check-back.',
    'Is there a line? Then the order exists, and only the message is removed. Is there none? Then the unit goes back on sale. But the process may be slow and not dead, and write its order a moment later. So the check-back writes the line itself, "not sold". The primary key lets one of the two in: a late order fails with its line. Courses that leave a log entry at "unknown" are asked about it forever.',
    'Our shop has the same trace, the journal, and the same proof, the result of a ticket. It does not put the unit back: another process finishes the order, so the buyer keeps the place in the queue.',
  ],
  'lesson.outbox.taught': ['stock log', 'transactional message', 'check-back', 'half message', 'transactional outbox'],
  'lesson.outbox.ask': 'A server dies after it has taken units in Redis and before it has written their orders. What becomes of these units?',
  'lesson.outbox.choices': ['They are sold all the same, whatever the strategy', 'The token list and the script leave them unsold; the check-back puts them back on sale', 'The check-back puts back too many: it oversells'],
  'lesson.outbox.shown': ({ list, lua, outbox, sql }) => `Unsold after the kill: ${n(list)} with tokens in a list, ${n(lua)} with the script alone, ${n(outbox)} with the stock log, at ${n(sql)} SQL statements per order.`,

  'lesson.fencing.text': [
    'A lock that expires has a weak moment: its holder sleeps past the expiry, another one enters, and then the first wakes up and writes what it worked out long ago. No lock can prevent this, because the sleeper no longer asks. Only the side that is written to can refuse.',
    'So the lock comes with a number that only rises. The holder first announces it in Postgres, with the statement that reads the stock: `set version = 7 where version < 7 returning stock`. The write names it again: `where version = 7`. If holder 8 has announced itself meanwhile, the write of holder 7 changes no row, and it starts again.',
    'Comparing at the write only, as many drawings of the fencing token show it, is not enough here: 7 and 8 both read 20 units, 7 writes 19, 8 writes 19 as well. Then look at what is left for the lock to do. The comparison alone is an optimistic lock; the lock only saves the losers useless work. Our shop guards its gate in the same way: a change carries the epoch of the sale, and an old epoch changes nothing.',
  ],
  'lesson.fencing.taught': ['distributed lock', 'fencing token', 'Redisson', 'watchdog'],
  'lesson.fencing.ask': 'A holder sleeps for longer than its lock lives, wakes up, and writes. Postgres compares its number. What happens?',
  'lesson.fencing.choices': ['It oversells all the same', 'The write changes no row, and the holder tries again', 'Its unit is lost: units stay unsold'],
  'lesson.fencing.shown': ({ stock, lock, fenced, redis, seconds }) => `${units(stock)}. The lock alone: ${orders(lock)}. With a fencing token: ${orders(fenced)}, ${n(redis)} Redis calls per order, ${n(seconds)} s.`,

  'lesson.ledger.text': [
    'Bookkeepers do not overwrite a number. Each sale is a new row with the number of its unit, and what is left is the stock minus the highest number. There is no stock to lock and no row to wait for; a unique index on the number refuses what is taken, and one on the buyer refuses a second order.',
    'The rest is one statement: read the highest number, compare it with the stock, insert the next one. It is right without a transaction around it, and nothing is lost when a process dies. But all buyers read the same highest number and want the same next one. One gets it. The others wait for its commit, insert nothing, and try again: the crowd has moved from a hot row to a hot number.',
    'A sequence would give out numbers without waiting. But the number of an order that is rolled back never comes again, and its unit stays unsold. Our shop keeps one number with a conditional update for the decision, and a history that only grows for the proof.',
  ],
  'lesson.ledger.taught': ['insert-only', 'ledger', 'stock flow', 'unique index'],
  'lesson.ledger.ask': '200 buyers and 200 units. How many SQL statements per order does the ledger need, compared with the conditional update in its transaction?',
  'lesson.ledger.choices': ['Fewer: one insert in place of a transaction', 'About as many', 'More: the losers try again'],
  'lesson.ledger.shown': ({ guard, ledger, guardSpeed, speed }) => `SQL statements per order: ${n(ledger)} in the ledger, ${n(guard)} with the conditional update. Clicks answered per second: ${n(speed)} and ${n(guardSpeed)}.`,

  'lesson.address.text': [
    'If the address of the buy button is known before the sale starts, a script uses it first, and ten thousand times. So a buyer receives the address only inside the time window, only when logged in, and only after a captcha, a small sum; it is valid for one minute. The captcha stops few programs. But it always spreads the requests over some seconds, because some people calculate faster than others.',
    'Courses store a random path in Redis and look it up at each click. Our address is signed: it holds the user, the expiry, and an HMAC of both, the sale and the session. The check is a calculation and needs no other server, so a flood of invented addresses never reaches Redis. No other user can use your address, and you cannot use it in another sale.',
    'A captcha can be answered once, right or wrong. Otherwise a program would guess until it is right.',
  ],
  'lesson.address.taught': ['hidden address', 'sale token', 'captcha'],
  'lesson.address.ask': 'Bots try addresses that are not theirs. What does each try cost Redis?',
  'lesson.address.choices': ['One lookup, with any kind of address', 'One lookup if addresses are stored in Redis, none if they are signed', 'No lookup, with any kind of address'],
  'lesson.address.shown': ({ tries, fixedIn, bots, keptIn, kept, signedIn, signed }) =>
    `The bots tried ${n(tries)} times. Fixed address: ${n(fixedIn)} let in, and bots took ${units(bots)}. Stored in Redis: ${n(keptIn)} let in, ${n(kept)} commands. Signed: ${n(signedIn)} let in, ${n(signed)} commands.`,

  'lesson.limits.text': [
    'With a hundred units and a million people, almost all of the work is refusing. Say it early and cheaply. Our shop checks the cheapest thing first: the form of the request, the address, the mark "just sold out" (kept for only 50 ms, 250 ms without Redis, so nothing must be cleared when units come back), the limit of requests in flight, the session, and the token buckets of the user and of the network address. The bucket of a user stops a script. The bucket of a network address is large, because a whole class or office may share one address.',
    'A token bucket does not know the stock. The big gate does: for each unit left, at most five addresses are valid at the same time, but it always allows 64. The other buyers are told to wait, or told that the sale is sold out. So the number of buyers behind the gate stays in proportion to the stock.',
    'A full queue is an answer too: 503 with `Retry-After`. The queue never grows without a bound, and a full queue is never reported as "sold out".',
    'What happens to a request without a token? Guava\'s `RateLimiter` has two answers. `acquire` waits: no one is refused, but each waiting request keeps its connection and its memory, and in a rush the last one waits for more than a second, and twice as long in a crowd of twice the size. `tryAcquire` refuses at once and keeps nothing. Our shop does not wait at its rate limits; its queues wait, with a bound (`tryAcquire` with a timeout): a request beyond the bound is refused at once.',
  ],
  'lesson.limits.taught': ['rate limit', 'token bucket', 'big gate', 'sold-out mark in memory'],
  'lesson.limits.ask': '50 units, 200 people with one request each, and one bot with 1,000 requests. Without a limit, who gets more?',
  'lesson.limits.choices': ['The people: there are 200 of them', 'The bot: it sends more requests'],
  'lesson.limits.shown': ({ bot, people, bucketBot, bucketPeople, without, alive, waiting, kept, waitP99, refused, boundKept, boundP99 }) =>
    `Without a limit: bot ${n(bot)}, people ${n(people)}. With a token bucket per user: bot ${n(bucketBot)}, people ${n(bucketPeople)}. Valid addresses: ${n(without)} without the big gate, ${n(alive)} with it, and ${n(waiting)} buyers told to wait. The same crowd of 1,500 at one token bucket: with waiting, ${n(kept)} requests are kept at one time, p99 ${n(waitP99)} ms; without, ${n(refused)} are refused at once; with 100 ms at most, ${n(boundKept)} are kept, p99 ${n(boundP99)} ms.`,

  'lesson.late-payment.text': [
    'A unit that is ordered but not paid for is kept from a buyer who would pay. After fifteen minutes the order is cancelled and the unit goes back on sale, in Postgres and at the gate. Each step may create units from nothing: an order is cancelled twice and its unit returned twice, or the payment and the timeout both succeed.',
    'Each change of an order is one conditional update. The timeout says `where status = \'pending\' and expires_at <= clock_timestamp()`; the payment says the same with `>`, by the same clock, on the same row. Only one of them changes the row; the other finds nothing to change. The unit is returned in the transaction that cancels the order, so it cannot be returned twice.',
    'Money that arrives too late is not lost, and it does not revive the order. The same transaction records it as due for a refund, and a background worker refunds it. At the gate no code adds one: a reconciliation with Postgres sets the stock.',
  ],
  'lesson.late-payment.taught': ['order timeout', 'stock returned', 'delay queue'],
  'lesson.late-payment.ask': '200 orders time out at the moment when their money arrives. With "select, then update", how many units are paid for or on sale afterwards?',
  'lesson.late-payment.choices': ['200, as before', 'More than before', 'Fewer'],
  'lesson.late-payment.shown': ({ units: all, both, twice, of, guarded, guardedBoth, refunded }) =>
    `Select, then update: ${n(of)} units became ${n(all)}. ${n(both)} were paid for and put back too, and ${n(twice)} were put back twice, once by each process. One conditional update: ${n(guarded)} units, ${n(guardedBoth)} of them paid for and put back; the payments of ${n(refunded)} orders arrived too late and are refunded.`,

  'lesson.cache.text': [
    'The page of a sale is read a thousand times for each purchase, so it comes from memory. Three things can go wrong. Penetration: requests ask for ids that do not exist; nothing is cached, so each request reaches the database. Cache the miss too, and refuse ids above the newest one. Breakdown: the entry that all requests read expires, and a thousand requests read the row at once. Let one request read, and let the others wait for its result.',
    'Avalanche: hundreds of entries that were filled together expire together. Courses add a random part to the expiry. An entry in our shop lives for one second and is read again only when it is requested, by one request for all. If Postgres does not reply, the shop sends an entry of up to one minute ago, and marks it as stale.',
    'A cache of several levels puts Redis between memory and the database. The last rows say what a read costs at each level. Behind a local cache that reads an entry once a second, Redis in the middle would save only that difference, once a second, and be one more copy that can be old; so our shop has two levels.',
    'The stock in the cache is only for display, never for selling. No code that takes a unit reads the cache.',
  ],
  'lesson.cache.taught': ['cache penetration', 'cache breakdown', 'cache avalanche', 'multi-level cache'],
  'lesson.cache.ask': 'The entry that all requests read expires when 500 requests arrive. Without any protection, how many of them read the database?',
  'lesson.cache.choices': ['One', 'Fewer than 100', '100 or more'],
  'lesson.cache.shown': ({ all, flight, unknown, remembered, together, jitter, local, redis, postgres }) =>
    `Reads of the database: ${n(all)}; with a single flight: ${n(flight)}. Unknown ids: ${n(unknown)}; with cached misses: ${n(remembered)}. Reads at the same time when all entries expire together: ${n(together)}; with a random expiry: ${n(jitter)}. One read takes ${few(local)} µs from memory, ${few(redis)} µs from Redis and ${few(postgres)} µs from Postgres.`,

  'lesson.cache-consistency.text': [
    'A price is in Postgres, and a copy of it in Redis. A writer changes two stores, and readers come in between. Delete the copy first, then write: the next reader misses, reads the old price, and caches it again. After the write the copy is old, and it stays old until it expires. It takes no bad luck, only a reader at the wrong moment, and there is always one.',
    'Write first, then delete (cache aside): readers see the old price only in between. But a reader that missed before the write and stalls (a garbage collection is enough) puts the old price back after the delete. So courses delete a second time, half a second later (延时双删). That removes it, unless the reader stalls for longer. A process that dies between write and delete leaves the old copy, too. A delete over a message queue or the database\'s log (canal, Debezium) is repeated until it succeeds, but the stalled reader can still come after it.',
    'What ends every such error is the expiry. So our shop deletes nothing: an entry of its goods cache lives for one second, in the memory of each process, and whatever goes wrong is over after that second. This is enough because the cache is only shown: price, window and stock are checked in Postgres, in the statement that sells. A copy that decides needs more: our gate in Redis is compared with Postgres again and again.',
  ],
  'lesson.cache-consistency.taught': ['cache consistency', 'cache aside', 'delayed double delete'],
  'lesson.cache-consistency.ask': '20 prices change while readers read. Some readers stall. Which strategy leaves no old price in the cache?',
  'lesson.cache-consistency.choices': ['Delete, then write', 'Write, then delete', 'Delete twice', 'No delete, but a short life'],
  'lesson.cache-consistency.shown': ({ first, after, twice, life, firstStale, afterStale, lifeStale, lifeLongest }) =>
    `Prices that stay old: ${n(first)} with delete, then write; ${n(after)} with write, then delete; ${n(twice)} with two deletes; ${n(life)} with a short life. Old prices read meanwhile: ${n(firstStale)} with delete first, ${n(afterStale)} with write first, ${n(lifeStale)} with a short life, for ${n(lifeLongest)} ms at most. Fewest old reads and no price that stays old: write, then delete, with a short life as well.`,

  'lesson.confirm.text': [
    'Between the unit in Redis and the order in the database, most courses put a message queue: RabbitMQ or RocketMQ. It shaves the peak, and it is one more place where an order can be lost. A producer that does not wait for the broker promises what it still has in its own memory. Waiting is safe; the question is what to wait for: a transaction for each message (`txSelect`, `txCommit`) or a confirm for each costs a round trip each time. Confirms in batches cost one for a hundred messages and are as safe, because a buyer is told only after the confirm.',
    'When a process dies before it has read the confirm, it is unknown whether the messages are there. They are sent again, so some are there twice, and writing an order must be idempotent: a unique key drops the second one. On the other side the consumer acknowledges. If it does so before the work, its death loses what it had taken; if after the commit, the messages are delivered again, and the same key makes this harmless. A message that fails every time would come back forever. After some deliveries it goes to the dead letters, where a person looks at it.',
    'Our shop has no broker. Its journal is a stream in the same Redis, written by the same script that takes the units, one entry for a whole reserve call: there is no moment in which a unit is taken and no message is written. RocketMQ\'s transactional message closes the same gap with a half message, a stock log and a check-back; our result of each ticket, stored in the transaction that makes the order, is that log. The rest is as here: ack after the commit, take over from dead processes, dead letters after 64 owners.',
    'The run below has no broker either. It sends to a stream in Redis on this machine, and its transaction is `MULTI` and `EXEC`. So it shows who waits for what, and what is lost, but not what a broker costs: RabbitMQ\'s own manual calls transactions much slower than confirms, and here it is chance which of the two is faster.',
  ],
  'lesson.confirm.taught': ['transaction and confirm', 'transactional message', 'ack', 'dead letters', 'RabbitMQ, RocketMQ'],
  'lesson.confirm.ask': 'The producer dies in the middle of 1,000 messages. Which strategy loses messages that were promised?',
  'lesson.confirm.choices': ['None: the queue keeps them all', 'Only the one that promises before the confirm', 'All but the transaction: a batch is lost as a whole'],
  'lesson.confirm.shown': ({ lost, of, each, eachWait, confirm, confirmWait, batch, batchWait, entry, entryWait, twice, ackLost, afterLost, again, dead }) =>
    `No confirm: ${n(lost)} of ${n(of)} lost after the promise, none otherwise. Messages per second and p99: ${n(each)} and ${n(eachWait)} ms with a transaction each, ${n(confirm)} and ${n(confirmWait)} ms with a confirm each, ${n(batch)} and ${n(batchWait)} ms in batches, ${n(entry)} and ${n(entryWait)} ms as one entry; a batch of ${n(twice)} was sent twice, without a second order. Consumer: ${n(ackLost)} lost with ack first; ${n(afterLost)} with ack after the commit, ${n(again)} delivered again, ${n(dead)} dead letter.`,

  'lesson.hot.text': [
    'A shop sells many items at once, and suddenly one of them is hot. Its row lets one purchase through at a time, so its buyers wait. The rows of the other, cold items are free, and yet their buyers wait too, if all buyers share one queue: they stand behind the whole crowd. More connections do not help, because they all end up waiting for the row of the hot item.',
    'A bound alone makes it worse for the others. The crowd clicks again and again and keeps the queue full, so most buyers of cold items are refused because of an item that they do not want.',
    'Courses find the hot items first, by counting clicks, and then move them to queues or servers of their own. Until an item is found, the others wait. Our shop keeps the items apart at all times: each sale has a lane with a bounded room of its own, and only one batch of a sale is settled at a time. The hot item loses little by this, since its row lets one through at a time anyway; in the shop it gets faster, because a whole batch takes the lock once. The shop counts clicks too, but only to show the operator which sales are hot: in `/hot`, as a metric and in the log.',
  ],
  'lesson.hot.taught': ['hot items', 'hot key', 'isolation of hot items'],
  'lesson.hot.ask': '100 buyers want one hot item, and 50 buyers want fifty cold ones. All wait in one queue for eight connections. How many hot purchases does a click on a cold item wait for?',
  'lesson.hot.choices': ['None: its row is free', 'One to ten', 'More than ten'],
  'lesson.hot.shown': ({ one, lane, cold, refused, laneRefused, oneP99, laneP99, oneHot, laneHot }) =>
    `Half of the cold clicks wait for ${n(one)} hot purchases or more in one queue, and for ${n(lane)} or more with a lane for each item; their p99 is ${n(oneP99)} ms and ${n(laneP99)} ms. With a bound, the one queue refuses ${n(refused)} of ${n(cold)} cold clicks, the lanes refuse ${n(laneRefused)}. The hot item sells ${n(oneHot)} a second in one queue and ${n(laneHot)} in its lane.`,
};
