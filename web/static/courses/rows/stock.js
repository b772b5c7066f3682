// Taking a unit. The rows are JSON: a test reads them too.
//
//   id     names the row in the URL    by    the courses that teach it
//   words  what courses call it        code  a file of the repository, and a name in it
//   also   words that are found and not shown; "A/guava" leads to the row with the filter of course A alone
//   see    lesson:<name>, race:<strategy>, exercise:<name>, page:<path>
//   run    commands for a terminal
// ours is one paragraph, and after a line break a second one: what a document does otherwise.
export default [
  {
    "id": "pre-decrement", "by": "ABDE",
    "words": ["预减库存", "Redis 预减", "Redis 预扣库存", "DECR", "decrement", "Lua", "Lua 脚本", "原子性", "RedisTemplate", "StringRedisTemplate", "超卖", "少卖", "pre-decrement", "pre-stock", "oversell", "预扣减"],
    "also": ["预扣减库存", "redis原子性操作", "boundValueOps", "StockCount", "库存量", "预加载库存", "减缓存库存", "B/increment", "promo_item_stock_", "缓存库存", "result > 0", "desr", "原子性递减", "库存容量", "预库存", "SECKILL_STOCK_COUNT", "desc方法", "原子减", "redis原子操作", "opsForValue", "库存量<0", "删除库存数据", "删除商品数据", "删除对应的库存信息", "临界值", "E/过滤请求", "库存数据不需要保证", "redisStock", "库存没了"],
    "zh": { "taught": "Redis 预减库存（DECR）", "ours": "一个 Lua 脚本在一步里查重复、查时间窗、扣库存，并写下流水；不是先 `DECR` 再补救。只用 `DECR` 会少卖：重复点击扣两件、只成一单。Redis 的数只用来挡人，卖不卖由 Postgres 决定，每 150 毫秒对账一次。\n畅购先 `GET` 再 `DECR`，扣到负数就删掉商品和库存两个 key：后来的点击读到空值，出错而不是售罄，退回来的一件也没有地方可加。慕课网要求扣完还大于 0，所以最后一件永远卖不掉。两种写法都可以在下面修好。" },
    "en": { "taught": "Pre-decrement of the stock in Redis (DECR)", "ours": "One Lua script looks for an earlier ticket, checks the window, takes the unit and writes the journal, in one step; nothing is decremented first and put right later. `DECR` alone leaves units unsold: a double click takes two and becomes one order. Redis only reduces the crowd. Postgres decides, and the two are compared every 150 ms.\nChanggou asks `GET` first and then `DECR`, and deletes the keys of item and stock once the number is negative: later clicks read nothing and end in an error instead of as sold out, and a unit that comes back has no number to go to. imooc wants more than 0 after the decrement, so the last unit is never sold. Both can be repaired below." },
    "code": [["seckill/gate/scripts/reserve.lua", "grants"], ["seckill/gate/gate.go", "Reserve"], ["seckill/lab/strategies/strategy_redis_decr.go", "Buy"], ["seckill/lab/strategies/strategy_lua.go", "Buy"]],
    "see": ["lesson:pre-stock", "race:redis-get-decr", "race:redis-decr", "exercise:a-get-decr", "exercise:b-last-unit", "lesson:tokens"],
    "run": ["./miaosha lab --stock 100 --strategies redis-get-decr,redis-decr,lua,shop"]
  },
  {
    "id": "sold-out-mark", "by": "DE",
    "words": ["内存标记", "本地标记", "库存售罄标记", "localOverMap", "ConcurrentHashMap", "fanout", "广播清标记", "sold-out mark", "memory mark", "售罄标识", "清除标记", "清除内存标记", "广播清除标记", "本地内存标记", "fanout exchange", "扇出交换机"],
    "also": ["本地标识", "本地标识优化", "本地标志", "STOCK_OVER_SIGN", "D/本地缓存", "取消本地标识", "本地标识交换机", "isOvermap", "内存标识", "卖空状态", "goodStockOverSign", "不走秒杀逻辑", "高性能", "多线程", "远程缓存", "D/count<0"],
    "zh": { "taught": "内存里的售罄标记，库存回来时通知所有服务器清除", "ours": "标记只活 50 毫秒（Redis 不可用时 250 毫秒），到期自己消失，所以没有什么要广播、要清除，也不会有一台服务器漏收消息而一直说售罄。有排队号或订单的买家不受标记影响，收到的是自己的结果。售罄之后的点击大多不到 Redis。课程用 `ConcurrentHashMap`（JDK 7 里是分段锁）存每个商品一个布尔；这里每场秒杀有自己的合并通道，标记是它里面的一个原子指针，读它不用锁，也就不用分段。\nmiaosha 笔记还在数据库减库存失败时往 Redis 写“已卖完”：没说什么时候清掉它，不清，未付款退回来的那件就卖不出去。" },
    "en": { "taught": "A sold-out mark in local memory, cleared on all servers when stock returns", "ours": "The mark lives for 50 ms (250 ms without Redis) and expires, so there is nothing to broadcast or clear, and no server can miss a message and keep saying sold out. A holder of a ticket or an order is not refused by it. Most clicks after the last unit never reach Redis. The course keeps a boolean for each product in a `ConcurrentHashMap` (segment locks in JDK 7); here each sale has its own lane with the mark in an atomic pointer, which is read without a lock, so there is nothing to divide into segments.\nThe miaosha notes also write a sold-out flag into Redis when the database refuses a unit: they do not say when it is cleared, and until then an unpaid unit that was returned is not sold." },
    "code": [["seckill/lane.go", "markSoldOut"], ["seckill/lane.go", "refuses"], ["seckill/direct.go", "markSoldOut"]],
    "see": ["exercise:d-local-mark", "lesson:limits"],
    "run": ["./miaosha bench --shape soldout --seconds 3", "go test -v -count 1 -run 'TestAUnitThatComesBackIsSoldByEveryProcess|TestHoldersAreNotRefusedAsSoldOut' ./seckill"]
  },
  {
    "id": "segment-locks", "by": "D",
    "words": ["分段锁", "分段库存", "库存分段", "分桶库存", "segment lock", "lock striping", "segmented stock"],
    "zh": { "taught": "分段锁：分成几段，每段一把锁", "ours": "课程说的是 `ConcurrentHashMap`：JDK 7 把表分成几段，每段一把锁，线程很少互相等（JDK 8 换成了 CAS 和桶头的锁）。库存也可以这样分段，可是进程里的锁只管自己的进程：两台服务器同时进了同一段，照样超卖。把段放进 Postgres，每段一行，就不超卖，但买家分到的那段空了就被拒绝，旁边的货没人买。本店不分段：合并通道把点击收成一批，一个脚本扣完，落库时一批只锁一次行，写几百单。" },
    "en": { "taught": "Segment locks: a lock for each part", "ours": "The course means `ConcurrentHashMap`: in JDK 7 it is a map in segments, each with a lock of its own, so that threads seldom wait for each other (JDK 8 has compare-and-swap and a lock for each bin). Stock can be divided like that, but a lock of the language belongs to one process, and two servers inside the same segment oversell. With a row of Postgres for each segment nothing oversells, but a buyer whose segment is empty is refused while units lie in the next one. This shop has no segments: a lane gathers clicks into a batch, one script takes their units, and a settle transaction locks the row once for hundreds of orders." },
    "code": [["seckill/lab/strategies/strategy_buckets.go", "Buy"], ["seckill/lab/strategies/strategy_mutex.go", "Buy"], ["seckill/lane.go", "runLane"], ["seckill/settle.go", "settle"]],
    "see": ["exercise:d-segment-locks", "lesson:buckets", "race:mutex"],
    "run": ["./miaosha lab --stock 180 --strategies guard-unique,buckets,shop"]
  },
  {
    "id": "once-per-user", "by": "ADE",
    "words": ["重复下单", "重复点击", "重复提交", "一人一单", "唯一索引", "幂等", "INCR", "userQueueCount", "防重复秒杀", "duplicate order", "once per user", "unique index", "idempotent", "防止重复提交", "重复排队", "恶意刷单", "duplicate submit"],
    "also": ["A/increment", "incrde", "preventRepeatCommit", "getSecKillOrderByUserNameAndGoodsId", "脏数据", "秒杀记录", "相同的订单号", "good_id", "秒杀单号", "3号用户", "第二个请求", "seckill_user_", "订单写入Redis"],
    "zh": { "taught": "同一用户只能买一次：INCR 计数、唯一索引", "ours": "三道，先便宜的：按钮点过就禁用；库存闸的 tickets 哈希记着每个用户的排队号，第二次点击拿到同一个；唯一索引 `(sale_id, user_id)` 是保证。畅购先 `INCR`（五分钟过期），再查订单表，所以五分钟后再点也会被订单表拒绝，只是有两个洞：订单还在消息队列里时，表里查不到，计数一过期就能再排一次；`INCR` 之后、`EXPIRE` 之前进程死了，这个用户就永远买不了。这里排队号和扣库存在同一个脚本里写下，和库存闸一起过期（结束一天后），两个洞都没有。\nmiaosha 笔记限一个用户对一件商品最多点 5 次；这里点几次都行，拿到的是同一个排队号，点得太快才是 429。" },
    "en": { "taught": "One order per user: INCR counter, unique index", "ours": "Three checks, the cheap ones first: the button is disabled after a click; the gate's tickets hash knows each user's ticket, so a second click receives the same one; the unique index on `(sale_id, user_id)` is the guarantee. Changgou asks `INCR` (five minutes) and then the orders table, so a click after five minutes is refused by the table too. Two holes remain: while the order is still in the message queue, the table does not have it, and once the counter has expired the user can queue again; and a process that dies between `INCR` and `EXPIRE` locks the user out for good. Here the script that takes the unit writes the ticket too, and the ticket expires with the gate, a day after the end, so neither hole exists.\nThe miaosha notes refuse a user after five clicks on an item; here every click receives the same ticket, and only too many in a second are a 429." },
    "code": [["schema.sql", "one_order_per_user_and_sale"], ["seckill/gate/scripts/reserve.lua", "HAS"], ["seckill/lane.go", "click"], ["seckill/lab/strategies/strategy_guard_unique.go", "Buy"]],
    "see": ["lesson:double-click", "race:guard", "exercise:a-incr-forever", "exercise:e-record-in-redis"],
    "run": ["./miaosha lab --strategies guard,guard-unique,shop --double-clicks 100"]
  },
  {
    "id": "one-transaction", "by": "ABCE",
    "words": ["减库存下单写入秒杀订单", "减库存", "stock > 0", "stock_count > 0", "@Transactional", "事务", "数据库事务", "unsigned", "超卖", "transaction", "guarded update", "conditional update"],
    "also": ["无符号", "updateStockCount", "更新库存", "createOrder", "decreaseStock", "affectedRow", "rollbackFor", "propagation", "REQUIRED", "扣库存", "saleStock", "number > 0", "reduceStock", "秒杀事务", "防超卖", "createOrderWithUserInfo", "miaosha_goods", "GoodsVo", "C/原子性", "ALTER TABLE", "添加一个事务", "handleCreateOrder", "ConsumeService"],
    "zh": { "taught": "一个事务：带条件的减库存（stock > 0）加下单", "ours": "一样，而且每个事务落库最多约 2,000 个排队号：锁一次秒杀的行，插入订单，一条 `update ... where stock > 0 and stock >= $2` 减库存，提交一次。后面还有检查约束 `stock between 0 and total` 和唯一索引，程序写错也超卖不了。\n只加 `@Transactional` 不防超卖：两个事务读到同一个库存，各自写回少一件的数；挡得住的是行锁、版本号，或写在 where 里的条件。畅购的方法在插入的结果是 0 行时只返回、不抛异常，事务照样提交，少了一件库存。" },
    "en": { "taught": "One transaction: conditional decrement (stock > 0) and the order", "ours": "The same, and one transaction settles up to about 2,000 tickets: lock the sale's row once, insert the orders, take the units with one `update ... where stock > 0 and stock >= $2`, commit once. Behind it stand the constraint `stock between 0 and total` and the unique index, so that a wrong program cannot oversell either.\nA transaction alone does not prevent overselling: two of them read the same stock, and each writes back one less. What does is a row lock, a version, or the condition in the where clause. Changgou's method returns without an exception if the insert reports 0 rows, so its transaction commits, and a unit is gone." },
    "code": [["goods/stock.go", "Take"], ["schema.sql", "stock_within_total"], ["seckill/settle.go", "settle"], ["order/place.go", "Place"]],
    "see": ["lesson:guard", "exercise:c-transaction", "lesson:double-click", "page:/lab.html#without", "race:guard-unique", "lesson:hold", "lesson:batch-size", "lesson:ledger"],
    "run": ["./miaosha lab --strategies read-then-write,guard,guard-unique", "go test -v -count 1 -run TestTwoHundredTakersOfFiftyUnitsGetExactlyFifty ./goods"]
  },
  {
    "id": "locks", "by": "BCE",
    "words": ["悲观锁", "乐观锁", "分布式锁", "synchronized", "ReentrantLock", "Lock", "AOP 锁", "select for update", "行锁", "version", "版本号", "CAS", "SETNX", "Redisson", "ZooKeeper 锁", "看门狗", "红锁", "CountDownLatch", "超卖", "pessimistic lock", "optimistic lock", "distributed lock", "mutex", "排它锁", "行级锁"],
    "also": ["库存行锁优化", "forupdate", "createWrongOrder", "createOptimisticOrder", "createPessimisticOrder", "checkStock", "checkStockForUpdate", "saleStockOptimistic", "updateByOptimistic", "锁表", "锁库存", "并发更新", "读写锁", "updateStockByOptimistic", "getStockByIdForUpdate", "性能下降", "事务锁", "排他锁", "锁冲突", "并发量下降", "C/购买失败", "forupdata", "updateStockById"],
    "zh": { "taught": "从不加锁到悲观锁、乐观锁、分布式锁的几种写法", "ours": "每一种都在实验室里，各有一个文件，同样的买家、同样的库存，结果在 Postgres 里数。进程内的锁（`synchronized`）在两台服务器上超卖；Redis 锁会在持有者停顿时过期；行锁正确但所有人排队；乐观锁不重试就少卖。本店一批只锁一次行。\n锁的系列文章答复的“剩余库存”是读到的数减一，`createOptimisticOrder` 把并发更新失败也答成“库存不足”；这里的剩余件数取自库存闸，只供显示。" },
    "en": { "taught": "No lock, pessimistic, optimistic and distributed locks", "ours": "Each is in the lab in a file of its own, with the same buyers and the same stock, and the result is counted in Postgres. A lock of the language (`synchronized`) oversells on two servers; a lock in Redis runs out while its holder pauses; a row lock is right and everyone waits; optimistic without retry leaves units unsold. This shop locks the row once for a whole batch.\nThe articles answer with the stock they have read minus one, and `createOptimisticOrder` answers a lost race with \"not enough stock\"; the units left here come from the gate and are for display only." },
    "code": [["seckill/lab/strategies/strategy_mutex.go", "Buy"], ["seckill/lab/strategies/strategy_for_update.go", "Buy"], ["seckill/lab/strategies/strategy_optimistic.go", "Buy"], ["seckill/lab/strategies/strategy_optimistic_retry.go", "Buy"], ["seckill/lab/strategies/strategy_redis_lock.go", "Buy"], ["goods/stock.go", "Lock"]],
    "see": ["exercise:c-transaction", "lesson:oversell", "race:read-then-write", "lesson:locks", "lesson:optimistic", "race:redis-lock", "lesson:fencing"],
    "run": ["./miaosha lab --strategies read-then-write,mutex,for-update,optimistic,optimistic-retry,redis-lock"]
  },
  {
    "id": "window-and-oversupply", "by": "E",
    "words": ["start_date", "时间条件写进 SQL", "Redis 多放库存", "库存放大", "少卖", "undersell", "oversupply", "window in the update", "killTime"],
    "also": ["start_time", "end_time", "E/少卖", "库存多一些"],
    "zh": { "taught": "把秒杀时间写进 update 的条件；Redis 里多放库存防少卖", "ours": "两种都是实验室的方案。本店由库存闸按 Redis 的时钟查时间窗，Redis 不可用时由 Postgres 在行锁下按自己的时钟查，不看服务器的时钟。不需要多放库存：白扣的件数对账时改回来。" },
    "en": { "taught": "The sale's window in the update's condition; more stock in Redis than there is, against unsold units", "ours": "Both are strategies of the lab. The gate checks the window by the clock of Redis; without Redis, Postgres checks it by its own clock under the row lock. A server's clock decides nothing. No surplus is needed: units that were taken for nothing are returned when the stores are compared." },
    "code": [["seckill/lab/strategies/strategy_guard_window.go", "Buy"], ["seckill/lab/strategies/strategy_redis_oversupply.go", "Prepare"], ["goods/stock.go", "Window"], ["seckill/gate/scripts/fix.lua", "stock"]],
    "see": ["lesson:guard", "race:redis-oversupply"],
    "run": ["./miaosha lab --stock 100 --strategies guard-window,redis-decr,redis-oversupply"]
  },
  {
    "id": "refill", "by": "BDE",
    "words": ["库存回补", "回补 Redis", "INCR 回补", "还原库存", "预减库存不一致", "补偿", "对账", "refill", "compensation", "reconcile", "对比", "SET 1"],
    "also": ["回补库存", "无法正确回补", "预库存回补", "不超卖", "少买", "D/少卖", "同步到预库存", "方案三", "方案一", "业务决定", "加回库存", "真实库存+1", "D/预库存+1", "设置成1", "查询真实库存"],
    "zh": { "taught": "下单失败时，把预减的库存补回 Redis（比较三种办法）", "ours": "`INCR` 加回去和 `SET 1` 在实验室里都少卖：被拒绝的点击已经把数减到零以下，两次失败也只写成一件。本店没有一段代码给库存闸里的数“加一”。对账每 150 毫秒读一次 Postgres 的真实库存，减去流水里的排队号，再用比较并设置（epoch 和 ops 没变才写）改对。\n少卖要不要管，课程说由业务决定。这里决定不少卖：还有人要，就没有一件剩着，`miaosha audit` 也查这一条；代价是每 150 毫秒一次对账。" },
    "en": { "taught": "Put the pre-decremented unit back into Redis when an order fails (three ways compared)", "ours": "`INCR` and `SET 1` leave units unsold in the lab: refused clicks have taken the number below zero, and two failures are written as one unit. Here no code adds one to the gate. Every 150 ms reconcile reads the true stock from Postgres, subtracts the tickets in the journal, and sets the gate by compare-and-set: only if epoch and ops are unchanged.\nWhether unsold units matter is the business's choice, the course says. This shop chooses that none stays while buyers want one, which `miaosha audit` checks too; the price is a comparison every 150 ms." },
    "code": [["seckill/gate/scripts/fix.lua", "ops"], ["seckill/reconcile.go", "fix"], ["seckill/diagnose.go", "diagnose"], ["seckill/lab/strategies/strategy_refill_incr.go", "Buy"], ["seckill/lab/strategies/strategy_refill_set_one.go", "Buy"], ["seckill/lab/strategies/strategy_refill_compare.go", "Buy"]],
    "see": ["lesson:refill", "race:refill-incr"],
    "run": ["./miaosha lab --stock 100 --strategies refill-incr,refill-set-one,refill-compare,shop", "go test -v -count 1 -run 'TestDiagnose|TestMovingGateIsFixedInOneTick' ./seckill"]
  }
];
