// The run of each lesson, and how its result answers the question. The texts are in
// words/lessons_*.js.
//
//   name     its name in the URL (#cache) and in the keys of its texts ('lesson.cache.title')
//   plan     the plan of a run, without its seed; or experiment, the name of an experiment
//   judge    takes the results by strategy, or the figures of an experiment by row, and returns
//            {right, ...figures}. right is the number of the choice that the run shows, or null;
//            the figures go into the text 'lesson.<name>.shown'
//   paced    the strategies, or the rows of an experiment, on whose times the answer depends: none if the machine was too busy for one
//   read     the strategy whose source is shown first
//   places   the code of the shop for this lesson: a file, and a name in it
const crowd = { buyers: 200, stock: 20, double_clicks: 0, faults: [], seconds: 10 };

// unlessLucky returns the choice that the result of a wrong strategy shows; null if the strategy did not go wrong this time.
const unlessLucky = (r, choice) => (r.lucky ? null : choice);

export const lessons = [
  {
    name: 'oversell',
    plan: { ...crowd, strategies: ['read-then-write'] },
    read: 'read-then-write',
    judge: ({ 'read-then-write': r }) => ({ right: unlessLucky(r, r.sold === r.stock ? 0 : r.sold < r.stock ? 1 : 2), sold: r.sold, stock: r.stock }),
    places: [['goods/stock.go', 'Take'], ['schema.sql', 'stock_within_total']],
  },
  {
    name: 'locks',
    plan: { ...crowd, strategies: ['mutex', 'for-update', 'advisory-lock', 'redis-lock'] },
    read: 'mutex',
    judge: ({ mutex, 'for-update': row, 'redis-lock': redis }) => ({ right: unlessLucky(mutex, mutex.oversold > 0 ? 1 : mutex.unsold > 0 ? 2 : 0),
      sold: mutex.sold, stock: mutex.stock, row: row.sold, rowSpeed: row.per_second, redis: redis.sold }),
    places: [['goods/stock.go', 'Lock'], ['seckill/settle.go', 'settle'], ['seckill/queue/queue.go', 'Next']],
  },
  {
    name: 'optimistic',
    plan: { ...crowd, strategies: ['optimistic', 'optimistic-retry'] },
    read: 'optimistic',
    judge: ({ optimistic: once, 'optimistic-retry': again }) => ({ right: unlessLucky(once, once.oversold > 0 ? 2 : once.unsold > 0 ? 1 : 0),
      sold: once.sold, unsold: once.unsold, retried: again.unsold, sql: again.sql_per_order }),
    places: [['seckill/gate/scripts/fix.lua', 'ops'], ['seckill/diagnose.go', 'diagnose']],
  },
  {
    name: 'guard',
    plan: { ...crowd, stock: 100, strategies: ['for-update', 'optimistic-retry', 'guard', 'guard-window', 'serializable'] },
    read: 'guard',
    paced: ['for-update', 'optimistic-retry', 'guard'],
    judge: ({ 'for-update': lock, 'optimistic-retry': retry, guard }) => {
      const figures = [lock.per_second, retry.per_second, guard.per_second];
      const [best, next] = [...figures].sort((a, b) => b - a);
      return { right: best < 1.05 * next ? null : figures.indexOf(best), lock: figures[0], retry: figures[1], guard: figures[2] };
    },
    places: [['goods/stock.go', 'Take'], ['order/expire.go', 'Cancel'], ['order/pay.go', 'capture']],
  },
  {
    name: 'double-click',
    plan: { ...crowd, stock: 100, double_clicks: 50, strategies: ['guard', 'guard-unique'] },
    read: 'guard-unique',
    judge: ({ guard, 'guard-unique': unique }) => ({ right: unlessLucky(guard, guard.oversold > 0 ? 2 : guard.duplicates > 0 ? 1 : 0),
      duplicates: guard.duplicates, withIndex: unique.duplicates }),
    places: [['schema.sql', 'one_order_per_user_and_sale'], ['order/place.go', 'Place'], ['seckill/gate/scripts/reserve.lua', 'HAS']],
  },
  {
    name: 'pre-stock',
    plan: { ...crowd, stock: 100, double_clicks: 50, strategies: ['redis-get-decr', 'redis-decr', 'redis-oversupply', 'lua'] },
    read: 'redis-decr',
    judge: ({ 'redis-decr': decr, lua }) => ({ right: unlessLucky(decr, decr.oversold > 0 ? 0 : decr.unsold > 0 ? 1 : 2),
      unsold: decr.unsold, oversold: decr.oversold, lua: lua.unsold }),
    places: [['seckill/gate/scripts/reserve.lua', 'grants'], ['seckill/gate/scripts/fix.lua', 'stock'], ['seckill/reconcile.go', 'tick']],
  },
  {
    name: 'refill',
    plan: { ...crowd, stock: 100, double_clicks: 50, strategies: ['refill-incr', 'refill-set-one', 'refill-compare'] },
    read: 'refill-incr',
    judge: ({ 'refill-incr': incr, 'refill-set-one': one, 'refill-compare': truth }) => ({
      right: truth.unsold > 0 || incr.unsold === 0 || one.unsold === 0 ? null : 2, stock: truth.stock,
      incr: incr.unsold, one: one.unsold, truth: truth.unsold }),
    places: [['seckill/reconcile.go', 'tick'], ['seckill/diagnose.go', 'diagnose'], ['seckill/gate/scripts/fix.lua', 'ops']],
  },
  {
    name: 'journal',
    plan: { ...crowd, stock: 100, faults: ['kill'], strategies: ['lua-channel', 'shop'] },
    read: 'lua-channel',
    judge: ({ 'lua-channel': channel, shop }) => ({ right: channel.lost === 0 ? null : shop.lost > 0 ? 2 : 1,
      channel: channel.lost, journal: shop.lost }),
    places: [['seckill/gate/scripts/reserve.lua', 'XADD'], ['seckill/reclaim.go', 'takeOver'], ['seckill/gate/scripts/ack.lua', 'XDEL'], ['order/place.go', 'Place']],
  },
  {
    name: 'batch',
    plan: { ...crowd, buyers: 2000, stock: 1000, strategies: ['guard-unique', 'skip-locked', 'shop'] },
    read: 'shop',
    judge: ({ 'guard-unique': one, shop }) => ({ right: shop.sql_per_order >= 2 ? 0 : shop.sql_per_order >= 0.5 ? 1 : 2,
      shopSql: shop.sql_per_order, oneSql: one.sql_per_order, shop: shop.per_second, one: one.per_second }),
    places: [['seckill/lane.go', 'runLane'], ['seckill/settle.go', 'settleUntilDone'], ['order/place.go', 'Place'], ['goods/stock.go', 'Take']],
  },
  {
    name: 'buckets',
    plan: { ...crowd, stock: 180, strategies: ['guard-unique', 'buckets'] },
    read: 'buckets',
    judge: ({ 'guard-unique': one, buckets }) => ({ right: unlessLucky(buckets, buckets.oversold > 0 ? 2 : buckets.unsold > 0 ? 1 : 0),
      unsold: buckets.unsold, speed: buckets.per_second, oneUnsold: one.unsold, oneSpeed: one.per_second }),
    places: [['goods/stock.go', 'Take'], ['seckill/settle.go', 'settleUntilDone']],
  },
  {
    name: 'tokens',
    plan: { ...crowd, stock: 100, double_clicks: 50, strategies: ['redis-decr', 'list-pop'] },
    read: 'list-pop',
    judge: ({ 'redis-decr': decr, 'list-pop': list }) => ({ right: list.oversold + list.duplicates > 0 ? 2 : list.unsold > 0 ? 0 : 1,
      stock: list.stock, decr: decr.unsold, list: list.unsold }),
    places: [['seckill/gate/scripts/reserve.lua', 'HAS'], ['seckill/gate/scripts/reserve.lua', 'grants']],
  },
  {
    name: 'outbox',
    plan: { ...crowd, stock: 100, double_clicks: 50, faults: ['kill'], strategies: ['list-pop', 'lua', 'outbox'] },
    read: 'outbox',
    judge: ({ 'list-pop': list, lua, outbox }) => ({ right: outbox.oversold > 0 ? 2 : outbox.unsold > 0 || list.unsold + lua.unsold === 0 ? null : 1,
      list: list.unsold, lua: lua.unsold, outbox: outbox.unsold, sql: outbox.sql_per_order }),
    places: [['seckill/reclaim.go', 'takeOver'], ['order/place.go', 'Place'], ['schema.sql', 'ticket_results'], ['seckill/settle.go', 'settleUntilDone']],
  },
  {
    name: 'fencing',
    plan: { ...crowd, buyers: 100, strategies: ['redis-lock', 'lock-fencing'] },
    read: 'lock-fencing',
    judge: ({ 'redis-lock': lock, 'lock-fencing': fenced }) => ({ right: fenced.oversold > 0 ? 0 : fenced.unsold > 0 ? 2 : 1,
      stock: fenced.stock, lock: lock.sold, fenced: fenced.sold, redis: fenced.redis_per_order, seconds: fenced.seconds }),
    places: [['seckill/gate/scripts/fix.lua', 'epoch'], ['goods/stock.go', 'NextEpoch']],
  },
  {
    name: 'ledger',
    plan: { ...crowd, stock: 200, strategies: ['guard-unique', 'insert-only'] },
    read: 'insert-only',
    judge: ({ 'guard-unique': guard, 'insert-only': ledger }) => {
      const times = ledger.sql_per_order / guard.sql_per_order;
      return { right: times < 0.8 ? 0 : times <= 1.25 ? 1 : 2, guard: guard.sql_per_order, ledger: ledger.sql_per_order,
        guardSpeed: guard.per_second, speed: ledger.per_second };
    },
    places: [['schema.sql', 'order_events_are_append_only'], ['schema.sql', 'order_history'], ['goods/stock.go', 'Take']],
  },
  {
    name: 'address',
    experiment: 'address',
    judge: ({ 'fixed address': fixed, 'random address kept in Redis': kept, 'signed address': signed }) => ({
      right: kept.redis === 0 ? 2 : signed.redis > 0 ? 0 : 1, tries: fixed.tries, fixedIn: fixed.let_in, bots: fixed.bots,
      keptIn: kept.let_in, kept: kept.redis, signedIn: signed.let_in, signed: signed.redis }),
    places: [['seckill/address/address.go', 'Verify'], ['seckill/captcha/captcha.go', 'check'], ['web/shop_purchase.go', 'buy']],
  },
  {
    name: 'limits',
    experiment: 'limits',
    judge: ({ 'no limit': none, 'a bucket per user': bucket, 'an address for everybody': all, 'the big gate': gate,
      'wait for a token': wait, 'wait for no token': refuse, 'wait for a token, 100 ms at most': bounded }) => ({
      right: none.bot > none.people ? 1 : 0, bot: none.bot, people: none.people, bucketBot: bucket.bot, bucketPeople: bucket.people,
      without: all.alive, alive: gate.alive, waiting: gate.waiting,
      kept: wait.kept, waitP99: wait.p99_ms, refused: refuse.refused, boundKept: bounded.kept, boundP99: bounded.p99_ms }),
    places: [['seckill/seckill.go', 'Admit'], ['web/desk.go', 'allow'], ['seckill/gate/scripts/path.lua', 'FULL']],
  },
  {
    name: 'late-payment',
    experiment: 'late-payment',
    judge: ({ 'select, then update': naive, 'one conditional update': guarded }) => ({
      right: naive.units === naive.orders ? null : naive.units > naive.orders ? 1 : 2, of: naive.orders, units: naive.units, both: naive.both, twice: naive.back_twice,
      guarded: guarded.units, guardedBoth: guarded.both, refunded: guarded.refunded }),
    places: [['order/expire.go', 'Expire'], ['order/pay.go', 'Capture'], ['order/provider.go', 'DrainRefunds'], ['seckill/reconcile.go', 'tick']],
  },
  {
    name: 'cache',
    experiment: 'cache',
    judge: (by) => {
      const all = by['hot id expires, everybody reads'].sql;
      return { right: all === 1 ? 0 : all < 100 ? 1 : 2, all, flight: by['hot id expires, single flight'].sql,
        unknown: by['unknown ids, misses not remembered'].sql, remembered: by['unknown ids, misses remembered'].sql,
        together: by['500 ids expire at once'].at_once, jitter: by['500 ids expire with jitter'].at_once,
        local: by['a read from the memory of the process'].read_us, redis: by['a read from Redis'].read_us, postgres: by['a read from Postgres by its key'].read_us };
    },
    places: [['goods/cache.go', 'Sale'], ['goods/cache.go', 'load']],
  },
  {
    name: 'cache-consistency',
    experiment: 'cache-consistency',
    judge: ({ 'delete, then write': first, 'write, then delete': after, 'delete twice': twice, 'short life': life }) => ({
      right: life.stays_old > 0 || twice.stays_old === 0 || after.stays_old === 0 || first.stays_old === 0 ? null : 3, first: first.stays_old, after: after.stays_old,
      twice: twice.stays_old, life: life.stays_old, firstStale: first.stale, afterStale: after.stale, lifeStale: life.stale, lifeLongest: life.longest_ms }),
    places: [['goods/cache.go', 'load'], ['goods/cache.go', 'Sale'], ['goods/stock.go', 'Take']],
  },
  {
    name: 'confirm',
    experiment: 'confirm',
    judge: (by) => {
      const none = by['no confirm'], each = by['a transaction for each message'], confirm = by['a confirm for each message'],
        batch = by['confirms in batches'], entry = by['one journal entry for a batch'], first = by['ack, then work'], after = by['work, then ack'];
      return { right: none.lost === 0 || each.lost + confirm.lost + batch.lost + entry.lost > 0 ? null : 1, lost: none.lost, of: none.messages,
        each: each.per_second, eachWait: each.p99_ms, confirm: confirm.per_second, confirmWait: confirm.p99_ms, batch: batch.per_second,
        batchWait: batch.p99_ms, entry: entry.per_second, entryWait: entry.p99_ms, twice: batch.twice, ackLost: first.lost,
        afterLost: after.lost, again: after.again, dead: after.dead };
    },
    places: [['seckill/gate/scripts/reserve.lua', 'XADD'], ['seckill/gate/scripts/ack.lua', 'XDEL'], ['seckill/reclaim.go', 'takeOver'], ['order/place.go', 'Place']],
  },
  {
    name: 'hot',
    experiment: 'hot',
    judge: ({ 'one queue without a bound': one, 'one queue with a bound': bounded, 'a lane for each item': lane }) => ({
      right: one.behind < 1 ? 0 : one.behind <= 10 ? 1 : 2, one: one.behind, lane: lane.behind, cold: bounded.cold, refused: bounded.cold_refused,
      laneRefused: lane.cold_refused, oneP99: one.cold_p99_ms, laneP99: lane.cold_p99_ms, oneHot: one.hot_per_s, laneHot: lane.hot_per_s }),
    places: [['seckill/lane.go', 'of'], ['seckill/queue/queue.go', 'Next'], ['seckill/hot/heat.go', 'judge']],
  },
  {
    name: 'load',
    experiment: 'load',
    paced: ['closed loop', 'open loop'],
    judge: ({ 'closed loop': closed, 'the same run, with the clicks that it left out': corrected, 'open loop': open }) => ({
      right: open.p99_ms < 150 ? null : closed.p99_ms > 200 ? 0 : closed.p99_ms > 50 ? 1 : 2, asked: closed.asked, closed: closed.p99_ms,
      closedLate: closed.late, longest: closed.longest_ms, corrected: corrected.p99_ms, open: open.p99_ms, openLate: open.late }),
    places: [['seckill/bench/worker.go', 'doStep'], ['seckill/bench/tally.go', 'latency']],
  },
  {
    name: 'batch-size',
    experiment: 'batch-size',
    paced: ['1 order in a transaction', '64 orders in a transaction'],
    judge: (by) => {
      const one = by['1 order in a transaction'], many = by['64 orders in a transaction'], most = by['512 orders in a transaction'];
      const gain = many.per_second / Math.max(1, one.per_second);
      return { right: gain < 2 ? 0 : gain <= 10 ? 1 : 2, one: one.per_second, eight: by['8 orders in a transaction'].per_second, many: many.per_second,
        most: most.per_second, turns: one.turns, mostTurns: most.turns, wait: one.p99_ms, mostWait: most.p99_ms };
    },
    places: [['seckill/queue/queue.go', 'Next'], ['seckill/settle.go', 'settle'], ['order/place.go', 'Place'], ['seckill/settle.go', 'decideHalves']],
  },
  {
    name: 'retries',
    experiment: 'retries',
    paced: ['retry at once, without a bound', 'backoff, jitter and a retry budget'],
    judge: ({ 'retry at once, without a bound': once, 'backoff and jitter, five tries': backoff, 'backoff, jitter and a retry budget': budget }) => ({
      right: budget.end_good < 50 ? null : once.end_good > 80 ? 0 : once.end_good > 20 ? 1 : 2, asked: once.asked, tries: once.tries, wasted: once.wasted,
      end: once.end_good, backoffTries: backoff.tries, backoffEnd: backoff.end_good, budgetTries: budget.tries, budgetGood: budget.good, budgetEnd: budget.end_good }),
    places: [['seckill/seckill.go', 'Admit'], ['seckill/lane.go', 'inTime'], ['web/errors.go', 'setRetryAfter'], ['seckill/gate/breaker.go', 'call']],
  },
  {
    name: 'little',
    experiment: 'little',
    paced: ['400 clicks a second, 40 ms each'],
    judge: ({ '400 clicks a second, 40 ms each': enough, 'the same with 8 connections': few }) => ({
      right: enough.inside < 8 || enough.inside > 28 ? null : 1, rate: enough.per_second, stay: enough.stay_ms, law: enough.law, inside: enough.inside,
      fewRate: few.per_second, fewStay: few.stay_ms, fewLaw: few.law, fewInside: few.inside }),
    places: [['seckill/seckill.go', 'Admit'], ['seckill/queue/queue.go', 'ClaimRoom'], ['seckill/lane.go', 'inTime']],
  },
  {
    name: 'fair',
    experiment: 'fair',
    paced: ['first come, first served'],
    judge: ({ 'first come, first served': first, 'a lot': lot, 'a lot, and each bot has ten accounts': many, 'the same, one entry for each phone': phone }) => ({
      right: first.bots > 40 ? 2 : first.bots > 18 ? 1 : 0, bots: first.bots, fast: first.fast, slow: first.slow, lotBots: lot.bots, lotFast: lot.fast,
      lotSlow: lot.slow, manyBots: many.bots, phoneBots: phone.bots }),
    places: [['seckill/address/lot.go', 'turn'], ['seckill/big_gate.go', 'admit'], ['web/desk.go', 'allow'], ['schema.sql', 'one_order_per_user_and_sale']],
  },
  {
    name: 'hold',
    experiment: 'hold',
    paced: ['look up before the transaction'],
    judge: ({ 'look up with the row locked': locked, 'look up in the transaction, before the write': inside, 'look up before the transaction': outside }) => {
      const gain = outside.per_second / Math.max(1, inside.per_second);
      return { right: gain < 1.1 ? 0 : gain <= 1.5 ? 1 : 2, locked: locked.per_second, inside: inside.per_second, outside: outside.per_second,
        lockedHeld: locked.held_ms, insideHeld: inside.held_ms, outsideHeld: outside.held_ms, insideWait: inside.wait_ms, outsideWait: outside.wait_ms };
    },
    places: [['seckill/settle.go', 'inTransaction'], ['order/place.go', 'Place'], ['seckill/settle.go', 'finish']],
  },
  {
    name: 'failover',
    experiment: 'failover',
    paced: ['asynchronous standby'],
    judge: ({ 'asynchronous standby': async, 'synchronous for 20 ms, then alone': half, 'synchronous standby': full }) => ({
      right: full.lost > 0 ? null : async.told > 200 ? 2 : async.told < 200 ? 1 : 0, told: async.told, lost: async.lost, halfTold: half.told,
      halfLost: half.lost, fullTold: full.told, fullLost: full.lost, wait: async.p99_ms, fullWait: full.p99_ms }),
    places: [['order/order.go', 'OfUser'], ['seckill/settle.go', 'settleUntilDone'], ['seckill/diagnose.go', 'diagnose']],
  },
  {
    name: 'backup',
    experiment: 'backup',
    paced: ['no other transaction', 'beside a backup (pg_dump)'],
    judge: ({ 'no other transaction': alone, 'beside a backup (pg_dump)': beside, 'after the backup, and a vacuum': after }) => ({
      right: alone.pages > 12 ? null : beside.pages > 12 ? 2 : beside.pages > 4 ? 1 : 0, alone: alone.pages, beside: beside.pages, after: after.pages,
      aloneKB: alone.table_kb, besideKB: beside.table_kb, aloneSpeed: alone.last_s, besideSpeed: beside.last_s }),
    places: [['goods/stock.go', 'Take'], ['goods/stock.go', 'Lock'], ['seckill/settle.go', 'settle']],
  },
];

// answerOf returns what judge says of a finished run, and null before that. {right: null, busy: true} is a run that the machine was too
// busy for.
export function answerOf(lesson, run) {
  if (!run || run.state !== 'done') return null;
  const by = Object.fromEntries(lesson.experiment ? run.data.rows.map((row) => [row.way, row]) : run.results.map((r) => [r.strategy, r]));
  if (lesson.paced?.some((name) => by[name]?.busy || by[name]?.verdict === 'busy')) return { right: null, busy: true };
  if (lesson.experiment) return lesson.judge(Object.fromEntries(run.data.rows.map((row) => [row.way, row.figures])));
  if (lesson.plan.strategies.some((name) => !by[name] || by[name].error)) return { right: null, busy: run.results.some((r) => r.slow && r.busy) };
  return lesson.judge(by);
}
