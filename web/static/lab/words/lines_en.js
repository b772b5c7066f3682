// What the marked lines of each strategy do: one text for each marked part, in the order of the source.
export default {
  'strategy.read-then-write.lines': [
    'Reads the stock, lets time pass, and writes back a number that it worked out from the old one. Between the read and the write nothing keeps other buyers from reading the same number.',
  ],
  'strategy.mutex.lines': [
    'Waits for the lock of this process. The second process has another lock, so one buyer of each process may be inside.',
  ],
  'strategy.for-update.lines': [
    '`for update` locks the row (a pessimistic lock) until the transaction ends. Everything that follows, including the price lookup, happens while the other buyers wait; so writing back an old number is safe.',
  ],
  'strategy.optimistic.lines': [
    'Writes only if the version is still the one that was read. If no row has changed, another buyer was faster, and this buyer is refused at once.',
  ],
  'strategy.optimistic-retry.lines': [
    'Reads, thinks and writes with the version again and again, until the write succeeds or the stock is zero.',
  ],
  'strategy.guard.lines': [
    'One statement checks `stock > 0` and subtracts. If no row has changed, it is sold out. Nothing here asks who the buyer is.',
  ],
  'strategy.guard-window.lines': [
    'The same statement also checks the time window by the clock of the database, so the clock of a server does not matter.',
  ],
  'strategy.guard-unique.lines': [
    'The unique index: one order for each user, guaranteed by the database. This makes buying idempotent.',
    'The order first, then the unit, in one transaction. If the insert finds an order, no unit is taken; if no unit is left, the order is rolled back.',
  ],
  'strategy.advisory-lock.lines': [
    'Locks a number that stands for the sale, until the end of the transaction. Code that does not take this lock is not kept out.',
  ],
  'strategy.skip-locked.lines': [
    'Takes a unit that is neither sold nor locked by another transaction, and waits for none.',
    'No free unit found: locked ones may become free again, so it gives up only when none is left.',
  ],
  'strategy.buckets.lines': [
    'The bucket depends on the buyer and the sale alone, so both clicks of a buyer, at any server, go to the same one.',
    'The conditional update, on one bucket of sixteen. When it is empty the buyer is refused, whatever the other buckets have.',
  ],
  'strategy.serializable.lines': [
    'Tries again as long as the database reports a conflict (SQLSTATE 40001).',
    'Opens the transaction at the isolation level serializable. The rest is read-then-write.',
  ],
  'strategy.insert-only.lines': [
    'The number of the unit, and two unique indexes: one order per unit, one order per buyer.',
    'One statement reads the highest number, compares it with the stock and inserts the next one. If another buyer has just taken that number, it inserts nothing.',
  ],
  'strategy.redis-get-decr.lines': [
    '`GET`, a check, a pause, `DECR`: read-then-write in Redis. Each command is atomic, the four together are not.',
  ],
  'strategy.redis-decr.lines': [
    'Pre-decrements the stock, then inserts the order. If the insert meets a conflict, the unit that `DECR` took stays taken.',
  ],
  'strategy.list-pop.lines': [
    '`SADD` reports whether the buyer is new to the set: checked and written in one step, and before the token is taken.',
    '`LPOP` hands out each token once. No token is left: sold out. From here to the order the token is only in the memory of this process.',
  ],
  'strategy.redis-lock.lines': [
    'The distributed lock: polls `SET NX` with an expiry until it has the lock, and releases it with a script only if the token is still its own.',
    'The pause may be longer than the lock lives. The write does not check whether the lock is still held.',
  ],
  'strategy.lock-fencing.lines': [
    'The script takes the lock and a number that only rises.',
    'Announces the number and reads the stock in one statement. No holder with an older number can write from here on.',
    'The write names its number. If a newer holder has announced itself meanwhile, no row changes and the transaction rolls back.',
  ],
  'strategy.redis-oversupply.lines': [
    'Writes twice the stock into Redis, so units that are decremented for nothing do not run short.',
    'The last word: Postgres refuses the buyers whom Redis let through without a unit.',
  ],
  'strategy.refill-incr.lines': [
    'Puts the unit of a failed order back with `INCR`. If the counter is at -50, it is at -49 now, and no buyer gets through.',
    'Pre-decrements: each click lowers the counter by one, even a refused one.',
  ],
  'strategy.refill-set-one.lines': [
    'Puts the unit back with `SET 1`, whatever the counter was: two failed orders become one unit, and a counter at 12 loses eleven.',
  ],
  'strategy.refill-compare.lines': [
    'The script writes the new number only if the counter is still the one that was compared (compare and set).',
    'Reads the counter, asks Postgres for the true stock, and sets it; if the counter has changed meanwhile, from the beginning.',
  ],
  'strategy.lua.lines': [
    'The script: does the buyer already have a unit, is one left, remember the buyer, take the unit. Redis runs no other command in between.',
    'Runs the script. Only the reply 1 is a unit.',
  ],
  'strategy.lua-channel.lines': [
    'Puts the order into a queue in memory and promises the unit. If the process dies now, the promise is recorded nowhere.',
  ],
  'strategy.outbox.lines': [
    'The script of `lua`, and in the same step a message with the time at which the unit was taken.',
    'The line of the log, the order and the stock: all three or none.',
    'The check-back writes "not sold" unless the log has a line already. The first line is the truth; the script then removes the message and, if it was not sold, puts the unit back.',
  ],
  'strategy.shop.lines': [
    'The engine grants a ticket, which the same script has written to the journal: the buyer is only "queued". Then it waits for the result, which comes after the commit in Postgres.',
  ],
};
