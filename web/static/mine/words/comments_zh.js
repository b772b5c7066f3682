// 实验室程序的注释，译成中文：键是注释的第一行，值是整段注释。源码见 seckill/lab/strategies/programs 和 seckill/lab/exercises。
export default {
  'comment.for-update with a lock on a number instead of a row. The program decides what the number means.': `和悲观锁一样，只是锁的不是一行，而是一个数字。这个数字代表什么，由程序自己约定。

正确，前提是凡是要改这份库存的程序都先拿同一把锁。要用事务级的锁（..._xact_...）：
它到提交时才放，不会更早。代价和悲观锁相同。`,
  'comment.The stock is divided over up to sixteen rows, and a buyer belongs to the one that their hash names.': `库存分到最多十六行里，买家的哈希决定他属于哪一行。
十六个事务可以同时进行：没有热点行。

不会超卖，但仍然是错的：会少卖。一个桶空了，就拒绝属于它的买家，
而别的桶还有货，却没有人来。人多时看不出来：每个桶都够人抢。`,
  'comment.A pessimistic lock: the transaction locks the row when it reads it, and all others wait for its end.': `悲观锁：事务读这一行时就把它锁住，其余的人都等到它结束。

正确，多少个进程都一样，因为锁和库存在同一个地方。查已有的订单也在同一把锁里。
代价：所有买家排成一列，每人占着一个连接，而最前面的人正在查价格。`,
  'comment.The guard and a unique index in one transaction: a unit and its order, both or neither, and at most': `带条件的更新，加唯一索引，放在一个事务里：扣一件、下一单，要么都成，要么都不成，
而且每个买家最多一单。如果只记住一个程序，就记住这一个。

先下单，最后扣库存。这样大家都要的那一行只锁一条语句加一次提交，
同一个买家的第二次点击则在唯一索引那里等第一次。`,
  'comment.guard with the window of the sale in the same condition. The database\'s clock decides for all': `带条件的更新，再把开抢和结束时间写进同一个条件。在写入的那一刻，由数据库的时钟替所有进程决定。
要用 clock_timestamp()：now() 是事务开始的时间，而事务可能等这一行等了一会儿。

不会早卖、晚卖，也不会多卖。连点两下仍然得到两个订单：见“带条件的更新加唯一索引”。`,
  'comment.The check is inside the write: take a unit only if there is one. If no row changes, it is sold out.': `检查写在更新里：有货才扣一件。一行也没改到，就是售罄。

不会超卖，多少个进程都一样：数据库在一条语句里锁住这一行，读，再写。
另有两处错：连点两下的买家得到两个订单；进程死在两条语句之间，就丢了一件货。
“带条件的更新加唯一索引”两处都解决了。`,
  'comment.No stock is updated. Each sale is a row with the number of its unit, and a unique index refuses a': `不更新库存。每卖一件就插入一行，写上是第几件，唯一索引拒绝重复的编号。
两个买家可能读到同一个最大编号，那么其中一个要重试。

正确，进程死了也一样：一条语句里读、比、写。没有热点行，但所有买家要的是同一个下一号。
看看每单用了几条语句。`,
  'comment.A token for each unit in a Redis list. LPOP hands out each token once. SADD reports 1 to the first': `每件货在 Redis 列表里有一个令牌，LPOP 把每个令牌只发一次。SADD 只对买家的第一次点击返回 1，
而且放在最前面：连点两下不会多拿令牌。

人再多也正确，不用脚本。进程死在 LPOP 之后，令牌就跟着没了，
集合又永远拒绝那些买家：会少卖。加上故障“运行中杀掉一台服务器”试一试。`,
  'comment.A lock in Redis that comes with a number that only rises (a fencing token). A holder announces its': `Redis 里的锁，附带一个只增不减的编号（防护令牌，fencing token）。拿到锁的人在读库存的语句里报上编号，
写的时候再报一次。编号不是最新的，Postgres 就拒绝写入。

正确，拿锁的人停顿得比锁的有效期还长也一样。只在写的时候比较是不够的：
两个人可能都读到 20，然后先后写回 19。`,
  'comment.lua without waiting for Postgres: the buyer is promised a unit at once, and the order is written later.': `和 Lua 脚本一样，但不等 Postgres：立刻对买家说“抢到了”，订单以后再写。

快，没有进程死掉时也准确。有进程死掉就错了：它的队列丢了，那些买家已被告知抢到了，订单也丢了。
拿走一件货的脚本必须同时记下欠谁一单，好让别的进程接着写。`,
  'comment.Redis checks and takes in one step: a script runs alone, from its first line to its last.': `Redis 一步完成检查和扣减：脚本从第一行到最后一行，中间不会插进别的命令。

人再多也正确。剩下的是从 Redis 到 Postgres 这一步：进程死在两者之间，拿走的那件货谁也没得到，
脚本又把下一次点击当成重复而拒绝。不会超卖，也不会丢订单，但会少卖。加上故障“运行中杀掉一台服务器”试一试。`,
  'comment.Read and write under a lock of the process: synchronized in Java, sync.Mutex in Go.': `在进程内的锁里读和写：Java 的 synchronized，Go 的 sync.Mutex。

一个进程时正确，两个进程就错：每个进程有自己的锁，拦不住另一个进程里的买家。
就算正确，买家也只能一个接一个。`,
  'comment.optimistic with a loop: a buyer who loses reads and tries again.': `乐观锁加一个循环：没写成的买家再读、再试。

正确：同一个版本的所有尝试里总有一个成功，所以每一轮卖出一件，循环一定会结束。
代价是白做的工作，抢得最凶时白做得最多。看看每单用了几条语句。`,
  'comment.No lock: remember the version that was read, and write only if it is still the same.': `不加锁：记住读到的版本号，写的时候版本没变才写。

不会超卖，但仍然是错的：会少卖。读到同一个版本的买家里只有一个买到，
其余的都被告知没抢到，尽管还有货。`,
  'comment.The script that takes a unit in Redis leaves a message there. The order and a line of the stock log': `在 Redis 里拿走一件货的脚本，同时在那里留下一条消息。订单和库存流水表里的一行在同一个事务里写。
一直留着的消息，来自一个慢的或已经死掉的进程：回查去流水表里找，没有这一行就让货重新开售，
并且自己写上一行，让迟到的那个写不成。

正确，进程死了也一样：它的货 30 毫秒后重新开售。这里由被拒绝的买家来做回查，
只要 Postgres 里还有货，他就再点一次。`,
  'comment.Read the number of units; if there is one, write back one less. Most people write this first.': `读出件数；有货就写回减一的数。大多数人的第一版就是这样写的。

错：会超卖。读和写之间，别的买家读到同一个数。大家写回同一个减一的数，
每人一个订单。每条语句单独看都对，只有一个买家的测试也能通过。`,
  'comment.Decrement first and look at the result. A unique index in Postgres prevents a second order.': `先减，再看结果。Postgres 里的唯一索引防止第二个订单。

不会超卖，但仍然是错的：会少卖。连点两下从 Redis 拿走两件，直到插入订单时才发现这个买家已经有了。
“那就用 INCR 放回去”是接下来的想法：见“库存回补：INCR”。要在拿走之前、在同一步里发现重复：见“Lua 脚本”。`,
  'comment.The stock is counted in Redis, which is faster, and still read before it is written.': `库存数在 Redis 里，更快，但仍然是先读后写。

错：和“先读后写”一样会超卖。Redis 一次只执行一条命令，保护的是每一条命令，
不是两条命令之间的时间。`,
  'comment.A lock for all processes: a key in Redis that only one can set. It expires, so that a dead holder': `所有进程共用的锁：Redis 里一个只有一方能写入的键。它会过期，免得拿锁的人死了，整个店都卡住；
它带一个随机值，免得有人放掉别人的锁。

错：偶尔会超卖。拿锁的人停顿得比锁的有效期还长，锁就没了，而他不知道。
别的买家买走了，然后他写回自己的旧结果。办法是在写的时候检查：由 Postgres 来比较版本号或防护令牌。`,
  'comment.Twice as many units in Redis as there are. Some shops do it by accident, some on purpose.': `Redis 里的件数是实际的两倍。有的店是不小心，有的店是故意的。

正确，因为由 Postgres 决定：通过 Redis 的买家还要过“带条件的更新加唯一索引”那个事务。
一个存储负责减少人数，可以不准；另一个负责决定，必须准。Redis 里的数偏大，只是多做些事；偏小就会少卖。`,
  'comment.An order fails after DECR: ask Postgres what is left, and set the pre-stock to that, if the counter is': `DECR 之后下单失败：问 Postgres 还剩几件，如果计数器还是问之前的那个值，就把预减库存改成这个数（先比较再写）。

正确：只用真实的数来回补。正在写的订单对应的货也算作剩余，所以计数器可能一时偏大。
那时由带条件的更新拒绝一些买家，只费一点工夫，不会多卖一件。`,
  'comment.An order fails after DECR: put the unit back into the pre-stock with INCR.': `DECR 之后下单失败：用 INCR 把这一件放回预减库存。

错：会少卖。每个被拒绝的买家也减过一次，所以下单失败时计数器不在零上。
它在 -500，INCR 之后是 -499，下一个买家照样被拒绝。`,
  'comment.An order fails after DECR: one unit came back, so set the pre-stock to 1.': `DECR 之后下单失败：回来了一件，所以把预减库存设成 1。

错：会少卖。下一个买家来之前失败了两单，第二个 SET 写的还是同一个 1。
如果失败时计数器是 12，SET 一下子让十一件货退出了销售。`,
  'comment.read-then-write in transactions that behave as if they ran one after the other. If no such order': `还是先读后写，但事务的效果等于一个接一个地执行。如果不存在这样的先后次序，
数据库就用 SQLSTATE 40001 中止其中一个，让它重来。

正确，而且不需要自己找出竞态在哪里。代价和“乐观锁加重试”相同，还要再多一点，
并且所有写这张表的程序都必须用这个隔离级别。`,
  'comment.One row for each unit, as a cinema has one for each seat. A buyer takes the first free row that no': `每件货一行，就像电影院每个座位一行。买家拿第一个没有被别的事务锁住的空行，谁也不等谁。

陷阱：找不到行，不等于售罄。最后几行可能正被要回滚的事务锁着，比如第二次点击。
所以拒绝之前再问一次，这次不跳过。`,
  'comment.A pessimistic lock: a buyer who reads the row locks it, and all others wait in line.': `悲观锁：读这一行的买家把它锁住，其余的人排队等。
正确，但是慢：别人在等，最前面的人正在查价格。`,
  'comment.The guard and a unique index in one transaction: a unit and its order, both or neither.': `带条件的更新加唯一索引，放在一个事务里：扣一件、下一单，要么都成，要么都不成。`,
  'comment.The check is inside the write. It never oversells.': `检查写在更新里。不会超卖。
错：连点两下的买家得到两个订单；进程死在两条语句之间，就丢了一件货。`,
  'comment.Look at the stock first, take a unit afterwards.': `先看库存，再拿一件。
错：会超卖。两条语句之间，别的买家也看过了，库存会减到零以下。`,
  'comment.the buyer has an order': '这个买家已经有订单了',
  'comment.while all other buyers wait': '其余的买家都在等',
  'comment.before the transaction, while no one waits': '在事务之前，没有人等',
  'comment.false rolls back': '返回 false 就回滚',
  'comment.the buyer has clicked before': '这个买家点过了',
  'comment.sold out': '售罄',
  'comment.once; stands for a garbage collection': '只停一次，代表一次垃圾回收',
  'comment.the lock expires, and the holder does not know': '锁过期了，拿锁的人不知道',
  'comment.a yes that is not written anywhere': '说了“抢到了”，却哪里也没有记下',
  'comment.sold out, or a repeat': '售罄，或者是重复点击',
  'comment.the other process has another lock': '另一个进程有另一把锁',
  'comment.another buyer was faster': '别的买家更快',
  'comment.meanwhile other buyers read the same stock': '这段时间里，别的买家读到同一个库存',
  'comment.on a conflict the buyer has an order, and the second unit is lost': '有冲突说明买家已经有订单，第二件就这样丢了',
  'comment.stands for a garbage collection; real ones are too rare to wait for': '代表一次垃圾回收；真的太少见，等不到',
  'comment.the first order of one buyer in three: a deadlock, a full disk, a time limit': '每三个买家里有一个，第一次下单失败：死锁、磁盘满、超时',
  'comment.the other click of a double click is at work': '重复点击的另一次正在处理',
  'comment.the buyer clicks again': '买家会再点一次',
  'comment.the index refuses a second order': '唯一索引拒绝第二个订单',
  'comment.until the transactions that lock the last units have ended': '直到锁着最后几件货的事务结束',
  'comment.look up the price, the address, the coupons': '查价格、地址、优惠券',
  'comment.a free seat is locked: wait for what becomes of it': '有空座位被锁着：等它的结果',
  'comment.the buyer has an order; the unit was not taken': '这个买家已经有订单了；这一件没有被拿走',
  'comment.so that a second try finds the first': '让重试能发现第一次已经成了',
  'comment.each process finds out on its own': '每个进程自己发现',
  'comment.wait here, without a connection': '在这里等，不占连接',
  'comment.the buyer holds a ticket': '这个买家已经有排队号',
  'comment.no order: the unit goes back': '没有下单：这一件放回去',
  'comment.Redis is down: sell without it': 'Redis 连不上：不靠它也要卖',
  'comment.with Redis or without it, Postgres decides': '有没有 Redis，都由 Postgres 决定',
  'comment.also if the order was gone: an earlier try may have ended before this line': '订单已经没了也要做：上一次可能没走到这一行',
  'comment.the journal: this order is due': '流水：还欠这一单',
  'comment.only when the order is there': '订单写好了才删',
  'comment.what a dead process has left': '死掉的进程留下的',
  'comment.the journal has it': '流水里记下了',
  'comment.one writer in each process': '每个进程一个写入者',
  'comment.sold out: the goods leave the cache': '售罄：商品移出缓存',
  'comment.and the counter stays': '计数器留着',
  'comment.kept until the ack': '留到收到 ack 为止',
  'comment.a nack, or no answer: send it again': '收到 nack，或者没有答复：重发',
  'comment.the ack, by hand': '手动 ack',
  'comment.what has no ack is delivered again': '没有 ack 的再投递一次',
  'comment.the first delivery': '第一次投递',
  'comment.sent in the background; the confirm comes later': '在后台发送，confirm 以后才到',
  'comment.its reply is the confirm': '它的返回就是 confirm',
  'comment.a repeat': '重复点击',
  'comment.the second check': '第二道检查',
  'comment.the message: Postgres hears of the unit later': '消息：Postgres 里的库存以后再扣',
  'comment.not enough: the unit goes back': '不够：这一件放回去',
  'comment.the last unit leaves 0': '扣掉最后一件，剩 0',
  'comment.stock_log.status: 1 open, 2 done, 3 rolled back. key("half") has the half messages, which are not decided yet.': `stock_log.status：1 待定，2 完成，3 回滚。key("half") 里是半消息，还没有定下来。`,
  'comment.how many may come back': '可能退回来几件',
  'comment.the broker asks what has become of each half message': '消息服务器回查：每条半消息后来怎样了',
  'comment.1 is UNKNOW: the broker asks again': '1 就是 UNKNOW：以后再问',
  'comment.COMMIT': '提交消息（COMMIT）',
  'comment.a unit may come back': '可能有库存退回来',
  'comment.the check-back has closed the line': '这一行已被回查关掉',
  'comment.the writer looks once more': '写入者会再看一遍',
  'comment.sell one unit to user: return true, or false when there is none': '卖给 user 一件：卖了返回 true，没有货返回 false',
  'comment.Is the sale open?': '秒杀在进行中吗？',
  'comment.The first request of a purchase asks for the address.': '一次购买的第一个请求：取地址。',
  'comment.The second one buys with the address.': '第二个请求：用地址下单。',
  'comment.The second one buys with the address. It lets a request in, and the writes decide.': '第二个请求：用地址下单。地址只放人进来，卖不卖由写操作决定。',
  'comment.Counts a visit, and returns how many there were.': '记一次访问，返回一共几次。',
  'comment.Counts the visits of this minute, and returns how many there were.': '数这一分钟里的访问，返回一共几次。',
  'comment.one purchase for each user': '每个用户买一次',
  'comment.spares Postgres most second clicks': '替 Postgres 挡住大多数第二次点击',
  'comment.the mark, in the memory of this process': '标记，在这个进程的内存里',
  'comment.the mark, in the memory of this process: so many clicks are refused, and then Redis is asked again': '标记，在这个进程的内存里：再拒绝几次点击，就重新问 Redis',
  'comment.spares Redis the question': '不用再问 Redis',
  'comment.The unit goes back to Postgres, and then to Redis.': '这一件先还给 Postgres，再还给 Redis。',
  'comment.no other click of this process is in the segment': '这个进程里没有别的点击在这一段里',
  'comment.no other click of any process is in the script': '哪个进程的点击都不会同时在脚本里',
  'comment.the buyer\'s own segment first, and then the others': '先看买家自己的那一段，再看别的段',
  'comment.The unit is taken at the order.': '下单时扣库存。',
  'comment.The payment deadline has passed: the order is closed.': '已过付款截止时间：关闭订单。',
  'comment.The payment deadline has passed: the order is closed, and its unit goes back.': '已过付款截止时间：关闭订单，那一件退回去。',
  'comment.orders that wait for their payment': '等待付款的订单',
  'comment.The unit is taken at the payment, which comes after the answer.': '付款时扣库存，付款在答复之后。',
  'comment.The unit is taken at the order. The payment comes after the answer.': '下单时扣库存，付款在答复之后。',
  'comment.it is shipped': '发货',
  'comment.the consumer of the queue': '消息队列的消费者',
  'comment.has bought': '买过了',
  'comment.the record of the purchase': '秒杀记录',
};
