// 各课的文字。text 是段落，反引号里的显示为代码。
const n = (x) => Number(x).toLocaleString('zh-CN', { maximumFractionDigits: x < 100 ? 1 : 0 });
const few = (x) => (x < 0.1 ? '不到 0.1' : n(x));

export default {
  'lesson.oversell.title': '超卖',
  'lesson.oversell.text': [
    '几乎每个人写的第一个秒杀都是这样：读库存，检查大于零，写回减一的数，插入订单。每条语句都对，合在一起就错了，因为读和写之间隔着时间，这段时间里另一个买家读到了同一个数。两个买家都读到 1，都写回 0，都得到订单。数据库只是照办，日志里没有错误。',
    '这叫丢失更新。它不需要服务器慢，只需要两个请求同时到达，而秒杀就是大量同时到达的请求。加一条“库存不小于零”的约束也没有用：库存从来没有小于零，只是少减了几次。',
    '本店从不这样扣库存：条件写在更新语句里面。先运行，再读标出来的那几行。',
  ],
  'lesson.oversell.taught': ['超卖', '丢失更新', '库存扣减'],
  'lesson.oversell.ask': '200 个买家同时抢 20 件，会有多少订单？',
  'lesson.oversell.choices': ['正好 20', '不到 20', '超过 20'],
  'lesson.oversell.shown': ({ sold, stock }) => `库存 ${n(stock)} 件，订单 ${n(sold)} 个。`,

  'lesson.locks.title': '锁',
  'lesson.locks.text': [
    '对付竞态最先想到的办法：一次只让一个买家进来。这取决于锁在哪里。互斥锁在一个进程里；两台服务器就有两把互斥锁，所以加上第二台服务器的那天竞态又回来了，而那天正是最需要锁的时候。',
    '数据库里的锁所有服务器都看得见：`select ... for update` 把这一行锁到事务结束，咨询锁锁住你选的一个数字。两种都正确，但都让买家一个等一个，而且每一轮都要多一次网络往返。',
    'Redis 里的锁（`SET NX` 加过期时间）所有服务器也看得见，但它会过期。持有者停顿的时间比过期时间长，醒来时仍以为自己拿着锁。本店也锁秒杀那一行，但一整批只锁一次，绝不为每个买家锁一次。',
  ],
  'lesson.locks.taught': ['悲观锁', '分布式锁', 'synchronized', 'Redisson'],
  'lesson.locks.ask': '两台服务器，各自用互斥锁包住“先读后写”，会怎样？',
  'lesson.locks.choices': ['卖得正好：一次一个买家', '超卖：各有各的锁', '少卖'],
  'lesson.locks.shown': ({ sold, stock, row, rowSpeed, redis }) => `库存 ${n(stock)} 件。两台服务器各一把互斥锁：订单 ${n(sold)} 个。行锁：${n(row)} 个，每秒答复 ${n(rowSpeed)} 次点击。Redis 锁，持有者有时停顿：${n(redis)} 个。`,

  'lesson.optimistic.title': '乐观锁',
  'lesson.optimistic.text': [
    '不拦着别的买家：谁都可以读，写的时候再看有没有人抢先：`update ... where version = $2`。每行有一个版本号，每次写都加一，用旧版本来写就一行也改不动。它绝不超卖，程序思考的时候也不占着锁。',
    '但在抢购里，几乎所有买家读到的是同一个版本。一个成功，其余的都被拒绝，而大部分库存还在。课程常常讲到这里为止，照抄的店就会少卖：买家没有买到，货却有剩余。所以失败的请求必须重试，而一百个重试的请求又是一次拥挤：每轮只有一个成功，其余的都做了无用功。',
    '冲突少的地方，这是最好的办法。本店把它用在 Redis 的库存上：脚本 `fix` 只在 epoch 和 ops 没变时才修改。',
  ],
  'lesson.optimistic.taught': ['乐观锁', '版本号', 'CAS'],
  'lesson.optimistic.ask': '用版本号、不重试：200 个买家抢 20 件，会剩下什么？',
  'lesson.optimistic.choices': ['不剩，20 件全部卖完', '有剩余，明明有买家被拒绝', '反而超卖'],
  'lesson.optimistic.shown': ({ sold, unsold, retried, sql }) => `不重试：订单 ${n(sold)} 个，少卖 ${n(unsold)} 件。重试：少卖 ${n(retried)} 件，每单 ${n(sql)} 条 SQL。`,

  'lesson.guard.title': '带条件的更新',
  'lesson.guard.text': [
    '把问题写进更新里：`update ... set stock = stock - 1 where id = $1 and stock > 0`。一条语句又读、又判断、又写。Postgres 只在这段时间锁住这一行，等待的事务轮到时看到的是当前的值，不是到达时的值。改了几行就是答案：1 是成功，0 是售罄。',
    '两步之间出不了错，因为只有一步。没有买家先读，没有买家重试，也没有锁隔着网络等你的程序思考。时间窗也一样：旁边再写上 `clock_timestamp() >= starts_at and clock_timestamp() < ends_at`，就不会有买家因为某台服务器的时钟快而提前买到。',
    '不管前面有什么，这一行是整个店的基础。它只数件数，一人一单要靠下一课的唯一索引。队列和缓存让店快，这一行让店正确。取消和付款也是这样写的。',
  ],
  'lesson.guard.taught': ['原子扣减', '行锁'],
  'lesson.guard.ask': '没有人重复点击时，这几种都卖得正好。在这台机器上哪种最快？',
  'lesson.guard.choices': ['行锁（for update）', '乐观锁加重试', '带条件的更新'],
  'lesson.guard.shown': ({ lock, retry, guard }) => `每秒答复的点击数：行锁 ${n(lock)}，乐观锁 ${n(retry)}，带条件的更新 ${n(guard)}。相差百分之几只是波动，请再运行一次。带条件的更新这次准确，是因为没有人点两下：它不认买家，见下一课。`,

  'lesson.double-click.title': '重复点击与唯一索引',
  'lesson.double-click.text': [
    '带条件的更新数的是件数，不认买家。买家连点两下，或者浏览器没收到答复又发了一次，就是两个请求，扣走两件。先查这个买家有没有订单？那又回到第一课：两个请求都查，都没查到。',
    '只有唯一索引能保证：`unique (sale_id, user_id)`。第二次插入会失败，或者用 `on conflict do nothing` 什么也不改。订单和库存必须在同一个事务里。如果扣了库存、插入订单失败、又忘了回滚，就有一件没人买的货不见了。',
    '本店检查三次，先做便宜的：按钮点过就禁用，然后是库存闸的 tickets 哈希，然后是唯一索引。前两个节省工作。只有索引是保证；禁用的按钮挡不住脚本。',
  ],
  'lesson.double-click.taught': ['一人一单', '幂等', '防重复下单'],
  'lesson.double-click.ask': '一半买家重复点击。只有带条件的更新会怎样？',
  'lesson.double-click.choices': ['没事，条件保护了库存', '有的买家得到两件', '卖出的比库存多'],
  'lesson.double-click.shown': ({ duplicates, withIndex }) => `只有带条件的更新：重复订单 ${n(duplicates)} 个。同一事务里加唯一索引：${n(withIndex)} 个。`,

  'lesson.pre-stock.title': 'Redis 预减库存，以及为何少卖',
  'lesson.pre-stock.text': [
    'Postgres 的一行一次只能由一个事务修改。Redis 数得更快，所以五门课里有四门在数据库前面放一个 Redis 计数器，先减它，这叫预减库存。`GET`、检查、再 `DECR`，是第一课换了个地方。先 `DECR` 再检查它的返回值就不会超卖：计数器只用一步修改。',
    '但现在货会不见。重复点击减两次，只成一单。订单失败，或者 `DECR` 之后服务器崩溃，这一件就白减了。计数器是零，数据库里还有货，所有买家听到的都是“已售罄”。用 `INCR` 加回去看着简单，直到这个补偿执行了两次。也有的店在 Redis 里放比实际更多的库存，让数据库拒绝多出来的。',
    '我们的脚本用一步检查买家并扣库存，从不加回去。每秒几次和 Postgres 对账，把计数器改对。',
  ],
  'lesson.pre-stock.taught': ['预减库存', '库存预热', 'Lua 原子扣减'],
  'lesson.pre-stock.ask': '先 DECR，再检查买家有没有订单。有人重复点击，会出什么错？',
  'lesson.pre-stock.choices': ['超卖', '少卖', '不出错'],
  'lesson.pre-stock.shown': ({ unsold, oversold, lua }) => `先 DECR 再检查：少卖 ${n(unsold)} 件，超卖 ${n(oversold)} 件。先检查的脚本：少卖 ${n(lua)} 件。`,

  'lesson.refill.title': '库存回补：订单失败之后',
  'lesson.refill.text': [
    'Redis 已经预减了一件，订单却失败了：这个买家已经买过，语句超时，或者数据库重启。这一件必须回补到预减库存里，否则永远卖不出去。课程比较三种做法。`INCR` 是 `DECR` 的逆操作，看起来没错。但每个被拒绝的买家也都减过一次，所以计数器不是 0，而是 -2，甚至 -500。`INCR` 之后是 -499，谁也进不来。',
    '那就 `SET 1`：不管已经减到多低。可是，如果下一个买家到来之前有两个订单失败，回来的只有一件而不是两件；如果失败时还剩 12 件，另外十一件就没了。两种做法都是从一件事去猜一个数，都没有看实际还有几件。',
    '第三种去看：读 Postgres 里的真实库存，把计数器设成它，前提是计数器这期间没有变（比较并设置，CAS）。数字偏高一点只是多做些工作，因为最后由 Postgres 说了算；偏低就会少卖。本店定时这样做，每秒几次，取消订单退回来的货、崩溃的进程占着的货也都这样回来，库存闸没有代码去“加一”。课程接着还要用广播清除每台服务器的内存标记（售罄标记）；我们的标记只活 50 毫秒（Redis 不在时 250 毫秒），没有什么要清除。',
  ],
  'lesson.refill.taught': ['库存回补', '内存标记', '比较并设置（CAS）'],
  'lesson.refill.ask': '三分之一的订单第一次会失败；页面上还有货，被拒绝的买家就会再点。哪种回补能把货卖完？',
  'lesson.refill.choices': ['INCR：抵消那次 DECR', 'SET 1：放一个买家进来', '把计数器设成 Postgres 里的库存'],
  'lesson.refill.shown': ({ stock, incr, one, truth }) => `${n(stock)} 件货，少卖：INCR ${n(incr)} 件，SET 1 ${n(one)} 件，用 Postgres 的库存 ${n(truth)} 件。`,

  'lesson.journal.title': '流水',
  'lesson.journal.text': [
    'Redis 里的脚本扣了库存，马上答复。订单稍后从队列里写入，这叫削峰。最简单的队列是内存里的 channel，它能用到进程结束为止：发版、崩溃、系统内存不足。在 channel 里等着的买家已经听到“抢到了”，货也从 Redis 扣走了，订单却没有写，什么记录也没留下。',
    '所以，承诺必须在作出的地方、在同一步里记下来。我们的脚本在库存旁边的 stream 里加一条记录：这就是流水。内存里的队列只是流水的快速副本。进程崩溃后，由别的进程认领它的记录：同一台机器上马上，别的机器上五秒后。Postgres 提交之后，记录才离开流水。',
    '所以同一个排队号可能落库两次，这必须无害：落库是幂等的。每个排队号的结果按它的编号保存，和订单在同一个事务里。',
  ],
  'lesson.journal.taught': ['库存流水', '异步下单', '消息队列', '削峰', '幂等'],
  'lesson.journal.ask': '秒杀中途进程被杀。哪些买家听到“抢到了”却没有订单？',
  'lesson.journal.choices': ['channel 和流水都没有', 'channel 有一些；流水没有', '两种都有一些'],
  'lesson.journal.shown': ({ channel, journal }) => `听到“抢到了”却没有订单：channel ${n(channel)} 人，本店的流水 ${n(journal)} 人。`,

  'lesson.batch.title': '批量与热点行',
  'lesson.batch.text': [
    '一场秒杀的所有买家都要同一行。不管开多少连接，这一行一次只能由一个事务修改，后一个要等前一个落盘。连接再多，只是队列更长。这就是热点行。',
    '可以把行拆开：一件一行，用 `skip locked`，每个事务拿不同的行。这有用，代价是每件一行。也可以让每一轮多做些：反正有一百个买家在等，就锁一次行，一条语句插入一百个订单，库存一次减一百，提交一次。',
    '本店两头都这样做。合并通道（lane）把等待的请求合成一次脚本调用，最多 256 个；订单队列再用一个事务落库，最多 2,000 个排队号。没有请求会为了凑满一批而等待：单个请求就单独走。只有前一批正在处理时，后一批才会变大。',
  ],
  'lesson.batch.taught': ['热点行', '队列泄洪', '批量合并', '削峰'],
  'lesson.batch.ask': '2,000 个买家，1,000 件。连被拒绝的买家也算上，本店每单要几条 SQL？',
  'lesson.batch.choices': ['两条以上，和别的方案一样', '大约一条', '不到半条'],
  'lesson.batch.shown': ({ shopSql, oneSql, shop, one }) => `每单 SQL 条数：本店 ${few(shopSql)}，一单一个事务 ${few(oneSql)}。每秒答复的点击数：${n(shop)} 和 ${n(one)}。`,

  'lesson.buckets.title': '分桶库存',
  'lesson.buckets.text': [
    '一行太热，就拆成十六行。库存分到十六个桶里，由买家的哈希决定是哪一桶，带条件的更新只改那一行，十六个事务可以同时提交。每一桶都和原来那一行一样安全，所以不会超卖。',
    '但哈希只在平均上分得均匀。到最后，有的桶有货没有买家，有的桶有买家没有货：后者对买家说“已售罄”，隔壁却还有货。取消的订单把货还给某一桶，那里的买家早已走了。',
    '每件货有十个买家时，每一桶都够，谁也看不出错。买家和货差不多一样多，或者一场卖了很久快要卖完时，就看出来了。去看别的桶是正确的，只是每个被拒绝的买家都要把十六个桶问一遍。本店只用一行，让每一轮多做些事：见上一课。',
  ],
  'lesson.buckets.taught': ['分桶库存', '库存分片', '热点行'],
  'lesson.buckets.ask': '180 件分在 16 个桶里，200 个买家，没有人点两下。会怎样？',
  'lesson.buckets.choices': ['180 件全部卖完：桶加起来正好是全部', '少卖，明明有买家被拒绝', '超卖：没有谁把所有桶加起来数'],
  'lesson.buckets.shown': ({ unsold, speed, oneUnsold, oneSpeed }) => `分桶：少卖 ${n(unsold)} 件，每秒答复 ${n(speed)} 次点击。一行：少卖 ${n(oneUnsold)} 件，每秒 ${n(oneSpeed)} 次。`,

  'lesson.tokens.title': 'Redis 列表里的令牌',
  'lesson.tokens.text': [
    '不用计数器，往列表里每件货放一个令牌。`LPOP` 把每个令牌只发一次，列表空了就是售罄。没有数要比较，也没有什么会减到零以下：不管拒绝了多少买家，放回去的令牌下一个人就拿得到。减到 -500 的计数器是感觉不到的。',
    '重复点击会拿走两个令牌，所以先认买家：`SADD buyers 42` 把买家加进集合，同时报告是不是第一次，只有一步。两条命令，每条都把检查和写入放在一步里，关键在次序。先 `LPOP` 再 `SADD`，就又成了“先 DECR 再检查”。',
    '剩下的是从 Redis 到 Postgres 这段路。进程在 `LPOP` 之后、写订单之前死掉，令牌只在它的内存里。出错后把令牌放回去也不行：如果只是没收到答复，订单已经在了，这个令牌就会卖两次。下一课讲这件事。',
  ],
  'lesson.tokens.taught': ['令牌列表', 'LPOP', 'Redis List', 'Redis Set'],
  'lesson.tokens.ask': '一半买家重复点击。先 `SADD`，再 `LPOP`，会出什么错？',
  'lesson.tokens.choices': ['少卖，和 DECR 一样', '不出错：第二次点击拿不到令牌', '超卖，或者一个买家买到两件'],
  'lesson.tokens.shown': ({ stock, decr, list }) => `${n(stock)} 件里少卖：先 DECR 再检查 ${n(decr)} 件，SADD 加 LPOP ${n(list)} 件。`,

  'lesson.outbox.title': '库存流水与回查',
  'lesson.outbox.text': [
    '库存在 Redis 里扣，订单在 Postgres 里写，进程可能死在两者之间，没有哪个事务能包住两边。所以之前留痕迹，之后留证据：扣库存的脚本同时留下一条“已准备”的消息，订单和一行库存流水写在同一个事务里。消息一直没有删，就得有人去问流水：这就是回查。',
    '流水里有这一行？订单就在，只删消息。没有？这一件放回去卖。可是那个进程也许只是慢，不是死了，过一会儿才写订单。所以回查自己写一行“没有卖出”，主键只让其中一个进来：晚来的订单连同它的流水一起失败。有的课程让流水停在“未定”，那就会被一直问下去。',
    '本店有同样的痕迹，也就是 Redis 里的流水；也有同样的证据，就是排队号的结果。本店不把货放回去，而是由另一个进程把订单做完，买家的排队位置不变。',
  ],
  'lesson.outbox.taught': ['库存流水', '事务型消息', '回查', '半消息', '发件箱'],
  'lesson.outbox.ask': '一台服务器在 Redis 里扣了货、还没写订单就死了。这几件会怎样？',
  'lesson.outbox.choices': ['不管哪种做法，照样卖掉', '令牌列表和脚本都会少卖，回查会把它们放回去卖', '回查放回得太多：超卖'],
  'lesson.outbox.shown': ({ list, lua, outbox, sql }) => `杀掉服务器之后少卖：令牌列表 ${n(list)} 件，只有脚本 ${n(lua)} 件，库存流水加回查 ${n(outbox)} 件，每单 ${n(sql)} 条 SQL。`,

  'lesson.fencing.title': '带防护令牌的锁',
  'lesson.fencing.text': [
    '会过期的锁有一个弱点：持有者停顿到锁过期，别人进来了，然后前一个醒来，把很久以前算好的数写进去。什么锁都拦不住，因为停顿的那个已经不再问了。能拒绝的只有被写的那一方。',
    '所以锁带着一个只增不减的号。持有者先在 Postgres 登记，就在读库存的那条语句里：`set version = 7 where version < 7 returning stock`。写的时候再带上：`where version = 7`。如果这期间 8 号登记过，7 号就一行也改不到，只好重来。',
    '只在写的时候比较（很多讲防护令牌的图就是这样画的），在这里不够：7 号和 8 号都读到 20，7 号写 19，8 号也写 19。再看锁还剩什么用：单靠比较就是乐观锁，锁只是让失败者少做无用功。本店用同样的办法守着库存闸：修改时带上这场秒杀的 epoch，旧的 epoch 什么也改不了。',
  ],
  'lesson.fencing.taught': ['分布式锁', '防护令牌', 'fencing token', 'Redisson', '看门狗'],
  'lesson.fencing.ask': '持有者停顿得比锁的有效期还长，醒来再写，Postgres 比较它的号。会怎样？',
  'lesson.fencing.choices': ['照样超卖', '一行也改不到，持有者重来', '它那一件丢了：少卖'],
  'lesson.fencing.shown': ({ stock, lock, fenced, redis, seconds }) => `库存 ${n(stock)} 件。只有锁：订单 ${n(lock)} 个。加防护令牌：订单 ${n(fenced)} 个，每单 ${n(redis)} 次 Redis 调用，用时 ${n(seconds)} 秒。`,

  'lesson.ledger.title': '只增不改的流水账',
  'lesson.ledger.text': [
    '记账的人不会把数字改掉。每卖一件就加一行，写着第几件；剩余件数就是库存减去最大的号。没有要锁的库存，也没有要等的行：号上的唯一索引拒绝已经用掉的，买家上的唯一索引拒绝第二单。',
    '其余只有一条语句：读出最大的号，和库存比较，插入下一个号。外面不用套事务也正确，进程死掉也不丢。但所有买家读到的是同一个最大号，要的是同一个下一号。一个拿到，其余的等它提交，什么也没插入，再试一次：人群从热点行搬到了热点号。',
    '用序列（sequence）发号不用等，但回滚的订单用掉的号再也不回来，那一件就卖不出去。本店用一个带条件的数来决定，用只增不改的历史来证明。',
  ],
  'lesson.ledger.taught': ['只插入', '流水账', '库存流水', '唯一索引'],
  'lesson.ledger.ask': '200 个买家，200 件。和事务里的带条件更新相比，流水账每单要多少条 SQL？',
  'lesson.ledger.choices': ['更少：一条插入代替一个事务', '差不多', '更多：没抢到号的要重试'],
  'lesson.ledger.shown': ({ guard, ledger, guardSpeed, speed }) => `每单的 SQL：流水账 ${n(ledger)} 条，带条件的更新 ${n(guard)} 条。每秒答复的点击：${n(speed)} 次和 ${n(guardSpeed)} 次。`,

  'lesson.address.title': '隐藏地址与验证码',
  'lesson.address.text': [
    '如果开始之前就知道抢购地址，脚本就会第一个使用它，而且使用一万次。所以买家只有在时间窗内、登录之后、并算对验证码（一道小题）之后才得到地址，有效一分钟。验证码挡不住多少程序，但它总能把请求分散到几秒里，因为有人算得快，有人算得慢。',
    '课程把随机路径存在 Redis 里，每次点击去查。我们的地址带签名：用户、到期时间，以及对这两样、秒杀和会话计算的 HMAC。验证只是计算，不用访问别的服务器，所以大量编造的地址到不了 Redis。别的用户不能用你的地址，你也不能把它用在另一场秒杀。',
    '验证码只能回答一次，不论对错。否则程序会一直猜到对为止。',
  ],
  'lesson.address.taught': ['秒杀地址隐藏', '秒杀令牌', '数学验证码'],
  'lesson.address.ask': '机器人用不属于自己的地址来试。每试一次，Redis 要付出什么？',
  'lesson.address.choices': ['查一次，不管哪种地址', '地址存在 Redis 里的查一次，签名的不用查', '不用查，不管哪种地址'],
  'lesson.address.shown': ({ tries, fixedIn, bots, keptIn, kept, signedIn, signed }) =>
    `机器人试了 ${n(tries)} 次。固定地址：放行 ${n(fixedIn)} 次，机器人抢走 ${n(bots)} 件。存在 Redis 里：放行 ${n(keptIn)} 次，${n(kept)} 条命令。签名：放行 ${n(signedIn)} 次，${n(signed)} 条命令。`,

  'lesson.limits.title': '限流与大闸',
  'lesson.limits.text': [
    '一百件货，一百万人：几乎全部工作都是拒绝。要早拒绝，便宜地拒绝。本店先做便宜的检查：请求的格式、地址、“刚刚售罄”的标记（只保留 50 毫秒，Redis 不在时 250 毫秒，所以货回来时不用清除什么）、在途请求的上限、会话，最后是用户和网络地址的令牌桶。用户的令牌桶挡住脚本；网络地址的令牌桶很大，因为一个班级、一间办公室可能共用一个地址。',
    '令牌桶不知道库存。大闸知道：每剩一件，最多有五个地址同时有效，但总是允许 64 个。其余的买家听到的是“稍等”或“已售罄”。这样，大闸后面的买家人数始终和库存成比例。',
    '队列满了也是一种答复：503 加 `Retry-After`。队列从不无限变长，满了也从不说成“已售罄”。',
    '没拿到令牌的请求怎么办？Guava 的 `RateLimiter` 有两种做法。`acquire` 一直等：谁也不拒绝，但每个等待的请求都占着连接和内存，人多时最后一个要等一秒以上；人再多一倍，就再等一倍。`tryAcquire` 拿不到就立刻拒绝，什么也不占。本店的限流从不等待；会等待的是队列，而且有上限（相当于带超时的 `tryAcquire`），超出上限的请求立刻得到答复。',
  ],
  'lesson.limits.taught': ['限流', '防刷', '令牌桶', '秒杀大闸', '内存标记'],
  'lesson.limits.ask': '50 件货，200 个人各发一次请求，一个机器人发 1,000 次。不限流，谁拿得更多？',
  'lesson.limits.choices': ['人：有 200 个', '机器人：它的请求更多'],
  'lesson.limits.shown': ({ bot, people, bucketBot, bucketPeople, without, alive, waiting, kept, waitP99, refused, boundKept, boundP99 }) =>
    `不限流：机器人 ${n(bot)} 件，人 ${n(people)} 件。每个用户一个令牌桶：机器人 ${n(bucketBot)} 件，人 ${n(bucketPeople)} 件。有效的地址：没有大闸 ${n(without)} 个，有大闸 ${n(alive)} 个，另有 ${n(waiting)} 个买家要稍等。同样 1,500 个请求对同一个令牌桶：一直等，同时有 ${n(kept)} 个请求在等，p99 ${n(waitP99)} 毫秒；不等待，${n(refused)} 个立刻被拒绝；最多等 100 毫秒，${n(boundKept)} 个在等，p99 ${n(boundP99)} 毫秒。`,

  'lesson.late-payment.title': '超时、迟到的付款与库存回补',
  'lesson.late-payment.text': [
    '下了单不付款的那件，挡住了会付款的买家。十五分钟后订单取消，货重新开售，Postgres 和库存闸里都要。每一步都可能凭空多出货来：订单取消两次，库存回补两次；或者付款和超时都成功。',
    '订单的每次变化都是一条带条件的更新。超时写的是 `where status = \'pending\' and expires_at <= clock_timestamp()`，付款写的一样，只是换成 `>`，同一个时钟，同一行。只有一个能改这一行，另一个找不到可改的。库存回补和取消在同一个事务里，所以不可能回补两次。',
    '迟到的钱不会丢，也不会让订单复活：同一个事务把它记为待退款，由后台退款。库存闸没有代码去“加一”：和 Postgres 对账之后设定库存。',
  ],
  'lesson.late-payment.taught': ['超时取消', '库存回补', '延迟队列'],
  'lesson.late-payment.ask': '200 个订单超时的那一刻，钱也正好到。用“先查询再更新”，之后已付款和在售的一共有几件？',
  'lesson.late-payment.choices': ['200，和原来一样', '比原来多', '变少了'],
  'lesson.late-payment.shown': ({ units: all, both, twice, of, guarded, guardedBoth, refunded }) =>
    `先查询再更新：${n(of)} 件变成 ${n(all)} 件。${n(both)} 单既付了款又放回了库存，另有 ${n(twice)} 件被两个进程各放回一次。一条带条件的更新：${n(guarded)} 件，付了款又放回的 ${n(guardedBoth)} 单；${n(refunded)} 单的钱到得太晚，已退款。`,

  'lesson.cache.title': '缓存穿透、击穿与雪崩',
  'lesson.cache.text': [
    '每卖一件，秒杀页要被读上千次，所以页面从内存里来。这会出三种错。穿透：请求不存在的编号，什么也没有缓存，每个请求都到数据库。把空值也缓存起来，比最新编号还大的直接拒绝。击穿：所有请求都在读的那一条过期，一千个请求同时去读那一行。让一个请求去读，其余的等它的结果。',
    '雪崩：一起写入的几百条一起过期。课程给过期时间加随机数。本店的每条缓存只活一秒，有请求才重读，由一个请求替大家读。Postgres 不答复时，就返回一分钟以内的旧内容，并标明是旧的。',
    '多级缓存在内存和数据库之间再放一层 Redis。最后几行量出每一级读一次要多久。前面的本地缓存每条每秒只读一次后端，中间放 Redis，一秒只省下一次这样的差距，却多一份会过时的数据；所以本店只有两级。',
    '缓存里的库存只用来显示，从不用来卖。扣库存的代码都不读缓存。',
  ],
  'lesson.cache.taught': ['缓存穿透', '缓存击穿', '缓存雪崩', '多级缓存'],
  'lesson.cache.ask': '所有请求都在读的那一条过期了，这时 500 个请求到达。没有任何保护，有几个会去读数据库？',
  'lesson.cache.choices': ['一个', '不到 100 个', '100 个或更多'],
  'lesson.cache.shown': ({ all, flight, unknown, remembered, together, jitter, local, redis, postgres }) =>
    `读数据库的次数：${n(all)}；单飞：${n(flight)}。不存在的编号：${n(unknown)}；缓存空值：${n(remembered)}。一起过期时同时读的次数：${n(together)}；过期时间加随机数：${n(jitter)}。读一次：内存 ${few(local)} 微秒，Redis ${few(redis)} 微秒，Postgres ${few(postgres)} 微秒。`,

  'lesson.cache-consistency.title': '缓存一致性：先写库还是先删缓存',
  'lesson.cache-consistency.text': [
    '价格在 Postgres 里，Redis 里有一份副本。写的人要改两处，中间总有人在读。先删缓存再写库：下一个读者没有命中，读到旧价格，又放回缓存。写完之后缓存是旧的，一直旧到过期。这不需要运气差，只要有人刚好在这时读，而这样的人总是有的。',
    '先写库再删缓存（Cache Aside）：只有两步之间读到旧价格。但如果有个读者在写之前没有命中、随后停顿了一下（一次 GC 就够），删除之后它又把旧价格放回去。所以课程过半秒再删一次，叫延时双删。这能清掉它，除非停顿得更久。写完还没删进程就死了，缓存也是旧的。用消息队列或订阅数据库日志（canal）来删，可以重试到成功为止，可停顿的读者仍然可能来得更晚。',
    '真正能兜底的是过期时间。所以本店什么也不删：商品缓存放在每个进程的内存里，每条只活一秒，不管出什么错，一秒之后都过去了。这样就够了，因为缓存只用来显示：价格、时间窗、库存都在 Postgres 里、在卖出的那条语句里检查。如果副本要用来做决定，就要更多：我们在 Redis 里的库存闸不断和 Postgres 对账，保证最终一致性。',
  ],
  'lesson.cache-consistency.taught': ['缓存一致性', '双写一致性', 'Cache Aside', '延时双删', '最终一致性'],
  'lesson.cache-consistency.ask': '20 个价格在有人读的时候各改一次，有的读者会停顿。哪种做法不会在缓存里留下旧价格？',
  'lesson.cache-consistency.choices': ['先删缓存再写库', '先写库再删缓存', '延时双删', '不删，但有效期很短'],
  'lesson.cache-consistency.shown': ({ first, after, twice, life, firstStale, afterStale, lifeStale, lifeLongest }) =>
    `一直是旧的：先删再写 ${n(first)} 个，先写再删 ${n(after)} 个，延时双删 ${n(twice)} 个，短有效期 ${n(life)} 个。期间读到旧价格：先删再写 ${n(firstStale)} 次，先写再删 ${n(afterStale)} 次，短有效期 ${n(lifeStale)} 次，最久 ${n(lifeLongest)} 毫秒。旧读最少、又不会一直旧下去的：先写再删，再加上短有效期。`,

  'lesson.confirm.title': '消息队列：事务、confirm 与 ack',
  'lesson.confirm.text': [
    'Redis 里扣了库存，数据库里还没有订单，中间多数课程放一个消息队列：RabbitMQ 或 RocketMQ，用来异步下单、削峰。它也多了一处会丢单的地方。生产者如果不等 broker 的确认，承诺出去的就还只在自己的内存里。等是安全的，问题是等什么：每条消息一个事务（`txSelect`、`txCommit`），或者每条等一次 confirm，每次都要一个网络往返。批量 confirm 一百条只要一个往返，同样安全，因为确认之后才告诉买家。',
    '进程没读到确认就死了，那些消息到没到就不知道了。于是重发，有的就会有两份，所以写订单必须幂等：第二份被唯一键挡住。另一边，消费者要 ack。先 ack 再处理，进程一死，手里没处理完的就丢了；提交之后再 ack，消息会重新投递，还是那个唯一键保证没有害处。每次都失败的消息会没完没了地回来，投递几次之后进死信队列，由人来看。',
    '本店没有 broker。库存流水是同一个 Redis 里的 stream，由扣库存的同一个脚本写入，一次预留调用一条记录：不存在“库存扣了、消息没写”的时刻。RocketMQ 的事务消息用半消息、库存流水表和回查来补同一个缺口；我们每个排队号的结果和订单在同一个事务里保存，就是那张流水表。其余和这里一样：提交之后才 ack，认领死去进程的记录，换过 64 个进程还没有结果就进死信。',
    '下面的实验里也没有 broker：消息发到本机 Redis 的 stream，事务用的是 `MULTI` 和 `EXEC`。所以它能说明谁在等什么、会丢什么，但测不出 broker 的开销：RabbitMQ 的手册就说事务比 confirm 慢得多，而在这里，哪个快一点只是波动。',
  ],
  'lesson.confirm.taught': ['消息队列', '事务与 confirm', '事务消息', '手动 ack', '死信队列', 'RabbitMQ、RocketMQ'],
  'lesson.confirm.ask': '1,000 条消息发到一半，生产者死了。哪种做法会丢已经承诺的消息？',
  'lesson.confirm.choices': ['都不丢：队列全都留着', '只有确认之前就承诺的那种', '除了事务都会丢：整批一起丢'],
  'lesson.confirm.shown': ({ lost, of, each, eachWait, confirm, confirmWait, batch, batchWait, entry, entryWait, twice, ackLost, afterLost, again, dead }) =>
    `不等确认：${n(of)} 条里，承诺后丢了 ${n(lost)} 条，其余做法不丢。每秒条数和 p99：每条一个事务 ${n(each)}、${n(eachWait)} 毫秒，每条一次 confirm ${n(confirm)}、${n(confirmWait)} 毫秒，批量 confirm ${n(batch)}、${n(batchWait)} 毫秒，一批一条流水 ${n(entry)}、${n(entryWait)} 毫秒；有一批 ${n(twice)} 条发了两遍，没有重复下单。消费者：先 ack 丢 ${n(ackLost)} 条；提交后 ack 丢 ${n(afterLost)} 条，重新投递 ${n(again)} 次，死信 ${n(dead)} 条。`,

  'lesson.hot.title': '热点商品',
  'lesson.hot.text': [
    '店里同时卖很多商品，其中一件突然变热。它那一行一次只放行一单，所以它的买家要等。别的商品是冷门，行都空着，可是如果所有买家共用一个队列，他们也得等：整群人都排在他们前面。多开连接没有用，这些连接最后全都在等热点商品那一行。',
    '只给队列加上限，对别的买家更糟：那群人不停地点，队列总是满的，于是买冷门商品的人大多被拒绝，原因却是一件他们根本不想要的商品。',
    '课程的做法是先发现热点（统计点击），再把热点隔离到单独的队列或服务器。发现之前，别的买家只能等着。本店一直是分开的：每场秒杀有自己的合并通道（lane），排队位置自己用、有上限，一场同时只有一批在落库。热点商品几乎不吃亏，反正它那一行一次只放行一单；在本店它反而更快，因为锁一次就处理一整批。本店也统计点击，但只是给运维看哪几场热：`/hot`、监控指标和日志里都有。',
  ],
  'lesson.hot.taught': ['热点商品', '热点发现', '热点隔离', '热 key'],
  'lesson.hot.ask': '100 个买家抢一件热点商品，50 个买家买五十件冷门商品，全都在一个队列里等八个连接。点一件冷门商品，要等热点商品卖出多少单？',
  'lesson.hot.choices': ['不用等：它那一行是空的', '一到十单', '超过十单'],
  'lesson.hot.shown': ({ one, lane, cold, refused, laneRefused, oneP99, laneP99, oneHot, laneHot }) =>
    `冷门点击要等的热点单数（中位数）：共用一个队列 ${n(one)} 单，每件商品一条合并通道 ${n(lane)} 单；p99 分别是 ${n(oneP99)} 毫秒和 ${n(laneP99)} 毫秒。共用的队列加了上限，${n(cold)} 次冷门点击被拒 ${n(refused)} 次；每件一条合并通道，被拒 ${n(laneRefused)} 次。热点商品每秒卖出：共用队列 ${n(oneHot)} 单，单独的通道 ${n(laneHot)} 单。`,
};
