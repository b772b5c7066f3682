// Bots and limits. stock.js says what a row has.
export default [
  {
    "id": "hidden-address", "by": "ABCE",
    "words": ["隐藏秒杀地址", "隐藏地址", "秒杀令牌", "随机 path", "动态 URL", "秒杀接口地址隐藏", "MD5 加盐地址", "随机码", "promoToken", "URL 加密", "防刷", "hidden address", "sale token", "random path", "generateSecondKillToken", "隐藏下单接口", "隐藏秒杀接口", "接口隐藏", "秒杀接口隐藏", "验证值", "MD5 校验", "hash 校验", "抢购接口加盐"],
    "also": ["下单接口隐藏", "随机数", "RandomUtil", "getToken", "randomcode", "10秒", "无效访问", "非法访问", "接口加密", "密文", "逻辑收口", "MD5值", "verifyHash", "getVerifyHash", "秒杀验证值", "接口隐匿", "抢购接口隐匿", "createOrderWithVerifiedUrl", "createVerifiedOrder", "60s", "抢购脚本", "脚本", "md5DigestAsHex", "HASH_KEY", "DigestUtils", "秒杀接口地址的隐藏", "秒杀路径", "E/uuid", "刷秒杀接口", "随机字符串", "verifyHashInRedis", "miaosha_hash_", "CacheKey.HASH_KEY", "真实地址", "有效期", "token存入redis", "C/3600", "hash值与Redis中不符合", "验证用户合法性", "商品合法性", "getRandomString"],
    "zh": { "taught": "隐藏秒杀地址：随机路径、随机码、加盐 MD5、秒杀令牌", "ours": "地址就是令牌：用户、到期时间，以及对用户、秒杀、到期时间和会话算的 HMAC-SHA-256，有效 60 秒（`--path-ttl`）。验证只是计算，不查 Redis，所以编造的地址不花任何存储的力气；换了用户、会话或秒杀都不能用。\n锁的系列文章里，同一个人、同一件商品的 MD5 永远不变，盐一泄露谁都能自己算；它说 60 秒，代码里存 3,600 秒，用过也不删。这里的地址到期作废，没到期时再用一次，得到的是同一个排队号。畅购存随机码的 key 带着用户，取的时候却不带，照抄就谁也进不来。" },
    "en": { "taught": "Hidden address: random path, random code, salted MD5, sale token", "ours": "The address is the token: user, expiry, and an HMAC-SHA-256 over user, sale, expiry and session, valid for 60 s (`--path-ttl`). Checking it is arithmetic, not a lookup, so forged addresses cost Redis nothing; no other user, session or sale can use it.\nIn the articles on locks the MD5 of a user and an item is always the same, and anyone who has the salt can compute it; they say 60 s, keep it for 3,600 s, and do not delete it after use. An address here expires, and a second use before that receives the same ticket. Changgou stores the random code under a key with the user and reads one without, so as printed it lets no one in." },
    "code": [["seckill/address/address.go", "Sign"], ["seckill/address/address.go", "Verify"], ["web/shop_purchase.go", "buy"], ["seckill/lab/experiments/experiment_address.go", "signedAddress"]],
    "see": ["lesson:address", "exercise:c-md5-address"],
    "run": ["go test -v -count 1 -run TestAddress ./seckill/address", "go test -v -count 1 -run TestWrongAddressNeverReachesRedis ./web"]
  },
  {
    "id": "big-gate", "by": "B",
    "words": ["秒杀大闸", "大闸", "令牌数量限制", "库存的五倍", "big gate", "gate factor", "tokens per unit"],
    "zh": { "taught": "秒杀大闸：每件库存只发若干个令牌", "ours": "同时有效的地址最多是剩余件数的 5 倍（`--gate-factor`），至少 64 个。文档里只有名字；通常的做法是每件发若干个令牌，发完就没了。这里的会过期，没用掉的让给排队的下一个，浪费过地址的人排到后面，所以囤地址的机器人挡不住别人。" },
    "en": { "taught": "The big gate: a limited number of tokens per unit", "ours": "At most five addresses per unit left are alive at once (`--gate-factor`), and at least 64. The document only has the name; usually each unit has a fixed number of tokens, which are used up for good. These expire, an unused one goes to the next in the queue, and users who wasted addresses come last, so bots that hoard addresses do not keep people out." },
    "code": [["seckill/gate/scripts/path.lua", "FULL"], ["seckill/big_gate.go", "admit"], ["seckill/address/lot.go", "Wait"], ["seckill/lab/experiments/experiment_limits.go", "crowdAtGate"]],
    "see": ["lesson:limits"],
    "run": ["go test -v -count 1 -run 'TestBigGate|TestHoardersDelayPeople' ./seckill/gate"]
  },
  {
    "id": "captcha", "by": "BCE",
    "words": ["验证码", "图形验证码", "数学验证码", "数学公式验证码", "ScriptEngine", "分散请求", "captcha", "math captcha", "防刷验证码", "CodeUtil"],
    "also": ["验证码技术", "错峰", "verifyCode", "错开请求", "错峰流量", "string类型"],
    "zh": { "taught": "抢之前先算数学验证码，分散请求", "ours": "取地址之前答一道题，图片由我们自己画，也可以换成文字题。答案在 Redis 里 60 秒，`GETDEL` 取出来比，所以只能答一次，对错都作废；答案绑定会话。开始前 30 秒就可以先答，开始后的第一秒按抽签放行，不比谁的程序快。\n锁的系列文章先验证、后限流；这里取地址时先限流，再对答案，猜答案的程序也被挡住。" },
    "en": { "taught": "A math captcha before the address, to spread the rush", "ours": "A sum is answered before an address is granted; its picture is drawn here, or it is asked in words. The answer is kept in Redis for 60 s and taken out with `GETDEL`, so there is one try, right or wrong, and it belongs to the session. It may be solved 30 s ahead, and requests in the first second are let in in random order, not by speed.\nThe articles on locks check first and limit afterwards; here the limit comes before the answer is compared, so a program that guesses is limited too." },
    "code": [["seckill/captcha/captcha.go", "check"], ["seckill/captcha/sum.go", "newSum"], ["seckill/captcha/picture.go", "drawCaptcha"], ["seckill/gate/captcha.go", "TakeCaptcha"]],
    "see": ["lesson:address", "page:/"],
    "run": ["go test -v -count 1 -run 'TestCaptcha$' ./seckill/captcha", "go test -v -count 1 -run TestCaptchaHasOneTry ./seckill/gate"]
  },
  {
    "id": "access-limit", "by": "ACE",
    "words": ["@AccessLimit", "AccessLimit", "防刷", "接口限流", "限流", "限流防刷", "计数器限流", "拦截器", "HandlerInterceptor", "自定义注解", "IP 限流", "rate limit", "interceptor", "annotation", "接口限流防刷", "单用户限制频率", "单用户限流", "用户限流", "频率限制", "访问频率", "限制访问次数", "每小时", "per hour"],
    "also": ["限流注解", "切面", "AOP", "@Aspect", "@Around", "Pointcut", "AccessLimitAop", "限制访问频率", "addUserCount", "LIMIT_KEY", "createOrderWithVerifiedUrlAndLimit", "E/防刷", "HandlerInterceptorAdapter", "点击次数", "ProceedingJoinPoint", "@Retention", "stringRedisTemplate", "limitNum", "miaosha_limit", "createVerifiedOrderWithLimit", "outMessage", "HttpServletResponse"],
    "zh": { "taught": "接口限流：@AccessLimit 注解，按用户和时间计数", "ours": "注解变成路由那一行的一部分：按谁数、多快（`5/s`、`60/min`、`30/hour`）、在检查的哪一步；各种限流都列在 `web/limit_table.go`。路由从这一行取限流，所以不会说错，有测试走遍每条路由。`--rate` 和 `--ip-rate` 在每个进程的内存里数，不查 Redis，写成 `30/min` 也一样；自带的一分钟以上的限流，所有进程一起数。固定窗口的计数器在窗口交界处放行两倍：前一分钟的最后几秒 30 次，后一分钟的头几秒又 30 次。令牌桶也放得过两倍：桶满 30 个，一分钟里又补 30 个，`--rate 30/min` 的一分钟最多 60 次；区别是第一下最多 30 次，攒满要先闲一分钟，而且写在 `--help` 里（每秒的限流，桶是两秒的量）。下面的测试把两种并排数出来。\n三门课各数各的：畅购的注解后面只有一个令牌桶，加了注解的方法全都共用，每秒 20 个，不分用户，每台服务器各算各的；miaosha 笔记按用户每分钟计数；锁的系列文章按用户，超过 10 次就不让买。锁的系列文章每来一次就把一小时的期限重设一遍，不停下来就永远不清零；`GET`、加一、`SET` 三步还会少记。" },
    "en": { "taught": "Rate limits: the @AccessLimit annotation, counts per user and time", "ours": "The annotation is part of the route's row: whom it counts, how much (`5/s`, `60/min`, `30/hour`) and at which step of the checks. The limits are in `web/limit_table.go`. The router takes them from the rows, so the rows are true, and a test walks them all. `--rate` and `--ip-rate` are counted in each process without Redis, also as `30/min`; the shop's own limits of a minute and more are counted by all processes together. A counter per fixed window lets twice as many through at its edge: 30 in the last seconds of a minute and 30 in the first of the next. A bucket lets twice as many through too: it is full with 30 and gets 30 more in a minute, so `--rate 30/min` lets up to 60 pass in one. But at most 30 come at once, a full bucket needs an idle minute before, and `--help` says so (for a rate a second, a bucket holds two seconds). The test below counts both side by side.\nThe three courses count differently. Behind changgou's annotation is one token bucket for all methods with it, 20 a second for all users together, in each server separately; the miaosha notes count a user's requests in a minute; the articles on locks refuse a user after 10. They set the expiry of an hour again at each visit, so the count of a user who keeps going never ends; and `GET`, add one, `SET` loses counts." },
    "code": [["web/routes.go", "route"], ["web/limit_table.go", "rule"], ["web/desk.go", "limited"], ["web/desk.go", "allow"], ["user/limit_user.go", "Count"], ["user/rate.go", "NewLimit"]],
    "see": ["lesson:limits", "exercise:c-get-set-counter", "exercise:e-fixed-window"],
    "run": ["T=$(./miaosha users -n 1 --out - | tail -n 1 | cut -d, -f3); curl -so /dev/null -w '%{http_code} ' \"http://127.0.0.1:8080/api/me#[1-30]\" -H \"Authorization: Bearer $T\"", "go test -v -count 1 -run TestEveryRouteHasARowOfLimits ./web", "go test -v -count 1 -run TestAWindowAndABucketLetTwiceThrough ./user"]
  },
  {
    "id": "token-bucket", "by": "ABCE",
    "words": ["令牌桶", "漏桶", "RateLimiter", "Guava RateLimiter", "acquire", "tryAcquire", "限流", "TPS 限流", "nginx 限流", "limit_req", "Sentinel", "token bucket", "leaky bucket", "单机限流", "令牌桶算法", "漏桶算法", "非阻塞", "non-blocking", "全局限流"],
    "also": ["A/接口限流", "A/guava", "网关限流", "防刷限流", "阻塞式", "非阻塞式", "C/限流", "恒定的速度", "RateLimiter.create(10)", "整体的流量", "稳定性", "放入令牌", "限流算法", "1000ms", "TimeUnit.MILLISECONDS", "打到数据库"],
    "zh": { "taught": "令牌桶 RateLimiter：acquire 等待，tryAcquire 不等", "ours": "`golang.org/x/time/rate` 就是 Go 的 RateLimiter，按用户和地址各一个，不等待（tryAcquire）：没有令牌就答 429 和 `Retry-After`。限流那一课比较三种：都等（acquire）一个也不拒绝，却排起没有上限的队，最后一个要等一秒多；都不等；最多等 100 毫秒。整个店铺的上限是在途请求数（`--max-in-flight`）和队列长度（`--qmax`），满了答 503；等待只发生在合并通道里，它只收 20 毫秒内处理得完的点击。" },
    "en": { "taught": "Token bucket (Guava RateLimiter): acquire waits, tryAcquire does not", "ours": "`golang.org/x/time/rate` is Go's RateLimiter, one for each user and each address, without waiting (tryAcquire): no token is answered with 429 and `Retry-After`. The lesson on limits compares three: if all wait (acquire), no request is refused, but the queue has no bound and the last ones wait for more than a second; none waits; all wait for 100 ms at most. The bounds of the whole shop are the requests in flight (`--max-in-flight`) and the queue (`--qmax`); full is a 503. Clicks wait only in their lane, which takes no more than it serves in 20 ms." },
    "code": [["web/limit.go", "take"], ["seckill/seckill.go", "Admit"], ["seckill/lane.go", "full"], ["seckill/lab/experiments/experiment_token_bucket.go", "crowdAtBucket"]],
    "see": ["lesson:limits"],
    "run": ["go test -v -count 1 -run 'TestOneUserIsLimited|TestBuysInFlightAreBounded' ./web"]
  },
  {
    "id": "ban", "by": "C",
    "words": ["封禁", "黑名单", "封 IP", "拉黑", "访问次数过多", "用户封禁", "ban", "blacklist", "too many visits"],
    "also": ["getUserIsBanned", "超过频率限制", "ALLOW_COUNT", "超过10次"],
    "zh": { "taught": "访问太多次就封禁", "ours": "一个用户十分钟内被拒绝 300 次（`--ban`），十分钟内不能再抢（`--ban-for`）：答复是 `banned`（429）和剩余时间，页面照它等待，所以人不会碰到，只有不理会拒绝的程序会。封禁自己结束，`miaosha ban lift` 可以提前解除；查结果、付款、取消不受影响。从不封网络地址：一个班、一间办公室共用一个。第一条命令连发 800 个请求，让一个用户被封，再解除。\n锁的系列文章把判断写反了：Redis 里有记录就算封禁；它先计数、再判断，所以谁都在第一次就被拒绝。" },
    "en": { "taught": "Ban after too many visits", "ours": "A user who was refused 300 times in ten minutes (`--ban`) cannot buy for ten minutes (`--ban-for`): the answer is `banned` (429) with the time left, and the page waits that long, so only a program that ignores refusals gets there. A ban ends automatically, or with `miaosha ban lift`; results, payments and cancelling go on. No address is banned, because a class or an office shares one. The first command sends 800 requests, which bans a user, and lifts the ban.\nIn the articles on locks the check is the wrong way round: any user with a count is banned, and since the count comes first, everyone is refused at the first click." },
    "code": [["user/ban.go", "Refused"], ["user/ban.go", "Check"], ["user/ban.lua", "KEYS"], ["seckill/operator/ban.go", "BanLift"]],
    "see": [],
    "run": ["L=$(./miaosha users -n 1 --out - | tail -n 1); T=$(echo $L | cut -d, -f3); S=http://127.0.0.1:8080/api; curl -so /dev/null \"$S/me#[1-800]\" -H \"Authorization: Bearer $T\"; sleep 3; curl -sX POST $S/sales/1/path -H \"Authorization: Bearer $T\"; ./miaosha ban list; ./miaosha ban lift --phone $(echo $L | cut -d, -f2)", "go test -v -count 1 -run 'TestAUserWhoIsRefusedTooOftenIsBanned|TestABanIsLifted' ./user"]
  },
  {
    "id": "many-accounts", "by": "E",
    "words": ["大量账号", "多账号", "小号", "黄牛", "不法分子", "刷号", "many accounts", "scalpers"],
    "also": ["恶意用户"],
    "zh": { "taught": "一个人有非常多的账号", "ours": "按用户限流挡不住它们：一万个账号，每个都规规矩矩。所以是几层：注册要短信验证码，一个手机号一个账号；网络地址也限流（`--ip-rate`）；取地址要先答题；大闸让同时有效的地址最多是剩余件数的 5 倍；开始后第一秒抽签，程序快没有用。实验里先到先得，快的程序拿走一半；抽签后少得多；每个机器人有十个账号时又拿走近一半，按手机号只进一次才回到原来的份额。手机号也成千上万，就要靠实名和人工审核，本店没有。" },
    "en": { "taught": "One person with very many accounts", "ours": "A limit for each user does not stop them: ten thousand accounts, each well behaved. So there are layers: an account needs a code by SMS, one for each phone; network addresses are limited too (`--ip-rate`); an address is granted after a sum; the big gate keeps at most five live addresses for each unit left; and requests in the first second are put in random order, so a fast program gains nothing. In the experiment, fast programs take half of the units under first come, first served, and far fewer in random order; with ten accounts for each bot they take nearly half again, and one entry for each phone brings them back to their share. Thousands of phones need identity checks and manual review, which this shop does not have." },
    "code": [["seckill/address/lot.go", "turn"], ["web/limit_table.go", "rule"], ["user/code.go", "SendCode"], ["seckill/gate/scripts/path.lua", "FULL"], ["seckill/lab/experiments/experiment_fair.go", "runFair"]],
    "see": ["lesson:fair", "lesson:limits"],
    "run": ["go test -v -count 1 -run TestHoardersDelayPeople ./seckill/gate"]
  }
];
