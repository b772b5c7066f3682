// The texts of the twelve lessons. `text` is a list of paragraphs; the page shows text between backticks as code.
const n = (x) => Number(x).toLocaleString('en-GB', { maximumFractionDigits: x < 100 ? 1 : 0 });
const few = (x) => (x < 0.1 ? 'less than 0.1' : n(x));
const units = (x) => `${n(x)} ${x === 1 ? 'unit' : 'units'}`;
const orders = (x) => `${n(x)} ${x === 1 ? 'order' : 'orders'}`;

export default {
  'lesson.1.title': 'Overselling',
  'lesson.1.text': [
    'Almost every first flash sale is written like this: read the stock, check that it is above zero, write back one less, insert the order. Each statement is right. Together they are wrong, because time passes between the read and the write, and in that time another buyer reads the same number. Two buyers both read 1, both write 0, and both receive an order. The database did what it was told, and no log shows an error.',
    'This is called a lost update. It needs no slow server, only two requests at the same time, and a flash sale consists of requests at the same time. A constraint that keeps the stock from going below zero does not help: the stock never goes below zero, it is only reduced too few times.',
    'Our shop never takes a unit like that: the condition is inside the write. Run it first, then read the marked lines.',
  ],
  'lesson.1.ask': '200 buyers come at once for 20 units. How many orders will there be?',
  'lesson.1.choices': ['Exactly 20', 'Fewer than 20', 'More than 20'],
  'lesson.1.shown': ({ sold, stock }) => `There are ${units(stock)} and ${orders(sold)}.`,

  'lesson.2.title': 'Locks',
  'lesson.2.text': [
    'The first idea against the race: one buyer at a time. It depends on where the lock is. A mutex is inside one process. Two servers have two mutexes, so the race is back on the day you add a second server, which is the day you need the lock most.',
    'A lock in the database is seen by all servers: `select ... for update` locks the row until the transaction ends, and an advisory lock locks a number of your choice. Both are right. Both make every buyer wait for every other buyer, and each turn takes one more network round trip than the work itself.',
    'A lock in Redis (`SET NX` with an expiry) is seen by all servers too, but it expires. A holder that pauses longer than the expiry wakes up and believes that it still holds the lock. Our shop also locks the row of the sale, but once per batch, never once per buyer.',
  ],
  'lesson.2.ask': 'Two servers, each with a mutex around read-then-write. What happens?',
  'lesson.2.choices': ['They sell exactly the stock: one buyer at a time', 'They oversell: each has its own lock', 'They leave units unsold'],
  'lesson.2.shown': ({ sold, stock, row, rowSpeed, redis }) => `Stock: ${units(stock)}. A mutex in each of two servers: ${orders(sold)}. Row lock: ${n(row)}, at ${n(rowSpeed)} clicks per second. Redis lock, whose holder sometimes pauses: ${n(redis)}.`,

  'lesson.3.title': 'Optimistic locking',
  'lesson.3.text': [
    'Do not keep other buyers out. Let all of them read, and check at the write whether another one was faster: `update ... where version = $2`. The row has a version, each write raises it by one, and a write with an old version changes no row. It never oversells, and no lock is held while the program thinks.',
    'But in a rush almost all buyers read the same version. One succeeds. The others are refused, although most of the stock is still there. Courses often stop here, and a shop that copies them undersells: buyers leave without a unit while units remain. So the losers must retry, and a hundred losers that retry are a crowd again: in each round one succeeds, and all the others did useless work.',
    'Where conflicts are rare, this is the best method. Our shop uses it for the stock in Redis: the script `fix` changes it only if epoch and ops are unchanged.',
  ],
  'lesson.3.ask': 'With a version and without retry: what remains when 200 buyers want 20 units?',
  'lesson.3.choices': ['Nothing, all 20 are sold', 'Units remain, although buyers were refused', 'It even oversells'],
  'lesson.3.shown': ({ sold, unsold, retried, sql }) => `Without retry: ${orders(sold)}, ${units(unsold)} unsold. With retry: ${n(retried)} unsold, at ${n(sql)} SQL statements per order.`,

  'lesson.4.title': 'The conditional update',
  'lesson.4.text': [
    'Put the question into the update: `update ... set stock = stock - 1 where id = $1 and stock > 0`. One statement reads, decides and writes. Postgres locks the row only for this time, and a transaction that waited sees the current value of the row, not the value at its arrival. The number of changed rows is the answer: 1 is a success, 0 is sold out.',
    'Nothing can go wrong between two steps, because there is only one step. No buyer reads first, none retries, and no lock is held over the network while your program thinks. The time window works the same way: with `clock_timestamp() >= starts_at and clock_timestamp() < ends_at` beside it, no buyer buys early because the clock of a server is fast.',
    'This line is the foundation of the shop, whatever is in front of it. Queues and caches make the shop fast; this line makes it right. Cancelling and paying are written the same way.',
  ],
  'lesson.4.ask': 'All of these are right. Which one is the fastest on this machine?',
  'lesson.4.choices': ['The row lock (for update)', 'The optimistic lock with retry', 'The conditional update'],
  'lesson.4.shown': ({ lock, retry, guard }) => `Clicks answered per second: row lock ${n(lock)}, optimistic lock ${n(retry)}, conditional update ${n(guard)}. Differences of a few per cent are noise; run it again.`,

  'lesson.5.title': 'Double clicks and the unique index',
  'lesson.5.text': [
    'The conditional update counts units, not buyers. A buyer who clicks twice, or whose browser sends again after a lost reply, makes two requests and takes two units. Check first whether the buyer has an order? That is lesson 1 again: both requests check, and neither finds an order.',
    'Only a unique index makes this certain: `unique (sale_id, user_id)`. The second insert fails or, with `on conflict do nothing`, changes nothing. The order and the unit must be in one transaction. If you take the unit, fail to insert the order and forget to roll back, a unit is gone that no one bought.',
    'Our shop checks three times, the cheapest check first: the button is disabled after a click, then the tickets hash at the gate, then the unique index. The first two save work. Only the index is a guarantee; a disabled button does not stop a script.',
  ],
  'lesson.5.ask': 'Half of the buyers click twice. What happens with the conditional update alone?',
  'lesson.5.choices': ['Nothing bad, the condition protects the stock', 'Some buyers get two units', 'It sells more than the stock'],
  'lesson.5.shown': ({ duplicates, withIndex }) => `The conditional update alone: ${n(duplicates)} duplicate ${duplicates === 1 ? 'order' : 'orders'}. With the unique index in the same transaction: ${n(withIndex)}.`,

  'lesson.6.title': 'Pre-decrement in Redis, and why units stay unsold',
  'lesson.6.text': [
    'A row in Postgres is changed by one transaction at a time. Redis counts faster, so every course puts a counter in Redis in front of the database and decrements it first. `GET`, check, `DECR` is lesson 1 in a new place. `DECR` first and then check its result cannot oversell: the counter changes in one step.',
    'But now units disappear. A double click decrements twice and makes one order. If the order fails, or the server dies after `DECR`, the unit is decremented for nothing. The counter is zero, the database still has units, and all buyers are told "sold out". To give the unit back with `INCR` looks simple, until this compensation runs twice. Some shops load more stock into Redis than they have, and let the database refuse the rest.',
    'Our script checks the buyer and takes the unit in one step, and never adds a unit back. A reconciliation with Postgres corrects the counter several times per second.',
  ],
  'lesson.6.ask': 'DECR first, then check whether the buyer has an order. Some buyers click twice. What goes wrong?',
  'lesson.6.choices': ['It oversells', 'Units stay unsold', 'Nothing'],
  'lesson.6.shown': ({ unsold, oversold, lua }) => `DECR first, then check: ${units(unsold)} unsold, ${n(oversold)} oversold. The script that checks first: ${n(lua)} unsold.`,

  'lesson.7.title': 'The journal',
  'lesson.7.text': [
    'A script in Redis takes the unit and replies at once. The order is written later, from a queue. The simplest queue is a channel in memory, and it works until the process ends: a deployment, a crash, the system is out of memory. The buyers in the channel were told "yes". Their units are gone from Redis, their orders were never written, and no record of them remains.',
    'So a promise must be recorded where it is made, in the same step. Our script adds an entry to a stream beside the stock: the journal. The queue in memory is only a fast copy of the journal. Another process claims the entries of a dead process after five seconds. An entry leaves the journal only after Postgres has committed.',
    'So a ticket may be settled twice, and this must be harmless: settling is idempotent. The result of each ticket is stored under its id, in the transaction that makes the order.',
  ],
  'lesson.7.ask': 'The process is killed during the sale. Which buyers were told "yes" and have no order?',
  'lesson.7.choices': ['None, with the channel or with the journal', 'Some with the channel; none with the journal', 'Some with both'],
  'lesson.7.shown': ({ channel, journal }) => `Told "yes" and left without an order: ${n(channel)} with the channel, ${n(journal)} with the shop's journal.`,

  'lesson.8.title': 'Batches and the hot row',
  'lesson.8.text': [
    'All buyers of one sale want the same row. However many connections you open, only one transaction at a time changes this row, and the next one waits until the last is on disk. More connections only make the queue longer. This is the hot row.',
    'You can split the row: one row per unit, and `skip locked`, so that each transaction takes another row. It helps, and costs one row per unit. Or each turn can do more: if a hundred buyers wait anyway, lock the row once, insert a hundred orders in one statement, subtract a hundred, commit once.',
    'Our shop does this at both ends. A lane merges the waiting requests, up to 256, into one script call. The order queue then settles up to 2,000 tickets in one transaction. No request waits for a batch to fill: a single request goes alone. A batch grows only while the one before it is at work.',
  ],
  'lesson.8.ask': '2,000 buyers, 1,000 units. How many SQL statements per order does the shop need, including those for refused buyers?',
  'lesson.8.choices': ['Two or more, like the others', 'About one', 'Less than a half'],
  'lesson.8.shown': ({ shopSql, oneSql, shop, one }) => `SQL statements per order: ${few(shopSql)} in the shop, ${few(oneSql)} with one order per transaction. Clicks answered per second: ${n(shop)} and ${n(one)}.`,

  'lesson.9.title': 'Hidden address and captcha',
  'lesson.9.text': [
    'If the address of the buy button is known before the sale starts, a script uses it first, and ten thousand times. So a buyer receives the address only inside the time window, only when logged in, and only after a captcha, a small sum; it is valid for one minute. The captcha stops few programs. But it always spreads the requests over some seconds, because some people calculate faster than others.',
    'Courses store a random path in Redis and look it up at each click. Our address is signed: it holds the user, the expiry, and an HMAC of both, the sale and the session. The check is a calculation and needs no other server, so a flood of invented addresses never reaches Redis. No other user can use your address, and you cannot use it in another sale.',
    'A captcha can be answered once, right or wrong. Otherwise a program would guess until it is right.',
  ],
  'lesson.9.ask': 'Bots try addresses that are not theirs. What does each try cost Redis?',
  'lesson.9.choices': ['One lookup, with any kind of address', 'One lookup if addresses are stored in Redis, none if they are signed', 'No lookup, with any kind of address'],
  'lesson.9.shown': ({ tries, fixedIn, bots, keptIn, kept, signedIn, signed }) =>
    `The bots tried ${n(tries)} times. Fixed address: ${n(fixedIn)} let in, and bots took ${units(bots)}. Stored in Redis: ${n(keptIn)} let in, ${n(kept)} commands. Signed: ${n(signedIn)} let in, ${n(signed)} commands.`,

  'lesson.10.title': 'Rate limits and the big gate',
  'lesson.10.text': [
    'With a hundred units and a million people, almost all of the work is to say no. Say it early and cheaply. Our shop checks the cheapest thing first: the form of the request, the address, the mark "just sold out" (kept for only 250 ms, so nothing must be cleared when units come back), the limit of requests in flight, the session, and the token buckets of the user and of the network address. The bucket of a user stops a script. The bucket of a network address is large, because a whole class or office may share one address.',
    'A token bucket does not know the stock. The big gate does: for each unit left, at most five addresses are valid at the same time, but it always allows 64. The other buyers are told to wait, or that the sale is sold out. So the number of buyers behind the gate stays in proportion to the stock.',
    'A full queue is an answer too: 503 with `Retry-After`. The queue never grows without a bound, and a full queue is never reported as "sold out".',
  ],
  'lesson.10.ask': '50 units, 200 people with one request each, and one bot with 1,000 requests. Without a limit, who gets more?',
  'lesson.10.choices': ['The people: there are 200 of them', 'The bot: it sends more requests'],
  'lesson.10.shown': ({ bot, people, bucketBot, bucketPeople, without, alive, waiting }) =>
    `Without a limit: bot ${n(bot)}, people ${n(people)}. With a token bucket per user: bot ${n(bucketBot)}, people ${n(bucketPeople)}. Valid addresses: ${n(without)} without the big gate, ${n(alive)} with it, and ${n(waiting)} buyers told to wait.`,

  'lesson.11.title': 'Timeouts, late payments and returned stock',
  'lesson.11.text': [
    'A unit that is ordered and not paid for is kept from a buyer who would pay. After fifteen minutes the order is cancelled and the unit goes back on sale, in Postgres and at the gate. Each step may create units from nothing: an order is cancelled twice and its unit returned twice, or the payment and the timeout both succeed.',
    'Each change of an order is one conditional update. The timeout says `where status = \'pending\' and expires_at <= clock_timestamp()`; the payment says the same with `>`, by the same clock, on the same row. Only one of them changes the row; the other finds nothing to change. The unit is returned in the transaction that cancels the order, so it cannot be returned twice.',
    'Money that arrives too late is not lost, and it does not revive the order. The same transaction records it as due for a refund, and a background worker refunds it. At the gate no code adds one: a reconciliation with Postgres sets the stock.',
  ],
  'lesson.11.ask': '200 orders time out at the moment when their money arrives. With "select, then update", how many units are paid for or on sale afterwards?',
  'lesson.11.choices': ['200, as before', 'More than before', 'Fewer'],
  'lesson.11.shown': ({ units: all, both, of, guarded, guardedBoth, refunded }) =>
    `Select, then update: ${n(of)} units became ${n(all)}; ${orders(both)} paid and put back on sale as well. One conditional update: ${units(guarded)}, ${n(guardedBoth)} with both; the money of ${orders(refunded)} came too late and is refunded.`,

  'lesson.12.title': 'Cache penetration, breakdown and avalanche',
  'lesson.12.text': [
    'The page of a sale is read a thousand times for each purchase, so it comes from memory. Three things can go wrong. Penetration: requests ask for ids that do not exist; nothing is cached, so each request reaches the database. Cache the miss too, and refuse ids above the newest one. Breakdown: the entry that all requests read expires, and a thousand requests read the row at once. Let one request read, and let the others wait for its result.',
    'Avalanche: hundreds of entries that were filled together expire together. Courses add a random part to the expiry. An entry in our shop lives for one second and is read again only when it is requested, by one request for all. If Postgres does not reply, the shop sends an entry of up to one minute ago, and marks it as stale.',
    'The stock in the cache is only for display, never for selling. No code that takes a unit reads the cache.',
  ],
  'lesson.12.ask': 'The entry that all requests read expires when 500 requests arrive. Without any protection, how many of them read the database?',
  'lesson.12.choices': ['One', 'Fewer than 100', '100 or more'],
  'lesson.12.shown': ({ all, flight, unknown, remembered, together, jitter }) =>
    `Reads of the database: ${n(all)}; with a single flight: ${n(flight)}. Unknown ids: ${n(unknown)}; with cached misses: ${n(remembered)}. Reads at the same time when all entries expire together: ${n(together)}; with a random expiry: ${n(jitter)}.`,
};
