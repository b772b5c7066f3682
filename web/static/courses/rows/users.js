// Users and sessions. stock.js says what a row has.
export default [
  {
    "id": "identity", "by": "ABE",
    "words": ["分布式 Session", "Session 共享", "Spring Session", "cookie", "token", "uuid token", "JWT", "OAuth2", "单点登录", "UserArgumentResolver", "ThreadLocal", "UserContext", "拦截器", "登录", "鉴权", "@PreAuthorize", "distributed session", "log-in", "identity", "分布式会话", "HttpSession", "sessionId", "token 放 Redis", "Spring Security", "shared session"],
    "also": ["登陆", "登陆人", "JWT令牌", "tokenDecode", "username", "readCookie", "uid", "getUserInfo", "localStorage", "登陆凭证", "IS_LOGIN", "LOGIN_USER", "USER_NOT_LOGIN", "spring-session-data-redis", "EnableRedisHttpSession", "分布式Seesion", "session同步", "CookieUtil", "cookieValue", "maxInactiveIntervalInSeconds", "spring-boot-starter-data-redis", "httpServletRequest.getSession", "迁移", "全局唯一", "session迁移到redis", "tomcat容器session", "B/3600", "1小时", "E/映射", "redis服务器专门", "randomUUID", "RedisConfig"],
    "zh": { "taught": "登录身份：所有服务器共享的 Session、Redis 里的 token 或 JWT", "ours": "cookie 或 `Authorization: Bearer` 带一个随机 token，会话在 Redis 里，只存 token 的哈希。每个进程留 0.9 秒的副本，所以抢购时几乎不查。JWT 不用查，但签出去就收不回：退出登录、改密码、账号被盗都要等它过期；要黑名单，就又要查了。这里退出登录后 2 秒内所有进程都拒绝。身份是处理函数的参数，不藏在 ThreadLocal 里。\n慕课网把 token 放在 localStorage，页面里任何脚本都读得到，还拼在 URL 里，日志里就有了；这里的 cookie 是 `HttpOnly`，脚本读不到。" },
    "en": { "taught": "Log-in identity: a session that all servers share, a token in Redis, or JWT", "ours": "A cookie or `Authorization: Bearer` carries a random token; the session is in Redis, under the token's hash. Each process keeps a copy for 0.9 s, so a rush hardly reads any. A JWT needs no read, but cannot be taken back: a log-out, a new password or a theft waits until it expires, and with a list of revoked tokens every request reads again. Here every process refuses within 2 s of a log-out. The identity is an argument of the handler and not hidden in a ThreadLocal.\nimooc keeps the token in localStorage, where any script of the page reads it, and in the URL, which stands in logs; the cookie here is `HttpOnly`, and no script reads it." },
    "code": [["user/session.go", "Get"], ["user/session_copies.go", "FindCtx"], ["user/session_index.go", "EndAll"], ["web/desk.go", "loggedIn"]],
    "see": ["page:/login.html", "page:/account.html"],
    "run": ["T=$(./miaosha users -n 1 --out - | tail -n 1 | cut -d, -f3); S=http://127.0.0.1:8080/api; curl -s $S/me -H \"Authorization: Bearer $T\"; curl -sX POST $S/logout -H \"Authorization: Bearer $T\"; sleep 1; curl -s $S/me -H \"Authorization: Bearer $T\"", "go test -v -count 1 -run TestLatencyUntilSessionsEndEverywhere ./web"]
  },
  {
    "id": "codes-and-errors", "by": "ABDE",
    "words": ["短信验证码", "OTP", "otpCode", "统一返回", "CommonReturnType", "Result", "CodeMsg", "错误码", "GlobalException", "全局异常处理", "@ControllerAdvice", "JSR303", "参数校验", "@Valid", "Hibernate Validator", "one-time code", "error codes", "validation", "EmBusinessError", "BusinessException", "通用返回对象", "统一返回结果", "Result 封装", "@ExceptionHandler"],
    "also": ["StatusCode", "通用返回体", "返回体", "CommonError", "errCode", "errMsg", "UNKNOW_ERROR", "业务异常", "OTP验证码", "getotp", "手机号", "telphone", "PARAMETER_VALIDATION_ERROR", "USER_NOT_EXIST", "枚举", "BussinessException", "SeckillServerCodeMsg", "Result.error", "E/Result", "getErrorCode", "setErrMsg", "@ResponseStatus", "统一错误码", "注册", "错误信息"],
    "zh": { "taught": "短信验证码；统一返回 {code, msg, data}；错误码表；参数校验", "ours": "成功是 `{code: ok, data}`，拒绝是 `{code, msg}` 加合适的 HTTP 状态，字段有误时还有 `fields`，都来自一张表；msg 跟随语言。验证码存 HMAC，五分钟，一次，只在要它的浏览器里有效，五次试错作废。字段的规则在 API 里查，请求体里未知的字段、多余的数据也拒绝。\n没料到的错误答 500 `internal` 和一个编号，细节只进日志；慕课网一律答 200，监控和代理就分不出成败。" },
    "en": { "taught": "One-time code by SMS; uniform answer {code, msg, data}; error table; validation", "ours": "Success is `{code: ok, data}`, a refusal `{code, msg}` with the fitting HTTP status, and `fields` if some are wrong, all from one table; msg follows the language. A code is kept as an HMAC for five minutes and one use, is valid only in the browser that asked for it, and is void after five wrong tries. The API checks each field's rule, and refuses unknown fields and trailing data.\nAn unexpected error is a 500, `internal`, with a reference, and its details are only in the log; imooc answers 200 for all, so no monitor and no proxy can tell them apart." },
    "code": [["web/errors.go", "refusals"], ["web/errors.go", "writeError"], ["web/desk_body.go", "decode"], ["user/code.go", "SendCode"], ["user/form.go", "CheckPhone"]],
    "see": ["page:/login.html?register"],
    "run": ["curl -s http://127.0.0.1:8080/api/otp -H 'Content-Type: application/json' -d '{\"phone\":\"110\"}'", "go test -v -count 1 -run TestRefusalsHaveTheirStatusAndCode ./web"]
  },
  {
    "id": "profile-fields", "by": "B",
    "words": ["ValidationResult", "ValidatorImpl", "字段校验", "@NotBlank", "@Min", "@Max", "年龄范围", "用户资料", "一次返回所有错误", "profile fields", "field errors", "年龄", "性别", "gender", "age"],
    "also": ["校验器", "校验规则", "@NotNull", "ConstraintViolation", "hasErrors", "getErrMsg", "errorsMsgMap"],
    "zh": { "taught": "用户字段有范围，一次列出所有错的字段", "ours": "手机号、密码、昵称只在 API 里检查：`bad_request` 的 `fields` 列出每个错的字段、原因和说明，说明跟随语言；页面不检查，事先写出的规则只是文字（有测试保证数字一致），一次标出所有错的字段。昵称不许有不可见字符，也不许像员工的名称。数据库对手机号另有一条较宽的检查约束，对昵称没有。本店没有年龄、性别：买东西用不到，就不收集。" },
    "en": { "taught": "Profile fields with ranges; the answer lists every wrong field", "ours": "Phone, password and nickname are checked only by the API: `fields` in `bad_request` lists every wrong field with its reason and a message in the user's language. The page checks nothing: the rules it shows beforehand are text (a test keeps their numbers right), and it marks all wrong fields at once. A nickname must not contain invisible characters or look like a staff name. The database has a looser check constraint for the phone, and none for the nickname. There is no age and no gender: a purchase does not need them, so they are not collected." },
    "code": [["user/form.go", "CheckPhone"], ["user/form.go", "CheckPassword"], ["user/nickname.go", "CheckNickname"], ["web/static/field.js", "focusFirstError"]],
    "see": ["page:/login.html?register"],
    "run": ["curl -s http://127.0.0.1:8080/api/register -H 'Content-Type: application/json' -d '{\"phone\":\"110\",\"code\":\"1\",\"password\":\"short\",\"nickname\":\"admin\"}'", "go test -v -count 1 -run 'TestForms|TestNicknames' ./user"]
  },
  {
    "id": "double-md5", "by": "E",
    "words": ["两次 MD5", "MD5", "MD5 加盐", "明文密码", "固定盐", "随机盐", "DigestUtils", "密码加密", "double MD5", "salt", "password hash", "argon2", "双重 MD5", "明文密码加密"],
    "also": ["密码校验"],
    "zh": { "taught": "密码两次 MD5：浏览器一次，服务器加盐一次", "ours": "argon2id（19 MiB，两遍，约 50 毫秒）。MD5 一块显卡每秒能试几百亿次；而且浏览器算好的第一次 MD5 就成了真正的密码，偷到它就能登录。传输由 TLS 保护。旧系统的两次 MD5 账号可以导入（`--legacy-salt`；盐放在别的位置时，加 `--legacy-pattern`、`--legacy-row-pattern`），第一次登录时换成 argon2id。第一条命令先用密码、再用它的 MD5 登录：后一个被拒绝；最后一条量两种哈希各要多久。" },
    "en": { "taught": "Double MD5 of the password: in the browser, then with a salt on the server", "ours": "argon2id (19 MiB, two passes, about 50 ms). A graphics card tries tens of billions of MD5s a second, and the first MD5, made in the browser, becomes the real password: whoever has it can log in. TLS protects the transfer. Accounts with the old double MD5 can be imported (`--legacy-salt`, and `--legacy-pattern` and `--legacy-row-pattern` where the salts stand elsewhere), and their first log-in replaces it with argon2id. The first command logs in with a password and then with its MD5, which is refused; the last one measures both hashes." },
    "code": [["user/password.go", "hash"], ["user/legacy.go", "legacyMatches"], ["user/legacy.go", "upgrade"]],
    "see": [],
    "run": ["S=http://127.0.0.1:8080/api; for P in miaosha-demo $(printf miaosha-demo | md5sum | cut -c1-32); do curl -s $S/login -H 'Content-Type: application/json' -d \"{\\\"phone\\\":\\\"13800000000\\\",\\\"password\\\":\\\"$P\\\"}\"; done", "go test -v -count 1 -run 'TestTheFirstMD5IsNoPassword|TestAnOldAccountIsUpgradedByItsFirstLogin|TestHash' ./user", "go test -run '^$' -bench Hashes ./user"]
  },
  {
    "id": "user-cache", "by": "E",
    "words": ["用户对象缓存", "对象缓存", "MiaoshaUserKey", "改密码删缓存", "更新密码", "缓存更新", "user cache", "change of the password", "用户缓存"],
    "also": ["用户信息缓存", "User对象", "更新用户的密码", "长期缓存"],
    "zh": { "taught": "用户对象缓存；改密码时删除缓存", "ours": "会话里带着用户编号和角色，抢购时不查用户表；进程里的副本最多 0.9 秒。改密码让 `generation` 加一，结束这个用户其他的会话，也结束正在进行的登录：2 秒内所有进程拒绝。课程只删用户的缓存，旧 token 还能用到过期。第一条命令让演示买家登录两次，用第二个会话改密码（改成同一个），第一个会话就结束了；浏览器里的演示买家也要重新登录。" },
    "en": { "taught": "User object cache, dropped when the password changes", "ours": "A session carries the user's id and role, so a purchase reads no users; a process's copy is 0.9 s old at most. A new password raises `generation`, which ends the user's other sessions and the log-ins under way: every process refuses them within 2 s. The course drops the cached user, and the old tokens stay valid until they expire. The first command logs the demo buyer in twice and changes the password (to the same one) in the second session, which ends the first one, and the demo buyer in your browser too." },
    "code": [["user/session_copies.go", "fetch"], ["user/change.go", "ChangePassword"], ["user/session_index.go", "EndAll"]],
    "see": ["page:/account.html"],
    "run": ["S=http://127.0.0.1:8080/api; J='Content-Type: application/json'; login() { curl -s $S/login -H \"$J\" -d '{\"phone\":\"13800000000\",\"password\":\"miaosha-demo\"}' | grep -o '\"token\":\"[^\"]*' | cut -c10-; }; A=$(login); B=$(login); curl -s $S/me -H \"Authorization: Bearer $A\"; curl -s $S/password -H \"$J\" -H \"Authorization: Bearer $B\" -d '{\"old\":\"miaosha-demo\",\"new\":\"miaosha-demo\"}'; sleep 2; for T in $A $B; do curl -s $S/me -H \"Authorization: Bearer $T\"; done", "go test -v -count 1 -run 'TestChangePassword|TestAChangeEndsALogInUnderWay' ./user"]
  }
];
