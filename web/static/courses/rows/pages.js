// Pages and caches. stock.js says what a row has.
export default [
  {
    "id": "static-pages", "by": "ABE",
    "words": ["页面静态化", "动静分离", "前后端分离", "静态资源", "浏览器缓存", "CDN", "Thymeleaf", "AJAX", "JS 压缩合并", "ETag", "304", "gzip", "static pages", "browser cache", "跨域", "CORS", "全页面静态化", "phantomjs"],
    "also": ["@CrossOrigin", "axios", "CDN优化", "内容分发网络", "静态HTML", "纯HTML", "降低服务器压力", "减少带宽", "A页面跳转到B页面"],
    "zh": { "taught": "页面静态化、动静分离：AJAX 取数据，浏览器缓存，CDN", "ours": "页面和脚本编进了程序，第一次有人请求时压缩一次（zstd、gzip）。文件的网址里带内容的哈希，浏览器和 CDN 可以保存一年，改了就是新网址，不会有人看到旧脚本；`--asset-url` 让页面从 CDN 取这些文件，CDN 上什么也不用清除；页面本身每次用 ETag 确认，没变就是 304。数据由脚本从 `/api` 取，和页面同源，所以不需要 CORS。页面里没有商品数据，一个文件给所有商品用，也就不用 phantomjs 逐个生成静态页。\nmiaosha 笔记说，跳页之前要判断的，先用 AJAX 问：秒杀页也是这样，答复是 ordered 才给出去付款的链接；不用判断的页面自己取数据。" },
    "en": { "taught": "Static pages: data by AJAX, browser cache, CDN", "ours": "Pages and scripts are in the program and are compressed once, when a browser first asks for them (zstd, gzip). The address of a file holds a hash of the contents, so a browser or a CDN may keep it for a year and a change has a new address; with `--asset-url` pages load these files from a CDN, where nothing has to be purged. A page is revalidated by its ETag, and a 304 says it is unchanged. Scripts read the data from `/api`, of the same origin, so there is no CORS. A page has no product data in it: one file serves all products, and none has to be generated with phantomjs.\nThe miaosha notes ask by AJAX before a page is left on a condition: so does the page of a sale, which links to the order only when the answer is ordered; other pages fetch their own data." },
    "code": [["web/static.go", "loadAssets"], ["web/static_pages.go", "static"], ["web/desk_prepared.go", "prepare"], ["deploy/README.md", ""]],
    "see": ["page:/"],
    "run": ["curl -sI http://127.0.0.1:8080/ -H 'Accept-Encoding: gzip'", "go test -v -count 1 -run 'TestPagesAreCachedAndCompressed|TestPagesLoadTheirFilesFromTheCDN' ./web"]
  },
  {
    "id": "page-cache", "by": "ABE",
    "words": ["页面缓存", "URL 缓存", "对象缓存", "本地缓存", "热点缓存", "多级缓存", "Guava Cache", "Guava", "Caffeine", "Nginx 共享字典", "OpenResty", "ThymeleafViewResolver", "page cache", "object cache", "local cache", "本地热点缓存", "CacheBuilder", "shared dict", "商品详情页"],
    "also": ["集中式缓存", "热点数据缓存", "本地热点数据缓存", "LRU", "maximumSize", "expireAfterWrite", "CacheService", "item_", "getFromCommonCache", "内存缓存", "商品信息的缓存", "getIfPresent", "initialCapacity", "CacheServiceImpl", "getItem", "getItemById", "过期时间", "初始容量", "E/60s", "setCommmonCache"],
    "zh": { "taught": "页面缓存、URL 缓存、对象缓存；多级缓存：本地（Guava）→ Redis → 数据库", "ours": "两级：进程内的缓存（otter，和 Caffeine 同一种淘汰算法，有上限），后面直接是 Postgres，每秒每条最多一次查询。列表和详情连压缩好的字节也备着，一次编码发很多次。中间不放 Redis：同一台机器上用它们自己的压测工具（`redis-benchmark`、`pgbench`）量，一次 `GET` 比一条主键查询快 1.6 到 3.8 倍；而本地缓存比它们都快几十到一百多倍，之后每条每秒最多查一次，省不出什么，却多一份会过时的数据。下面的课最后三行，和最后一条命令，都在你的机器上量这三级；它们含客户端的时间，所以 Redis 和 Postgres 更接近。Redis 只放要共享的：库存闸、会话、限流。\n慕课网的 Guava 缓存最多 100 条，按 LRU 淘汰，存 60 秒：改了价，各台服务器一分钟里显示的不一样；这里最多 20,000 条，每条一秒。" },
    "en": { "taught": "Page, URL and object cache; local cache (Guava), then Redis, then the database", "ours": "Two levels: a bounded cache in the process (otter, which evicts as Caffeine does), and Postgres behind it, with at most one query per entry and second. Lists and details are also kept as compressed bytes, encoded once and sent many times. No Redis in between: measured on one machine with the stores' own tools (`redis-benchmark`, `pgbench`), a `GET` is 1.6 to 3.8 times as fast as a query by primary key. The local cache is 30 to 140 times as fast as either, and behind it an entry is read once a second at most, so little is saved, and there is one more copy to become stale. The last three rows of the lesson, and the last command, measure the three levels on your machine; they include the time of the client, so Redis and Postgres are closer there. Redis holds what has to be shared: gates, sessions, limits.\nimooc's Guava cache has 100 entries at most, evicts by LRU and keeps them for 60 s, so for a minute servers show different prices after a change; here there are 20,000 at most, for a second each." },
    "code": [["goods/cache.go", "load"], ["web/desk_prepared.go", "newResponseCache"], ["web/shop_sales.go", "makeList"], ["web/shop_sales.go", "makeDetail"], ["seckill/speed_bench_test.go", "BenchmarkLevels"]],
    "see": ["lesson:cache"],
    "run": ["./miaosha bench --shape list --seconds 3", "go test -v -count 1 -run TestResponseCacheMakesAResponseOnceForAllCallers ./web", "go test -run '^$' -bench Levels ./seckill"]
  },
  {
    "id": "cache-faults", "by": "E",
    "words": ["缓存穿透", "缓存击穿", "缓存雪崩", "缓存一致性", "缓存空值", "布隆过滤器", "互斥锁重建", "随机过期时间", "先更新数据库再删缓存", "延时双删", "双写一致", "一致性", "cache penetration", "cache breakdown", "cache avalanche", "cache consistency", "bloom filter", "single flight", "双写一致性"],
    "also": ["空数据", "Cache-Aside", "Cache-Aside pattern", "cache aside", "失效", "强一致性", "分布式缓存", "redis穿透", "数据一致性", "不一致", "读大于写", "失效时间"],
    "zh": { "taught": "缓存穿透、击穿、雪崩，与数据库的一致性", "ours": "穿透：空值也缓存，比最新编号还大的不查，所以不需要布隆过滤器。击穿：一个请求去读，其余的等它（singleflight）。雪崩：每条活一秒，有请求才重读；Postgres 不答时返回一分钟以内的旧内容并标明。一致性：先删后写、先写后删、延时双删、短过期，实验室逐个试给你看，只有短过期不怕停顿和崩溃；本店用它，每条最多旧一秒，而且扣库存、付款都不读缓存。" },
    "en": { "taught": "Cache penetration, breakdown, avalanche; consistency with the database", "ours": "Penetration: misses are cached too, and an id above the newest is not looked up, so no Bloom filter is needed. Breakdown: one request reads and the others wait for it (single flight). Avalanche: an entry lives for a second and is read again on demand; without Postgres what is up to a minute old is served and marked. Consistency: the lab tries delete then write, write then delete, two deletes, and a short life. Only the short life holds after any stall or crash, so this shop takes it: an entry is at most a second old, and nothing that takes stock or money reads it." },
    "code": [["goods/cache.go", "Sale"], ["goods/cache.go", "load"], ["seckill/lab/experiments/experiment_cache.go", "breakDown"], ["seckill/lab/experiments/experiment_cache.go", "avalanche"], ["seckill/lab/experiments/experiment_cache_consistency.go", "runCacheConsistency"]],
    "see": ["lesson:cache", "lesson:cache-consistency"],
    "run": ["go test -v -count 1 -run 'TestConcurrentCallersShareOneRead|TestUnknownIDsNeedNoQuery|TestWithoutPostgresStaleSalesAreServedForAMinuteWithTheirAge' ./goods"]
  },
  {
    "id": "redis-keys", "by": "CDE",
    "words": ["KeyPrefix", "BasePrefix", "key 前缀", "过期时间", "缓存 key 设计", "RedisService", "JedisPool", "hash tag", "expiry"],
    "also": ["CacheKey", "SeckillServerKeyPrefix", "key封装", "通用缓存key", "BaseKey", "userKey"],
    "zh": { "taught": "通用的 key 前缀类，前缀和过期时间写在一处", "ours": "每个包一个 `keys.go`，所有 key 都在那里，旁边写着什么时候过期、为什么；有测试查，别的文件不拼 key。一场秒杀的 key 带同一个 hash tag `{编号}`，在 Redis Cluster 里落在同一个槽，一个脚本才能一起用。课程的前缀没有 hash tag，上了集群脚本就报错。" },
    "en": { "taught": "Key prefixes with their expiry in one place", "ours": "Each package has one `keys.go` with all its keys, and beside each when it expires and why; a test checks that no other file builds one. All keys of a sale carry one hash tag, `{id}`: they share a slot of a Redis Cluster, so that one script may use them together. A prefix without a hash tag makes such scripts fail on a cluster." },
    "code": [["seckill/gate/keys.go", "GateKey"], ["seckill/gate/keys.go", "JournalKey"], ["user/keys.go", "indexKey"]],
    "see": [],
    "run": ["go doc -u -src ./seckill/gate GateKey", "go test -v -count 1 -run TestKeysOfASaleShareASlot ./seckill/gate", "go test -v -count 1 -run TestKeysAreBuiltInOnePlacePerPackage ./seckill/operator"]
  },
  {
    "id": "time-menu", "by": "A",
    "words": ["时间菜单", "秒杀时间段", "DateUtil", "秒杀频道", "秒杀商品列表", "定时加载秒杀商品", "time menu", "time slots", "商品压入缓存", "商品预热", "库存预加载", "库存显示", "preload stock"],
    "also": ["预加载秒杀商品", "dateMenus", "SeckillGoods", "boundHashOps", "秒杀商品数据", "A/预加载", "SECKILL_GOODS_KEY", "seckillGoodsList", "A/库存信息", "库存数据来源", "SECKILL_GOODS_STOCK_COUNT_KEY", "A/opsForHash"],
    "zh": { "taught": "秒杀时间菜单，每个时段定时把商品压入 Redis，库存从 Redis 取", "ours": "今天和明天，每两小时一段，按店的时区算。开始前十分钟起，每个进程的对账都会给还没有库存闸的秒杀建好闸，没有单独的定时任务，也就没有“任务没跑、商品没加载”。页面上的剩余件数来自库存闸；只是显示，不用来卖。" },
    "en": { "taught": "Time menu of sale slots, stock loaded into Redis per slot and shown from there", "ours": "Two-hour slots of today and tomorrow, in the shop's time zone. From ten minutes before the start, reconcile in every process sets up a gate that is missing, so no scheduled job can be missed. The units left on the page come from the gate; they are for display and decide nothing." },
    "code": [["goods/slot.go", "Slots"], ["goods/stock.go", "SaleStates"], ["seckill/rebuild/rebuild.go", "Rebuild"], ["seckill/seckill.go", "Left"]],
    "see": ["page:/"],
    "run": ["curl -s http://127.0.0.1:8080/api/slots", "for M in 9m 2h; do ID=$(./miaosha sale draft --title 台灯 --price 990 --stock 5 --start $M); ./miaosha sale publish $ID; done"]
  },
  {
    "id": "activity", "by": "B",
    "words": ["活动发布", "发布活动", "publishPromo", "秒杀活动", "活动商品上架", "活动库存同步", "库存进缓存", "promo", "publish", "activity", "draft", "pause", "库存预热到缓存", "库存缓存化", "item_stock", "销量"],
    "also": ["同步库存进缓存", "活动模块", "扣减库存缓存化", "B/promoId", "促销"],
    "zh": { "taught": "秒杀是一个活动：发布时把库存放进缓存", "ours": "`sale draft` 建草稿，`sale publish` 发布，命令等到库存进了库存闸才结束；还有 `pause`、`resume`、`close`、`add`、`window`。状态、时间窗、件数一改，触发器就给这一行新的 epoch，用 SQL 直接改的也一样，闸一秒内跟上。课程里发布时写一次缓存，Redis 丢了就要重新发布，而那时已经卖掉一部分；这里的闸随时可以从 Postgres 重建。商品和秒杀（带库存）是两张表；销量不另存一列，就是 `total - stock`。" },
    "en": { "taught": "A sale is an activity: publishing puts the stock into the cache", "ours": "`sale draft` makes a draft and `sale publish` publishes it; the command ends when the stock is in the gate. There are `pause`, `resume`, `close`, `add` and `window` too. A change of state, window or units takes a new epoch by a trigger, also one made in SQL, and the gate follows within a second. The course writes the cache once, on publishing; if Redis loses it, publishing again writes a stock that was partly sold. Here a gate can be rebuilt from Postgres at any time. Goods and sales, which have the stock, are two tables; the number sold is no column, it is `total - stock`." },
    "code": [["goods/change.go", "PublishDraft"], ["schema.sql", "sales_changed"], ["seckill/rebuild/rebuild.go", "rebuildNow"], ["seckill/gate/scripts/install.lua", "epoch"]],
    "see": ["page:/admin.html#sales", "page:/teach.html#flush"],
    "run": ["ID=$(./miaosha sale draft --title 茶具 --price 990 --stock 5); ./miaosha sale publish $ID; ./miaosha sale list", "go test -v -count 1 -run 'TestFirstClickRebuildsTheGate|TestRedisLosesItsData' ./seckill"]
  },
  {
    "id": "countdown", "by": "CE",
    "words": ["倒计时", "秒杀倒计时", "服务器时间", "remainSeconds", "时间同步", "提前开抢", "countdown", "server time", "秒杀未开始"],
    "also": ["抢购时间", "秒杀时间", "权限"],
    "zh": { "taught": "按服务器时间倒计时，开始之前不能买", "ours": "页面从答复里算出服务器的时间，用单调时钟往前走，改本机时间没有用。能不能买由库存闸的脚本按 Redis 的时钟决定，多台服务器的时钟不一致也没有关系。开始之前拿不到地址：`not_started`，并告知还有多少毫秒。" },
    "en": { "taught": "Countdown by server time, no buy before the start", "ours": "The page takes the server's time from its replies and carries it on with a monotonic clock, so changing the local time does nothing. Whether a sale is open is decided by the gate's script and the clock of Redis, so servers whose clocks differ do no harm. Before the start no address is granted: `not_started`, with the milliseconds left." },
    "code": [["web/static/clock.js", "addSample"], ["seckill/gate/clock.go", "Now"], ["seckill/gate/scripts/reserve.lua", "EARLY"], ["goods/stock.go", "Window"]],
    "see": ["page:/"],
    "run": ["./miaosha sale --title 保温杯 --stock 5 --start 1m", "go test -v -count 1 -run 'TestReserveTooEarly|TestWindowByTheClockOfRedis' ./seckill/gate"]
  }
];
