// The twelve lessons. `text` is paragraphs; what stands between backticks is code.
const n = (x) => Number(x).toLocaleString('en-GB', { maximumFractionDigits: x < 100 ? 1 : 0 });
const few = (x) => (x < 0.1 ? 'less than 0.1' : n(x));
const units = (x) => `${n(x)} ${x === 1 ? 'unit' : 'units'}`;
const orders = (x) => `${n(x)} ${x === 1 ? 'order' : 'orders'}`;

export default {
  'lesson.1.title': 'Oversell',
  'lesson.1.text': [
    'Almost every first flash sale is written like this: read the stock, see that it is above zero, write back one less, insert the order. Each statement is right. Together they are wrong, because time passes between the read and the write, and in that time somebody else reads the same number. Two buyers both read 1, both write 0, and both have an order. The database did what it was told. No log has an error.',
    'This is a lost update. It needs no slow server, only two requests at once, and a sale is nothing but requests at once. A constraint that keeps the stock from going below zero does not help: the stock is never below zero, it is only written down too seldom.',
    'In our shop no unit is taken that way. The condition stands inside the write. Run it, and then read the marked lines.',
  ],
  'lesson.1.ask': '200 buyers come at once for 20 units. How many orders will there be?',
  'lesson.1.choices': ['Exactly 20', 'Fewer than 20', 'More than 20'],
  'lesson.1.shown': ({ sold, stock }) => `There are ${units(stock)} and ${orders(sold)}.`,

  'lesson.2.title': 'Locks',
  'lesson.2.text': [
    'The first remedy that comes to mind: one at a time. Where the lock lives decides what it is worth. A mutex lives in one process. Two servers have two mutexes, and the race is back as soon as you add the second server, which is the day you need it.',
    'A lock in the database is seen by all: `select ... for update` holds the row until the transaction ends, an advisory lock holds a number of your choice. Both are right. Both make everybody wait for everybody, for as long as one round trip more than the work itself takes.',
    'A lock in Redis (`SET NX` with an expiry) is seen by all too, but it runs out. A holder that pauses for longer than the expiry wakes up believing that it still holds it. The shop does lock the sale\'s row, once for a whole batch, never once per buyer.',
  ],
  'lesson.2.ask': 'Two servers, each with a mutex around read-then-write. What will they do?',
  'lesson.2.choices': ['Sell exactly what there is: one at a time', 'Oversell: each has a lock of its own', 'Leave units unsold'],
  'lesson.2.shown': ({ sold, stock, row, rowSpeed, redis }) => `With a mutex in each of two servers: ${orders(sold)} for ${units(stock)}. With the row lock: ${n(row)}, at ${n(rowSpeed)} clicks a second. With the Redis lock, whose holder sometimes stands still: ${n(redis)}.`,

  'lesson.3.title': 'Optimistic',
  'lesson.3.text': [
    'Instead of keeping others out, let everybody read, and notice at the write that somebody was quicker: `update ... where version = $2`. The row has a version, each write raises it, and a write with an old version changes no row. Nothing is ever oversold, and nobody holds a lock while he thinks.',
    'But in a rush nearly everybody reads the same version. One wins; the others are told no, though most of the stock is still there. Courses often stop here, and the shop that copies them undersells: buyers go away empty-handed while units stay on the shelf. The loser has to try again, and a hundred losers trying again is a crowd of its own: each round one wins, and all the others did work for nothing.',
    'Where clashes are rare this is the best way there is. We use it for the gate: `fix` changes the stock in Redis only if epoch and ops are what they were.',
  ],
  'lesson.3.ask': 'With a version and no second try: what will 200 buyers leave of 20 units?',
  'lesson.3.choices': ['Nothing, all 20 are sold', 'Units, though buyers were turned away', 'Less than nothing: it oversells'],
  'lesson.3.shown': ({ sold, unsold, retried, sql }) => `Without a second try: ${orders(sold)}, ${units(unsold)} unsold. With one: ${n(retried)}, for ${n(sql)} SQL statements per order.`,

  'lesson.4.title': 'The guard',
  'lesson.4.text': [
    'Put the question into the write: `update ... set stock = stock - 1 where id = $1 and stock > 0`. One statement reads, decides and writes. Postgres locks the row for just that long, and who waited looks at the row as it is then, not as it was. The number of rows changed is the answer: 1, you have it; 0, sold out.',
    'There is nothing to get wrong between two steps, since there is one step. Nobody reads first, nobody tries again, and no lock is held across the network while your program thinks. The same holds for the window: put `clock_timestamp() >= starts_at and clock_timestamp() < ends_at` beside it and nobody buys early because his server\'s clock is fast.',
    'This line is what the shop rests on, whatever stands before it. Queues and caches make it fast. This makes it right. Cancelling and paying are guarded the same way.',
  ],
  'lesson.4.ask': 'All of these are right. Which one answers fastest on this machine?',
  'lesson.4.choices': ['The row lock (for update)', 'Optimistic with retry', 'The guarded update'],
  'lesson.4.shown': ({ lock, retry, guard }) => `Clicks answered a second: row lock ${n(lock)}, optimistic ${n(retry)}, guarded update ${n(guard)}. Differences of a few per cent are noise; run it again.`,

  'lesson.5.title': 'Double click',
  'lesson.5.text': [
    'The guard counts units. It doesn\'t know people. Someone who presses twice, or whose browser sends again after a lost answer, is two requests, and gets two units. Looking first whether he has an order is lesson 1 once more: both requests look, neither finds one.',
    'Only a unique index can say this for certain: `unique (sale_id, user_id)`. The second insert fails or, with `on conflict do nothing`, changes nothing. What matters then is that the order and the unit are one transaction. Take the unit, fail the insert, and forget to roll back, and a unit is gone that nobody bought.',
    'The shop asks three times, cheapest first: the dead button on the page, the tickets hash at the gate, the index. The first two save work. The index alone is the promise. A dead button stops nobody who has a script.',
  ],
  'lesson.5.ask': 'Every second buyer presses twice. What will the guarded update alone do?',
  'lesson.5.choices': ['Nothing bad, the stock is guarded', 'Sell some people two units', 'Sell more units than there are'],
  'lesson.5.shown': ({ duplicates, withIndex }) => `The guard alone made ${orders(duplicates)} beyond a buyer's first. With the unique index in the same transaction: ${n(withIndex)}.`,

  'lesson.6.title': 'Redis first',
  'lesson.6.text': [
    'A row in Postgres is changed by one at a time; Redis counts faster. So every course puts a counter before the database. `GET`, look, `DECR` is lesson 1 in a new place. `DECR` and look at what it gives is safe against overselling: the counter is one step.',
    'Now the units vanish instead. A double click takes two from the counter and makes one order. A buyer whose order fails, or whose server dies after `DECR`, has taken one for nothing. The counter says zero, the database still has units, everybody hears "sold out". Putting one back with `INCR` looks easy until the undo itself runs twice. Some teams load more into Redis than they have, and let the database refuse the rest.',
    'Ours asks who you are and takes the unit in one script, never gives one back, and lets a comparison with Postgres set the counter right a few times a second.',
  ],
  'lesson.6.ask': 'DECR first, then see whether he has bought already. Some press twice. What goes wrong?',
  'lesson.6.choices': ['It oversells', 'Units stay unsold', 'Nothing'],
  'lesson.6.shown': ({ unsold, oversold, lua }) => `DECR, check after: ${units(unsold)} unsold, ${n(oversold)} oversold. The script that checks first left ${n(lua)} unsold.`,

  'lesson.7.title': 'The journal',
  'lesson.7.text': [
    'A script in Redis takes the unit and answers in a moment; the order is written later, from a queue. A channel in memory is the nearest queue, and it works until the process ends: a deploy, a crash, the kernel short of memory. Whoever stood in it was told yes. His unit has gone from Redis, his order was never written, and nobody knows his name.',
    'So the promise has to be written down where it was made, in the same step. Our script adds an entry to a stream beside the stock, the journal. The queue in memory is then only a faster copy of it. What a dead process left is claimed by another after five seconds. An entry leaves the journal only when Postgres has committed.',
    'Settling twice must then be harmless, and is: every ticket\'s result is stored under its name, in the transaction that makes the order.',
  ],
  'lesson.7.ask': 'The process is killed in the middle. Who was told yes and gets nothing?',
  'lesson.7.choices': ['Nobody, with either way', 'Some of those in the channel; nobody with the journal', 'Some with either way'],
  'lesson.7.shown': ({ channel, journal }) => `Told yes and left without an order: ${n(channel)} with the channel, ${n(journal)} with the shop's journal.`,

  'lesson.8.title': 'Batches and the hot row',
  'lesson.8.text': [
    'All buyers of one sale want one row. However many connections you open, that row is changed by one transaction at a time, each waiting for the disk\'s word that the last has been kept. More connections only make the line longer. This is the hot row.',
    'You can split the row: one row per unit, and `skip locked` so that each takes another. It helps, and costs a row per unit. Or you can do more per turn. If a hundred buyers wait anyway, take the row once, insert a hundred orders in one statement, subtract a hundred, commit once.',
    'The shop does both ends this way. A lane gathers whoever waits, up to 256, into one script call. The pool then settles up to 2,000 tickets in one transaction. Nobody waits for a batch to fill: alone, you go alone. A batch only grows while the one before it is being worked on.',
  ],
  'lesson.8.ask': '2,000 buyers, 1,000 units. How many SQL statements does the shop need per order, those for the losers included?',
  'lesson.8.choices': ['Two or more, like everybody', 'About one', 'Less than a half'],
  'lesson.8.shown': ({ shopSql, oneSql, shop, one }) => `Statements per order: ${few(shopSql)} in the shop, ${few(oneSql)} with one order a transaction. Clicks answered a second: ${n(shop)} and ${n(one)}.`,

  'lesson.9.title': 'Hidden address and captcha',
  'lesson.9.text': [
    'If the address of the buy button is known before the opening, a script presses it first and ten thousand times. So the address is given out only inside the window, only to someone logged in, only after a small sum, and it is good for a minute. The sum keeps few programs out for good. What it does for certain is to spread people over seconds, since some count faster than others.',
    'The courses keep a random path in Redis and look it up at each click. Ours is signed: user, expiry and an HMAC over both, the sale and the session. To check it costs arithmetic and no question to anybody, so a flood of made-up addresses never reaches Redis. Nobody else can use yours, nor you in another sale.',
    'A sum dies with its first answer, right or wrong. Otherwise a program would simply guess on.',
  ],
  'lesson.9.ask': 'Bots try addresses that are not theirs. What does each try cost Redis?',
  'lesson.9.choices': ['One look, whichever kind of address', 'One look where addresses are kept in Redis, nothing where they are signed', 'Nothing, with either kind'],
  'lesson.9.shown': ({ tries, fixedIn, bots, keptIn, kept, signedIn, signed }) =>
    `${n(tries)} tries of the bots. At a fixed address ${n(fixedIn)} came in and took ${units(bots)}. Kept in Redis: ${n(keptIn)} came in, ${n(kept)} commands. Signed: ${n(signedIn)} came in, ${n(signed)} commands.`,

  'lesson.10.title': 'Limits and the big gate',
  'lesson.10.text': [
    'A hundred units, a million people: nearly all of the work is saying no. Say it early and cheaply. The shop asks in order of price: the form of the request, the address, "sold out a moment ago" (kept for 250 ms, so nothing has to be cleared when units return), the room for requests in flight, the session, the token buckets of user and network address. The user\'s bucket stops a script; the address\'s is wide, because a class or an office sits behind one.',
    'A bucket does not know how much there is to sell. The big gate does: at most five addresses are alive for each unit left, and never fewer than 64 may be. Who gets none is told to wait, and is told sold out when it is. So the crowd behind the gate stays in proportion to the stock.',
    'A full queue is an answer too: 503 with `Retry-After`. It never grows without bound, and never reads as "sold out".',
  ],
  'lesson.10.ask': '50 units, 200 people who ask once, and one bot that asks 1,000 times. Without a limit, who gets most?',
  'lesson.10.choices': ['The people: there are 200 of them', 'The bot: it asks more often'],
  'lesson.10.shown': ({ bot, people, bucketBot, bucketPeople, everybody, alive, waiting }) =>
    `Without a limit: bot ${n(bot)}, people ${n(people)}. With a bucket per user: bot ${n(bucketBot)}, people ${n(bucketPeople)}. Addresses alive: ${n(everybody)} without the big gate, ${n(alive)} with it, and ${n(waiting)} buyers told to wait.`,

  'lesson.11.title': 'Late payment',
  'lesson.11.text': [
    'A unit that is ordered and not paid for is kept from somebody who would have paid. After fifteen minutes the order is cancelled and the unit is on sale again, in Postgres and at the gate. Each of these steps is a place to mint units: cancel twice and give back twice, or let payment and expiry both win.',
    'Every change of an order is one conditional update. Expiry says `where status = \'pending\' and expires_at <= clock_timestamp()`, paying says the same with `>`, by the same clock, on the same row. One of them changes the row; the other finds nothing to change. The unit goes back in the transaction that cancelled, so twice is impossible.',
    'Money that arrives too late is not lost and does not revive the order: it is recorded as due back in the same transaction, and a worker returns it. At the gate nobody adds one. A comparison with Postgres sets its stock.',
  ],
  'lesson.11.ask': '200 orders run out just as their money arrives. "Select, then update": how many units are there afterwards, paid for or on sale?',
  'lesson.11.choices': ['200, as before', 'More than there ever were', 'Fewer'],
  'lesson.11.shown': ({ units: all, both, of, guarded, guardedBoth, refunded }) =>
    `Select, then update: ${units(all)} out of ${n(of)}; ${orders(both)} paid for and put back on sale as well. One conditional update: ${units(guarded)}, ${n(guardedBoth)} both; the money of ${n(refunded)} came too late and goes back.`,

  'lesson.12.title': 'Caches',
  'lesson.12.text': [
    'The page of a sale is read a thousand times for each purchase, so it comes from memory. Three things go wrong with that. Penetration: someone asks for ids that do not exist; nothing is cached, and each question reaches the database. Remember the "no" too, and refuse ids past the newest without a question. Breakdown: the entry everybody reads runs out, and a thousand requests read the row at once. Let one read, and the others wait for what it finds.',
    'Avalanche: hundreds of entries that were filled together run out together. The courses spread their ends. An entry of ours lives one second and is read anew only when somebody asks, by one for all; if Postgres doesn\'t answer, what is up to a minute old is served and marked.',
    'Cached stock is for looking at, never for selling. Nothing that takes a unit reads the cache.',
  ],
  'lesson.12.ask': 'The entry everybody reads runs out as 500 readers come. How many of them read the database, if nothing prevents it?',
  'lesson.12.choices': ['One', 'Fewer than 100', '100 or more'],
  'lesson.12.shown': ({ everybody, flight, unknown, remembered, together, jitter }) =>
    `Reads of the database: ${n(everybody)}, and ${n(flight)} with a single flight. Unknown ids: ${n(unknown)}, and ${n(remembered)} when the "no" is remembered. At one time, when all ends together: ${n(together)}, and ${n(jitter)} when the ends are spread.`,
};
