// 每种方案里标出来的几行做什么：每个标记部分一条，顺序和源码相同。
export default {
  'strategy.read-then-write.lines': [
    '读库存，过一会儿，再写回根据旧值算出的数。读和写之间，没有什么能阻止别的买家读到同一个数。',
  ],
  'strategy.mutex.lines': [
    '等本进程的锁。另一个进程有另一把锁，所以两个进程里可以各有一个买家同时进来。',
  ],
  'strategy.for-update.lines': [
    '`for update` 锁住这一行（悲观锁），直到事务结束。后面的一切，包括查价格，都在别的买家等待时进行，所以写回旧值算出的数也是安全的。',
  ],
  'strategy.optimistic.lines': [
    '版本号和读到的一样才写（乐观锁）。一行也没改到，说明有人抢先，这个买家马上被拒绝。',
  ],
  'strategy.optimistic-retry.lines': [
    '读、思考、带版本号写，一遍又一遍，直到写成功或者库存为零。',
  ],
  'strategy.guard.lines': [
    '一条语句既检查 `stock > 0` 又减一。一行也没改到就是售罄。这里没有一处问买家是谁。',
  ],
  'strategy.guard-window.lines': [
    '同一条语句还按数据库的时钟检查时间窗，所以服务器的时钟准不准都没有关系。',
  ],
  'strategy.guard-unique.lines': [
    '唯一索引：一人一单，由数据库保证。下单因此是幂等的。',
    '同一个事务里先写订单，再扣库存。插入时发现已有订单，就不扣；没有库存，订单就回滚。',
  ],
  'strategy.advisory-lock.lines': [
    '锁住一个代表这场秒杀的数字，直到事务结束。不拿这把锁的代码，它拦不住。',
  ],
  'strategy.skip-locked.lines': [
    '拿一件既没有卖出、也没有被别的事务锁住的，谁也不等。',
    '没找到空闲的：被锁住的可能会还回来，所以真的一件不剩才放弃。',
  ],
  'strategy.serializable.lines': [
    '只要数据库报告冲突（SQLSTATE 40001），就再试一次。',
    '用可串行化隔离级别开启事务。其余就是“先读后写”。',
  ],
  'strategy.redis-get-decr.lines': [
    '`GET`、检查、停顿、`DECR`：换到 Redis 里的“先读后写”。每条命令都是原子的，合在一起却不是。',
  ],
  'strategy.redis-decr.lines': [
    '先预减库存，再插入订单。插入时发生冲突，`DECR` 扣掉的那件就一直扣着。',
  ],
  'strategy.redis-lock.lines': [
    '分布式锁：不断用带过期时间的 `SET NX` 去抢，抢到为止；释放时用脚本核对，令牌还是自己的才删。',
    '停顿可能比锁的有效期还长，而写的时候没有检查锁是否还在手里。',
  ],
  'strategy.redis-oversupply.lines': [
    '往 Redis 里写两倍的库存，这样白扣掉的几件不会造成少卖。',
    '最后一道关：Redis 多放进来的买家，由 Postgres 拒绝。',
  ],
  'strategy.refill-incr.lines': [
    '订单失败，用 `INCR` 回补一件。如果计数器是 -50，现在是 -49，谁也进不来。',
    '预减库存：每点一次减一，被拒绝的点击也减。',
  ],
  'strategy.refill-set-one.lines': [
    '不管计数器原来是多少，一律用 `SET 1` 回补：两个失败的订单只回来一件；计数器是 12 时，反而丢掉十一件。',
  ],
  'strategy.refill-compare.lines': [
    '脚本只在计数器还是刚才比较的那个值时才写入新值（比较并设置，CAS）。',
    '读计数器，向 Postgres 查真实库存，再写进去；如果这期间计数器变了，就从头再来。',
  ],
  'strategy.lua.lines': [
    '脚本：买家是否已经有了，是否还有库存，记下买家，扣一件。中间 Redis 不执行任何别的命令。',
    '执行脚本。只有返回 1 才算抢到。',
  ],
  'strategy.lua-channel.lines': [
    '把订单放进内存队列，就说“抢到了”。如果进程这时死掉，这个承诺哪里都没有记录。',
  ],
  'strategy.shop.lines': [
    '引擎发出一个排队号，同一个脚本已经把它写进流水：买家只是“排队中”。然后等结果，结果在 Postgres 提交之后才有。',
  ],
};
