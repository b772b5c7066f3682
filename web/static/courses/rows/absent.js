// What the courses have and this shop does not, and what takes its place. stock.js says what a row has.
export default [
  {
    "id": "services", "by": "A",
    "words": ["微服务", "Eureka", "Ribbon", "Feign", "OpenFeign", "Spring Cloud", "注册中心", "服务发现", "Nacos", "Dubbo", "Zuul", "microservices", "service discovery"],
    "also": ["@FeignClient", "EnableDiscoveryClient", "服务提供者", "defaultZone", "渲染服务", "spring-cloud-starter-netflix-eureka-client", "prefer-ip-address", "SecKillOrderFeign", "服务消费者"],
    "zh": { "taught": "微服务：Eureka 注册、Ribbon 负载均衡、Feign 调用", "ours": "这里没有微服务：一个进程就是整个店铺，模块之间是函数调用。没有要注册和发现的服务，一次下单没有几次网络往返，也没有“订单服务超时了，到底扣没扣”。边界靠包：哪个包可以引用哪个，`make borders` 按一张表检查。多台服务器时，nginx 的 `upstream` 列着各个进程，代替 Eureka 的登记；它把请求分给它们，不通就换下一个，代替 Ribbon；`/readyz` 说一个进程现在能不能服务。Feign 的超时和熔断，见“熔断和超时”。" },
    "en": { "taught": "Microservices: registration by Eureka, balancing by Ribbon, calls by Feign", "ours": "There are no microservices here: one process is the whole shop, and its modules call each other as functions. No service has to register or to be found, a purchase has no chain of network calls, and no timeout leaves open whether a unit was taken. The borders are packages: which may import which is a table that `make borders` checks. With several servers, nginx's `upstream` lists the processes, in place of Eureka; nginx divides the requests among them and goes on to the next if one fails, in place of Ribbon; and `/readyz` says whether a process can serve now. For Feign's timeouts see the circuit breaker." },
    "code": [["deploy/nginx.conf", "upstream"], [".ci/borders", "seckill"], ["web/serve_ops.go", "Ops"]],
    "see": [],
    "run": ["make borders", "curl -s http://127.0.0.1:8081/readyz"]
  },
  {
    "id": "broker-parts", "by": "ABD",
    "words": ["交换机", "exchange", "路由键", "routing key", "topic", "主题", "tag", "nameserver", "broker", "生产者组", "消费者组", "订阅模式", "匿名队列", "consumer group"],
    "also": ["topicname", "setNamesrvAddr", "9876", "DefaultMQProducer", "DefaultMQPushConsumer", "producer_group", "MessageListenerConcurrently", "subscribe", "概念模型", "fanous", "订单结果交换机", "amqp", "spring-rabbit", "MQClientException", "MQBrokerException", "RemotingException", "MessageExt", "MqConsumer", "rocketmq-client", "registerMessageListener", "stock_consumer_group"],
    "zh": { "taught": "消息中间件的部件：交换机、路由键、topic、nameserver、生产者组和消费者组", "ours": "没有 broker，所以这些都不用配置。一场秒杀一条流水（Redis 的 stream，key 里是秒杀编号，相当于 topic），不用消费者组：每条记录写着是哪个进程的，谁发出的排队号谁落库，它死了由别的进程接管。一对多的通知不用 fanout 交换机和匿名队列：结果在 Postgres 和 Redis 里，每个进程自己去看，谁也不会漏收一条；售罄标记 50 毫秒自己到期，没有什么要广播。" },
    "en": { "taught": "The parts of a message broker: exchange, routing key, topic, nameserver, groups of producers and consumers", "ours": "There is no broker, so none of these has to be set up. Each sale has a journal (a stream of Redis whose key has the id of the sale, as a topic would), and instead of a group of consumers each entry names its process, which settles the tickets that it granted; another one takes them over if it dies. Telling many servers needs no fan-out exchange with anonymous queues: results are in Postgres and Redis, every process looks for itself, and none misses a message. The sold-out mark expires after 50 ms, so nothing is broadcast." },
    "code": [["seckill/gate/keys.go", "JournalKey"], ["seckill/gate/scripts/reserve.lua", "XADD"], ["seckill/gate/scripts/takeover.lua", "HSET"], ["seckill/reclaim.go", "takeOver"]],
    "see": ["lesson:journal", "page:/teach.html#kill"],
    "run": ["go test -v -count 1 -run TestTicketsOfDeadProcessesAreSettled ./seckill"]
  },
  {
    "id": "mybatis", "by": "ABC",
    "words": ["MyBatis", "Mapper", "DAO", "mybatis-generator", "通用 Mapper", "MyBatis-Plus", "JPA", "Hibernate", "ORM", "映射文件", "mapper xml"],
    "also": ["@MapperScan", "@Select", "insertSelective", "自动生成器", "DataObject", "UserDO", "sqlMapGenerator", "parameterType", "insertSalective", "selectByPrimaryKey", "SeckillGoodsMapper", "SeckillOrderMapper", "mybatis-spring-boot-starter", "ItemStockDOMapper", "StockLogDOMapper", "UserPasswordDO"],
    "zh": { "taught": "MyBatis：Mapper、映射文件、自动生成的 DAO", "ours": "没有 ORM，没有生成的代码：SQL 就写在用它的函数里，读函数就看得到条件（`stock > 0`）在不在写的那一条里。列由 pgx 按名字放进结构体（`RowToStructByName`），少一列就报错。表都在 `schema.sql` 一个文件里。按主键整行更新的写法（`updateByPrimaryKeySelective`）正是“先读后写”：读到的旧库存会盖掉别人的。" },
    "en": { "taught": "MyBatis: mappers, mapping files, a generated DAO", "ours": "There is no ORM and no generated code: the SQL stands in the function that runs it, so a reader sees whether the condition (`stock > 0`) is inside the write. pgx puts columns into a struct by their names (`RowToStructByName`), and a missing one is an error. All tables are in one file, `schema.sql`. Updating a whole row by its key (`updateByPrimaryKeySelective`) is read-then-write: the old stock that was read overwrites another buyer's." },
    "code": [["goods/stock.go", "Take"], ["order/place.go", "Place"], ["schema.sql", "sales"]],
    "see": ["race:read-then-write"],
    "run": ["go doc -u -src ./goods Take", "./miaosha lab --strategies read-then-write,guard"]
  },
  {
    "id": "three-layers", "by": "ABCE",
    "words": ["三层架构", "三层模型", "Controller", "Service", "DAO 层", "Spring MVC", "Spring Boot", "依赖注入", "IoC", "VO", "DO", "DTO", "@Autowired", "three layers", "dependency injection"],
    "also": ["@RestController", "SpringBootApplication", "业务层", "@Bean", "业务逻辑层", "BaseController", "ItemVO", "ItemModel", "convertVOFromModel", "@Component", "service层", "@RequestMapping", "@ResponseBody", "@GetMapping", "@RequestParam", "SpringApplication", "@Configuration", "UserController", "OrderController", "UserModel", "ItemService", "前台展示层", "数据库层", "B/InitializingBean", "@PathVariable", "UserService", "E/MiaoshaController"],
    "zh": { "taught": "三层：Controller、Service、DAO；Spring 注入，DO、Model、VO 各一份", "ours": "按事情分包，不按层分：`goods`（库存）、`order`（订单）、`user`（账号）、`seckill`（抢购），规则和 SQL 在一起；`web` 占 Controller 的位置，只解析、调用、写答复。一个结构体从 SQL 用到规则，答复另有一个 JSON 的，不是 DO、Model、VO 三份来回拷贝。没有容器和注解：`main.go` 把依赖一个一个传进去，少一个就编译不过。" },
    "en": { "taught": "Three layers: controller, service, DAO; injection by Spring, and a DO, a model and a VO of each thing", "ours": "Packages are cut by subject and not by layer: `goods` (stock), `order`, `user`, `seckill` (the rush), each with its rules and its SQL together. `web` takes the place of the controllers: it parses, calls and writes the answer. One struct serves SQL and rules, and the answer has one for its JSON: nothing is copied from DO to model to VO. There is no container and no annotation: `main.go` hands each dependency over, and one that is missing does not compile." },
    "code": [["main.go", "serve"], ["web/shop_purchase.go", "address"], ["goods/stock.go", "Take"], [".ci/borders", "goods"]],
    "see": [],
    "run": ["make borders", "go doc ./goods"]
  },
  {
    "id": "serializers", "by": "ABE",
    "words": ["序列化", "反序列化", "Serializable", "RedisSerializer", "GenericToStringSerializer", "StringRedisSerializer", "Jackson2JsonRedisSerializer", "JDK 序列化", "fastjson", "ObjectMapper", "Joda-Time", "serialisation"],
    "also": ["JSON.parseObject", "toJSONString", "setKeySerializer", "JodaDateTimeSerializer", "序列化操作", "编码操作", "RedisConnectionFactory", "setValueSerializer", "A/afterPropertiesSet", "SimpleModule", "JsonSerializer", "DateTimeFormat", "JodaDateTimeDeserializer", "JsonDeserializer", "JSONObject"],
    "zh": { "taught": "RedisTemplate 的序列化器：JDK、String、Jackson、Joda 时间", "ours": "Redis 里不存对象，所以没有序列化器要选：库存闸是几个数字的哈希，排队号是短字符串，用 `redis-cli` 就看得懂；不会因为序列化方式不同，`DECR` 报“不是整数”，或者 key 前面多出乱码。会话是一条固定格式的记录，不用 gob，那每个请求要花 30 微秒。时间带时区存（`timestamptz`），答复里是 RFC 3339。列表和详情的 JSON 编一次，压缩好，发很多次：序列化是瓶颈时，少做就是最快的做法。" },
    "en": { "taught": "Serialisers of RedisTemplate: JDK, String, Jackson, Joda time", "ours": "No objects are kept in Redis, so there is no serialiser to choose: a gate is a hash of a few numbers and a ticket a short text, which `redis-cli` shows as they are. No `DECR` fails because the value was serialised as something else, and no key begins with odd bytes. A session is a record of a fixed form and no gob, which costs 30 us a request. Times are stored with their zone (`timestamptz`) and sent as RFC 3339. The JSON of lists and details is encoded and compressed once and sent many times: where serialisation is the bottleneck, doing less of it is fastest." },
    "code": [["user/codec.go", "Encode"], ["seckill/gate/scripts/install.lua", "stock"], ["web/desk_prepared.go", "prepare"]],
    "see": [],
    "run": ["go test -v -count 1 -run TestCodec ./user"]
  },
  {
    "id": "memcached", "by": "C",
    "words": ["Memcached", "memcache", "Redis/Memcached"],
    "zh": { "taught": "用 Memcached 缓存或计数", "ours": "没有 Memcached：它只会存取和加减，没有脚本、哈希和流，查重复、扣库存、写流水不能一步做完，重启就什么都没了。它能做的两件事，这里都在进程里：缓存（每条每秒最多查一次数据库）和按用户的令牌桶，都不用网络。要所有进程共享的才放 Redis。课程的计数是 `GET`、加一、`SET` 三步，两次点击同时来就少记一次。" },
    "en": { "taught": "Memcached as a cache or a counter", "ours": "There is no Memcached: it stores, reads and adds, and has no scripts, hashes or streams, so the look for an earlier ticket, the unit and the journal cannot be one step, and a restart loses all. What it could do is in the process here, without a network: the cache (at most one query per entry and second) and the token buckets of users. Redis holds only what all processes share. The course's counter is `GET`, add one, `SET`: of two clicks at once, one is not counted." },
    "code": [["goods/cache.go", "load"], ["web/limit.go", "take"]],
    "see": ["lesson:cache", "lesson:limits", "exercise:c-get-set-counter"],
    "run": ["go test -v -count 1 -run TestOneUserIsLimited ./web"]
  },
  {
    "id": "mysql", "by": "ABCE",
    "words": ["MySQL", "InnoDB", "JDBC", "mysql-connector-java", "可重复读", "隔离级别", "AUTO_INCREMENT", "utf8mb4", "repeatable read", "isolation level"],
    "also": ["datasource", "serverTimezone", "已售", "stock_order", "秒杀商品表", "tb_seckill_order", "tb_seckill_goods", "create_time", "CURRENT_TIMESTAMP", "bigint", "索引", "stock表", "seckill_id"],
    "zh": { "taught": "MySQL（InnoDB）：可重复读、自增主键、unsigned", "ours": "这里是 PostgreSQL，课程的写法几乎都能照搬：`select ... for update`、`update ... where stock > 0`、唯一索引、事务。有三处不同。MySQL 默认可重复读，事务里读到的旧库存照样可以拿去写，于是超卖；Postgres 默认读已提交，在可重复读里改别人刚改过的行会报错（40001），要重来。没有 `unsigned`，用检查约束 `stock between 0 and total`。自增主键叫 `generated always as identity`。课程的 `stock`、`stock_order` 两张表，在这里是 `sales` 和 `orders`；已售不另存一列，就是 `total - stock`，所以不会和库存对不上。\n锁的系列文章的 `stock_order` 没有唯一索引，同一个人点两次就是两单；这里有。" },
    "en": { "taught": "MySQL (InnoDB): repeatable read, auto-increment keys, unsigned", "ours": "The database is PostgreSQL, and nearly all of the courses' SQL works as it is: `select ... for update`, `update ... where stock > 0`, unique index, transaction. Three things differ. MySQL is at repeatable read by default, where an old stock that was read may still be written, which oversells; Postgres is at read committed by default, and at repeatable read a change of a row that another transaction has changed fails (40001) and is tried again. There is no `unsigned`; the check constraint is `stock between 0 and total`. An auto-increment key is `generated always as identity`. The course's tables `stock` and `stock_order` are `sales` and `orders` here; the number sold is no column but `total - stock`, so it always agrees with the stock.\nThe articles' `stock_order` has no unique index, so two clicks of one user are two orders; ours has one." },
    "code": [["schema.sql", "stock_within_total"], ["goods/stock.go", "Lock"], ["seckill/backend/postgres.go", "openPools"], ["seckill/lab/strategies/strategy_serializable.go", "Buy"], ["schema.sql", "sales"]],
    "see": ["lesson:guard", "lesson:double-click", "race:serializable"],
    "run": ["./miaosha lab --strategies read-then-write,for-update,guard,serializable"]
  },
  {
    "id": "java", "by": "AB",
    "words": ["JDK", "Java 环境", "Maven", "pom.xml", "jar 包", "Tomcat", "rpm", "Putty", "scp", "环境变量", "application.yml", "启动类", "阿里云服务器", "Java set-up"],
    "also": ["dependency", "依赖", "bash_profile", "Windows", "groupId", "artifactId", "Oracle", "plugin", "SNAPSHOT", "部署学习"],
    "zh": { "taught": "Java 环境：JDK、Maven 依赖、jar 包、application.yml，传到阿里云服务器", "ours": "没有 JVM、Tomcat 和 jar 包：`go build` 出一个文件，`scp` 过去就能运行，依赖写在 `go.mod`，都编在这一个文件里。没有 `application.yml`：设置是命令行参数或环境变量，`miaosha config` 打印每一项现在的值，密码遮住。服务器上由 systemd 启动，崩溃了自动重启；页面和表结构也在这个文件里。" },
    "en": { "taught": "The set-up of Java: JDK, Maven, a jar, application.yml, copied to a server", "ours": "There is no JVM, no Tomcat and no jar: `go build` makes one file, which runs after `scp`; the dependencies are in `go.mod` and compiled into it, and so are the pages and the schema. There is no `application.yml`: settings are flags or environment variables, and `miaosha config` prints the value of each, secrets masked. On a server systemd starts the process, and again after a crash." },
    "code": [["go.mod", "require"], ["deploy/miaosha.service", "ExecStart"], ["deploy/README.md", ""]],
    "see": [],
    "run": ["go build -trimpath -o miaosha .", "./miaosha config"]
  }
];
