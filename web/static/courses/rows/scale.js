// Scale and operation. stock.js says what a row has.
export default [
  {
    "id": "redis-gone", "by": "E",
    "words": ["降级", "服务降级", "Redis 宕机", "Redis 挂了怎么办", "Redis 高可用", "哨兵", "Redis Cluster", "兜底", "fallback", "degrade", "Redis down"],
    "also": ["redis服务挂掉", "缓存服务器宕机"],
    "zh": { "taught": "Redis 挂了：本地缓存、限流、降级", "ours": "已有地址的买家照样买得到：一次调用超时（0.25 秒，这一批收到 `busy`）熔断就打开，再过 0.4 秒，他们的点击直接进 Postgres，同样合并、成批，条数少一些，答复就是最后的结果。没有地址的买家在 Redis 恢复之前只收到 `busy`，页面自动重试；所以停 60 秒以上就没有人能买，货都留着。不在没有 Redis 时发地址，是因为那样就不再是大闸：同时有效的地址由所有进程一起数，一道题只能答一次，这两样都在 Redis 里；每个进程各发各的，就是大闸乘以进程数，还不用答题，只断了自己那条 Redis 连接的进程也成了后门。绕过之前先在秒杀的行上做记号，别的进程就知道；Redis 恢复后把这些买家补进库存闸再用它。会话有十分钟的副本，列表可以旧一分钟。故障从不说成“已售罄”。" },
    "en": { "taught": "Redis is down: local cache, limits, degradation", "ours": "Buyers with an address can go on buying: one call without a reply (0.25 s; its batch receives `busy`) opens the breaker, and 0.4 s later their clicks go straight to Postgres, coalesced and in batches as before but fewer at a time, and the reply is final. Buyers without an address receive `busy` until Redis is back, and their page retries; so after 60 s of an outage no one can buy, and the units stay. No address is granted without Redis, because the big gate would end: all processes together count the live addresses, and a sum has one try, both in Redis. If each process granted its own, the bound would be multiplied by the processes, without a sum, and a process that has lost only its own connection would be a way around the gate. The sale's row is marked before the gate is bypassed, so other processes know; when Redis is back, these buyers are written into the gate before it is trusted. Sessions have copies for ten minutes, lists may be a minute old. A fault is never reported as sold out." },
    "code": [["seckill/direct.go", "serve"], ["seckill/direct.go", "mark"], ["seckill/gate/breaker.go", "Available"], ["seckill/rebuild/rebuild.go", "seedOwners"], ["user/session_copies.go", "FindCtx"], ["seckill/big_gate.go", "admit"], ["seckill/captcha/captcha.go", "check"]],
    "see": ["page:/teach.html#redis", "page:/teach.html#flush"],
    "run": ["go test -v -count 1 -run 'TestSaleGoesOnWithoutRedis|TestWithoutRedisNoAddressIsGranted|TestBypassedGateIsSeededByTheNextProcess' ./seckill", "./miaosha lab --faults redis-pause --strategies lua,shop"]
  },
  {
    "id": "circuit-breaker", "by": "A",
    "words": ["熔断", "断路器", "Hystrix", "Sentinel", "Feign 超时", "超时", "服务雪崩", "线程隔离", "舱壁", "circuit breaker", "time-out", "bulkhead", "重试", "重试风暴", "指数退避", "retry", "backoff"],
    "also": ["熔断器", "超时时间", "connectTimeout", "readTimeout", "timeoutInMilliseconds", "SEMAPHORE"],
    "zh": { "taught": "熔断和超时（Hystrix、Feign）", "ours": "对 Redis 的每次调用都经过熔断，有自己的时限：一次超时、连续三次失败，或者十秒内五次且占一成，就打开。只有后台去试 Redis 恢复了没有，买家的请求从不当试探。在教学面板里暂停 Redis，看它断开、半开、再闭合。Postgres 的连接池按用途分开（落库、付款、用户、页面），语句有时限，一处慢不拖住别处。\n抢的调用等 0.25 秒，其他调用 0.7 秒，落库的语句 1.5 秒；畅购给 Feign 连接 60 秒、读 20 秒，熔断也是 20 秒，一个不答的服务会把请求占住这么久。" },
    "en": { "taught": "Circuit breaker and timeouts (Hystrix, Feign)", "ours": "Every call to Redis goes through the breaker and has a time limit: it opens after one timeout, three failures in a row, or five in ten seconds that are a tenth of the calls. Only background work probes whether Redis is back, never a buyer's request. Stop Redis on the teaching panel, and see it open, half-open and closed again. Postgres has a pool for each use (settle, payments, users, pages) with time limits, so a slow one does not hold up the others.\nA click waits 0.25 s for Redis, other calls 0.7 s, and a statement that settles 1.5 s. Changgou allows Feign 60 s to connect and 20 s to read, and the breaker 20 s: a service that does not reply holds each request that long." },
    "code": [["seckill/gate/breaker.go", "newBreaker"], ["seckill/gate/breaker.go", "call"], ["seckill/backend/postgres.go", "openPools"]],
    "see": ["page:/teach.html#redis", "lesson:retries"],
    "run": ["go test -v -count 1 -run 'TestBreakerOpens|TestOnlyBackgroundWorkProbes|TestCallHasItsOwnTimeLimit' ./seckill/gate", "./miaosha lab --faults redis-pause --strategies shop"]
  },
  {
    "id": "many-servers", "by": "CDE",
    "words": ["nginx", "负载均衡", "反向代理", "水平扩展", "集群部署", "upstream", "ip_hash", "Keepalived", "LVS", "多台服务器", "load balancer", "reverse proxy", "many servers"],
    "also": ["集群环境", "Ngnix", "可拓展", "多个服务", "淘宝", "京东", "双十一", "弹性", "分布式部署"],
    "zh": { "taught": "nginx 后面多台服务器，Redis 只放 Session", "ours": "进程数不限，只共享 Postgres 和 Redis；每个后台循环都可以有多份，没有主节点。会话不用粘在一台上。`deploy/nginx.conf` 是完整的配置，有测试：轮流重启时买家不会察觉，事件流不缓冲，按真实地址限流。会话可以有自己的 Redis（`SESSION_REDIS_URL`）。" },
    "en": { "taught": "Many servers behind nginx, a Redis for sessions only", "ours": "Any number of processes share Postgres and Redis and nothing else; every background loop is safe in several copies, and none is the leader. Sessions need not stick to a process. `deploy/nginx.conf` is a complete, tested configuration: buyers do not notice a rolling restart, events are not buffered, and limits use the real addresses. Sessions may have a Redis of their own (`SESSION_REDIS_URL`)." },
    "code": [["deploy/nginx.conf", "upstream"], ["seckill/alive/presence.go", "Dead"], ["seckill/reclaim.go", "inherit"], ["SCALE.md", ""]],
    "see": ["page:/teach.html#kill", "race:mutex"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off", "./miaosha lab --processes 4 --strategies mutex,shop"]
  },
  {
    "id": "hot-items", "by": "BE",
    "words": ["热点商品", "热点数据", "热点发现", "热 key", "热点隔离", "热点探测", "hot key", "hot item", "hot row", "hotspot"],
    "also": ["热点", "发现与隔离", "爆火", "明星", "快速爆火"],
    "zh": { "taught": "发现突然变热的商品，单独隔离", "ours": "每场秒杀有自己的合并通道（lane）和自己的队列，最热的那场排队，不占别场的位置：一场同时只有一批在落库。页面的本地缓存按访问频率淘汰（W-TinyLFU），热的自己留下，所以发现之后不用再做什么。店主在 `/hot`、指标和日志里看得到哪场突然变热：每秒点击不少于 100（`--hot-clicks`），又是别场中位数的 10 倍（`--hot-factor`）。热点行由批量解决：锁一次，写几百单。" },
    "en": { "taught": "Find suddenly hot items and keep them apart", "ours": "Each sale has a lane and a queue of its own, so the hottest one waits in its own queue: one batch of a sale is settled at a time. The local cache evicts by frequency (W-TinyLFU), so what is hot stays, and nothing needs to be done once it is found. The operator sees a suddenly hot sale at `/hot`, in the metrics and in the log: 100 clicks a second or more (`--hot-clicks`) and ten times the median of the others (`--hot-factor`). The hot row is solved by batches: one lock for hundreds of orders." },
    "code": [["seckill/hot/heat.go", "judge"], ["seckill/hot/hot.go", "measure"], ["seckill/lane.go", "of"], ["seckill/queue/queue.go", "Next"], ["goods/cache.go", "NewCache"]],
    "see": ["lesson:hot", "lesson:batch", "lesson:buckets"],
    "run": ["./miaosha bench --sales 50 --seconds 3", "curl -s http://127.0.0.1:8081/hot"]
  },
  {
    "id": "sessions-and-pools", "by": "BE",
    "words": ["Session 有效期延长", "token 续期", "连接池", "Druid", "HikariCP", "max_connections", "JedisPool", "5000 线程", "Tomcat 线程数", "主从", "主从复制", "读写分离", "读写分离中间件", "分库分表", "连接数", "session life", "connection pool", "read replica", "primary and standby", "延长有效期", "半同步复制", "连接池耗尽", "大事务"],
    "also": ["jedis连接池", "max-active", "min-idle", "poolMaxTotal", "poolMaxWait", "poolMaxldle", "数据库连接过多", "Jedis", "登录名", "30分钟过期", "从库", "登陆名", "延长30分钟"],
    "zh": { "taught": "会话随使用延长；5,000 线程下的 Redis 和数据库连接池；主从与读写分离", "ours": "会话 12 小时不用就结束，一直用最多活三天；续期在后台做，一个会话十分钟最多写一次，所以抢购时请求不等它，结束了的会话也不会被续活。课程把 Jedis 的 `poolMaxTotal` 改成 1000（默认 8 个），才跑得起 5,000 个线程；这里一个进程对 Redis 最多 64 个连接（`--redis-pool`），会话另有 8 个，几千个点击合并成几次调用，所以够用；取不到连接最多等 0.3 秒。对 Postgres 最多 38 个：热点行一次只能由一个事务修改，连接再多只是队列更长，要快就得成批。各池的大小可以设（`--pool-settle` 等），超过 `max_connections` 时启动就有警告。读写分离：`--read-database-url` 让列表和详情读从库，按主库日志的位置算它落后多少，落后超过 2 秒就不读；凡是要作决定的、要显示自己订单的，都读主库，所以不会付了款却看不到订单。主库坏了自动改用接管的从库。" },
    "en": { "taught": "Session life extended by use; Redis and database pools under 5,000 threads; primary, standby and read replicas", "ours": "A session that is not used ends after 12 h, one that is used after three days. It is renewed in the background, by one write in ten minutes at most, so no request of a rush waits for it, and never after it was ended. The course raises `poolMaxTotal` of Jedis to 1,000 (from 8 by default) to run 5,000 threads. Here a process has at most 64 connections to Redis (`--redis-pool`), and 8 more for sessions; thousands of clicks become a few calls, so this is enough, and a call waits for a connection for 0.3 s at most. It has at most 38 connections to Postgres: one transaction at a time changes the hot row, more connections only make the queue longer, and batches are what makes it fast. `--pool-settle` and others set the size of each pool, and a process whose pools exceed `max_connections` warns when it starts. With `--read-database-url` lists and details are read at a standby, unless it is more than 2 s behind by its position in the log of the primary; decisions, and a buyer's own order, are read at the primary, so a paid order is never missing. A standby that takes over is found without a restart." },
    "code": [["user/session_renew.go", "renew"], ["seckill/backend/postgres.go", "openPools"], ["seckill/backend/pools.go", "Pools"], ["seckill/backend/replica.go", "check"], ["goods/cache.go", "ReadFrom"], ["seckill/backend/failover.go", "poolForPrimary"], ["deploy/README.md", ""], ["seckill/backend/redis.go", "redisOptions"]],
    "see": ["lesson:hold", "lesson:little", "lesson:failover", "lesson:backup"],
    "run": ["./miaosha config", "go test -v -count 1 -run 'TestRenewalsAreInTheBackground|TestARenewalRevivesNoSession' ./user", "go test -v -count 1 -run 'TestReplica|TestOfSeveralServersTheOneThatTakesWritesIsUsed' ./seckill/backend"]
  },
  {
    "id": "load-test", "by": "E",
    "words": ["JMeter", "压测", "压力测试", "QPS", "TPS", "并发", "5000 个 token", "UserUtil", "wrk", "ab", "k6", "load test", "benchmark", "users' tokens", "性能压测", "p99", "协调遗漏", "coordinated omission"],
    "also": ["5000", "5000个线程", "1300QPS", "2100QPS", "并发量", "4核4G", "虚拟机"],
    "zh": { "taught": "用 JMeter 压测：QPS 1,300 → 2,100", "ours": "`miaosha users` 几秒钟造出几万个已登录的用户，写成带表头的 CSV（user_id、phone、token，加 `--sale` 还有隐藏地址）；`deploy/miaosha.jmx` 是读这个文件的 JMeter 计划：每个买家取地址、抢、轮询到有结果为止。售罄不算出错，其他拒绝（已暂停、太快、繁忙）按代码分开统计（`-Jsample_variables=code`）。店铺要关掉验证码和限流；JMeter 3 以上。`miaosha bench` 自己就是压测工具：报告延迟分布、每单的处理器时间，最后核对每个不变式，因为卖错了的 QPS 没有意义。" },
    "en": { "taught": "Load test with JMeter: 1,300 to 2,100 QPS", "ours": "`miaosha users` makes tens of thousands of logged-in users in seconds, as CSV with a header (user_id, phone, token, and with `--sale` the hidden address); `deploy/miaosha.jmx` is a JMeter plan that reads this file: each buyer asks for an address, buys and polls until the result is final. Sold out is not an error, and other refusals (paused, too many, busy) are counted by their code (`-Jsample_variables=code`). The shop must be open without captcha and limits; JMeter 3 or newer. `miaosha bench` is a load generator itself: it reports latencies and processor time for each purchase, and checks every invariant at the end, since the QPS of a shop that oversells means nothing." },
    "code": [["deploy/miaosha.jmx", "CSVDataSet"], ["user/csv.go", "MintCSV"], ["seckill/bench/worker.go", "doStep"], ["seckill/bench/shapes.go", "ShapeNamed"], ["seckill/operator/bench.go", "drive"]],
    "see": ["lesson:load", "lesson:little"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --captcha off --rate off --ip-rate off", "./miaosha users -n 5000 --sale 1 --out buyers.csv", "jmeter -n -t deploy/miaosha.jmx -l results.jtl -Jusers=buyers.csv -Jsale=1 -Jport=8090 -Jsample_variables=code", "./miaosha bench --seconds 4 --baseline", "./miaosha bench --html /tmp/report.html"]
  },
  {
    "id": "bottleneck", "by": "BE",
    "words": ["性能瓶颈", "CPU 监控", "内存监控", "top", "redis-benchmark", "优化前后对比", "QPS 对比", "Prometheus", "Grafana", "火焰图", "bottleneck", "profiling", "metrics"],
    "also": ["性能优化", "系统瓶颈", "内存泄漏", "带宽", "磁盘IO", "资源占用", "isp", "硬件", "网络", "大对象"],
    "zh": { "taught": "看 CPU 和内存找瓶颈；优化前后的 QPS", "ours": "`bench --ladder` 让同样的人群去抢：先是没有优化的店铺，再一次加一项，直到完整的店铺，每级给出 QPS、等待、处理器时间和卖得对不对，这就是课程里“优化前后”的对比。`bench --json` 把每单的处理器时间分给本店、Postgres、Redis 和客户端，看得出瓶颈在哪里。运行中有 `/metrics` 和 pprof。" },
    "en": { "taught": "Watching processor and memory to find the bottleneck; QPS before and after", "ours": "`bench --ladder` sends the same crowd to a shop without optimisations and to shops with one more each, up to the whole one, and prints requests a second, waits, processor time and whether each sold exactly: the before and after of the course. `bench --json` divides the processor time of a purchase among shop, Postgres, Redis and client, which shows the bottleneck. A running shop has `/metrics` and pprof." },
    "code": [["seckill/operator/bench_ladder.go", "rungs"], ["seckill/bench/cost.go", "cost"], ["seckill/bench/usage.go", "MetricsUsage"], ["seckill/metrics.go", "newMetrics"], ["web/serve_ops.go", "Ops"]],
    "see": ["page:/admin.html#live", "lesson:batch", "lesson:backup"],
    "run": ["./miaosha bench --ladder", "./miaosha bench --seconds 4 --json", "curl -s http://127.0.0.1:8081/metrics | grep ^miaosha_", "./miaosha lab --buyers 5000 --stock 1000 --strategies for-update,guard-unique,lua,shop"]
  },
  {
    "id": "warm-up", "by": "E",
    "words": ["预热", "缓存预热", "库存预热", "InitializingBean", "afterPropertiesSet", "系统初始化加载库存", "@PostConstruct", "warm-up", "preload"],
    "also": ["E/MiaoshaController"],
    "zh": { "taught": "开始之前预热缓存（afterPropertiesSet）", "ours": "库存闸在开始前十分钟就建好；开始前 20 到 5 秒，每个进程在每个空闲的连接上把落库的语句跑一遍再回滚，因为一个连接的第一次要慢十分之一秒以上。开始前 20 秒起，列表、所在场次和商品详情一直保持新鲜，开始那一刻的第一个访客不用等任何查询。启动时加载的写法在秒杀中重启会把已经卖掉的库存又写进 Redis；这里的数只从 Postgres 现有的库存来。运行下面的命令，在开始之前打开后台里的这一场，库存闸已经就绪，件数也在里面。" },
    "en": { "taught": "Cache warm-up before the start (afterPropertiesSet)", "ours": "The gate is set up ten minutes ahead. 20 to 5 s before the start, each process runs the statements of a settle on every idle connection and rolls them back, since the first use of a connection is slower by a tenth of a second or more. From 20 s ahead the list, the slot and the detail are kept fresh, so the first visitor at the start waits for no query. Loading at the start of the process writes sold units into Redis again when it restarts during a sale; here the number only comes from the stock that Postgres has now. Run the command below and open its sale in the back office before it begins: the gate is ready, with its units." },
    "code": [["seckill/warm/warm.go", "warm"], ["goods/warm.go", "KeepWarm"], ["goods/stock.go", "SaleStates"], ["seckill/rebuild/rebuild.go", "rebuildNow"]],
    "see": ["page:/admin.html#sales"],
    "run": ["./miaosha sale --title 台灯 --stock 20 --start 30s", "go test -v -count 1 -run TestConnectionsAreWarmBeforeASaleOpens ./seckill/warm", "go test -v -count 1 -run TestVisitorsOfAnOpeningCauseNoQuery ./goods"]
  }
];
