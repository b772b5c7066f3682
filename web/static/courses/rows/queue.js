// Queues and messages. stock.js says what a row has.
export default [
  {
    "id": "message-queue", "by": "ABCDE",
    "words": ["消息队列", "削峰", "异步下单", "队列泄洪", "RabbitMQ", "RocketMQ", "Kafka", "MQ", "prefetch", "线程池", "BlockingQueue", "阻塞队列", "Disruptor", "ExecutorService", "CountDownLatch", "多线程下单", "@Async", "message queue", "peak shaving", "asynchronous order", "thread pool", "固定线程池", "newFixedThreadPool", "削峰填谷", "流量削峰", "消费者预取", "预取", "basicQos", "prefetch 100-300", "消费者", "消息堆积", "积压", "排队", "排队抢单", "多线程抢单"],
    "also": ["消息抓取总数", "预抓取总数", "OOM", "吞吐量", "@RabbitListener", "监听类", "asyncReduceStock", "异步消息", "mqProducer", "异步写入", "异步处理", "降流", "MIAOSHA_QUEUE", "监听器", "请求堆积", "消息中间件", "入队", "出队", "队列缓冲", "高并发", "数据库压力", "压力", "服务器垮掉", "等待时间", "瞬时", "高峰"],
    "zh": { "taught": "消息队列异步下单、削峰、泄洪，消费者预取", "ours": "队列在进程里：有上限，满了就答 503。一场秒杀同时只有一个工作协程落库，一次取走最多约 2,000 个排队号：一行只能一个事务一个事务地改，泄洪用 20 个线程抢同一把行锁也不会更快；6 个工作协程是给同时进行的几场秒杀用的。没有 prefetch 要调：排队号已经在本进程里，一次全取走。不需要 broker：扣库存的脚本同时把排队号写进 Redis 的流水（stream），进程死了由别的进程认领。少一个要部署、要保证可靠的系统，也少一次网络往返。畅购发出消息就答“下单成功”；这里先答 queued，提交之后才是 ordered。预取太小白费往返，太大撑满内存，所以官方建议 100 到 300；这里的上限是 `--qmax`，满了答 503，一批多大合适有一课可以量。" },
    "en": { "taught": "A message queue for asynchronous orders and peak shaving, draining, prefetch", "ours": "The queue is in the process: bounded, and full is answered with 503. One worker at a time settles a sale, up to about 2,000 tickets a batch: one transaction at a time changes a row, so draining with 20 threads for one row lock would be no faster, and six workers are for several sales at once. There is no prefetch to tune: the tickets are in the process already, and a worker takes them all. No broker is needed: the script that takes the unit also writes the ticket to a journal in Redis (a stream), and another process claims it if this one dies. That is one system less to run and to trust, and one round trip less. Changgou answers that the order is placed once its message is sent; here the answer is queued, and ordered after the commit. A prefetch that is too small wastes round trips and one that is too large fills the memory, hence the advice of 100 to 300; here `--qmax` is the bound, full is a 503, and a lesson measures sizes of batches." },
    "code": [["seckill/queue.go", "submit"], ["seckill/queue.go", "next"], ["seckill/settle.go", "settle"], ["seckill/lane.go", "runLane"], ["seckill/lab/strategy_lua_channel.go", "Buy"]],
    "see": ["lesson:batch", "lesson:batch-size", "lesson:confirm", "lesson:journal"],
    "run": ["./miaosha bench --shape second", "./miaosha lab --strategies guard-unique,lua-channel,shop --buyers 2000 --stock 1000"]
  },
  {
    "id": "reliable-messages", "by": "ABD",
    "words": ["消息可靠性", "消息丢失", "RabbitMQ", "持久化", "手动 ACK", "手动确认", "basicAck", "basicNack", "死信", "死信队列", "死信交换机", "DLX", "消息重发", "重复消费", "幂等", "丢单", "dead letter", "manual ack", "persistent message", "lost message", "消息持久化", "durable", "DLQ", "生产者", "幂等性", "自动确认", "消息不丢失", "手动应答", "dead letter queue"],
    "also": ["持久化策略", "交换机持久化", "队列持久化", "自动应答", "acknowledge-mode", "getDeliveryTag", "A/宕机", "异步消息发送失败", "发送失败", "CONSUME_SUCCESS", "签收消息", "ConsumeListener", "拒绝消息", "回到原有队列", "requeue", "磁盘", "磁盘持久化", "自动通知", "扣减库存执行失败", "A/内存", "RabbitMQConfig", "SECKILL_ORDER_KEY", "receiveSecKillOrderMessage", "consumeMessage"],
    "zh": { "taught": "消息不丢：持久化、发送确认、手动 ACK、死信", "ours": "发送和扣库存是同一个脚本里的一步，不会扣了没发。Postgres 提交之后才 ack；进程死了，别的进程认领它的排队号再落库一次，落库是幂等的。被认领 64 次仍没有结果的排队号被拒绝，并抄进死信（stream，保留七天），有指标，`miaosha audit` 打印出来。流水和 Redis 一样持久：`appendonly yes`、`everysec` 时，Redis 所在的机器断电最多丢一秒；丢了的库存闸按 Postgres 重建，提交之前没有人听到“成功”，再点一次就行。`basicNack` 的最后一个参数是 requeue：true 放回队列，false 丢弃，队列配了死信交换机才进死信。畅购的注释写反了，代码传 false，又没有死信交换机，失败的订单就没了。慕课网的消费者不看改了几行，总是答 CONSUME_SUCCESS；这里每个排队号都有一个结果。教学面板可以暂停、清空 Redis，看库存闸怎样重建。" },
    "en": { "taught": "No message is lost: persistence, publisher confirm, manual ack, dead letters", "ours": "Sending is in the same script as taking the unit, so a unit is never taken without its message. The ack follows the commit in Postgres. If a process dies, another one claims its tickets and settles them again, which is idempotent. A ticket without a result after 64 owners is rejected and copied to the dead letters (a stream, seven days), with a metric, and `miaosha audit` prints them. The journal is as durable as Redis: with `appendonly yes` and `everysec`, a machine without power loses a second at most; the gate is then rebuilt from Postgres, and no buyer was told of an order before the commit, so a new click is enough. The last flag of `basicNack` is requeue: true puts a message back, false drops it, or sends it to the dead letters if the queue has an exchange for them. Changgou's comment has it the wrong way round: its code passes false, without such an exchange, so a failed order is gone. imooc's consumer does not look at the rows that it changed and always answers CONSUME_SUCCESS; here each ticket has a result. The teaching panel stops or flushes Redis, and the gate is rebuilt." },
    "code": [["seckill/gate/scripts/reserve.lua", "XADD"], ["seckill/gate/scripts/ack.lua", "XACK"], ["seckill/reclaim.go", "claim"], ["seckill/gate/journal.go", "DeadLetter"], ["seckill/settle.go", "rejectExhausted"], ["seckill/lab/experiment_confirm_consumer.go", "consume"]],
    "see": ["lesson:confirm", "lesson:journal", "lesson:outbox", "page:/teach.html"],
    "run": ["./miaosha lab --stock 100 --faults kill --strategies lua,lua-channel,shop", "go test -v -count 1 -run 'TestTicketsOfDeadProcessesAreSettled|TestExhaustedTicketIsRejected' ./seckill"]
  },
  {
    "id": "confirm", "by": "A",
    "words": ["confirm 模式", "发布确认", "ConfirmCallback", "ReturnCallback", "nack", "txSelect", "RabbitMQ 事务", "事务模式", "消息重发", "publisher confirm", "broker transaction", "resend", "生产者确认", "发送方确认", "事务机制"],
    "also": ["confirm机制", "publisher-confirms", "CorrelationData", "数据保护机制", "重新发送", "回调方法", "convertAndSend", "CustomMessageSender", "A/生产者", "sendMessage", "RabbitTemplate", "setConfirmCallback", "CorrelationData.getId", "消息唯一标识", "返回失败通知", "元信息", "投递", "异步确认", "A/阻塞", "同步机制"],
    "zh": { "taught": "RabbitMQ 的事务模式与 confirm 模式、nack、重发", "ours": "实验室比较不确认、每条一个事务、每条一次确认、批量确认和我们的流水，看各丢几条、多快。本店的确认就是脚本的答复：答复了，排队号就在流水里。一次调用确认一整批（最多 256 个点击），所以不用逐条等待。没有等到答复的调用记为“不确定”，Redis 一有答复就从流水里认领；重复的调用用同一个 nonce，拿到同一个排队号。畅购把每条消息的元数据存进 Redis，收到 ack 就删，收到 nack 就取出来重发，有三个洞：重发时不带 CorrelationData，再来的 ack 和 nack 就对不上；正文又转一次 JSON，消费者读不懂；broker 宕机时没有 nack，没确认的消息谁也不重发。" },
    "en": { "taught": "Broker transactions and confirm mode of RabbitMQ, nack, resend", "ours": "The lab compares no confirm, a transaction or a confirm for each message, confirms in batches and our journal: what each loses, and how fast it is. Here the reply of the script is the confirmation: with it, the ticket is in the journal. One call confirms a whole batch (256 clicks at most), so no message is waited for alone. A call without a reply is in doubt, and its tickets are claimed from the journal once Redis replies again; a repeated call has the same nonce and receives the same ticket. Changgou keeps the metadata of each message in Redis, deletes them at the ack and sends again at a nack. Three holes: the second sending has no CorrelationData, so its own ack or nack belongs to no message; its body is encoded as JSON once more, which the consumer cannot read; and a broker that is down sends no nack, so what it never confirmed is never sent again." },
    "code": [["seckill/lane.go", "reserve"], ["seckill/gate/gate.go", "Reserve"], ["seckill/facts.go", "markInDoubt"], ["seckill/reclaim.go", "recoverInDoubt"], ["seckill/lab/experiment_confirm.go", "publish"]],
    "see": ["lesson:confirm", "lesson:journal"],
    "run": ["go test -v -count 1 -run 'TestLostReserveReplyIsHarmless|TestTicketsInDoubtAreRecovered' ./seckill"]
  },
  {
    "id": "stock-log", "by": "AB",
    "words": ["库存流水", "stock_log", "事务型消息", "事务消息", "RocketMQ 事务消息", "半消息", "回查", "checkLocalTransaction", "executeLocalTransaction", "TransactionMQProducer", "最终一致性", "一致性", "数据一致性", "分布式事务", "幂等", "transactional message", "half message", "check-back", "stock log", "consistency", "异步事务消息", "异步扣减库存", "TransactionListener", "LocalTransactionState"],
    "also": ["同步mysql", "数据同步", "异步消息扣减", "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "UNKNOWN", "stockLogId", "StockLogDO", "transactionAsyncReduceStock", "sendMessageInTransaction", "数据库记录不一致", "回滚状态", "异步同步数据库", "TransactionSendResult", "setTransactionListener", "transaction_producer_group", "数据不一致", "消息回滚", "getLocalTransactionState"],
    "zh": { "taught": "事务型消息加库存流水（1 未定、2 成功、3 回滚）与回查", "ours": "排队号的结果和订单写在同一个 Postgres 事务里：订单本身就是排队号的结果，其余的在 `ticket_results`。同一个排队号再落库一次，先读到已有的结果，什么也不改，这就是回查。没有“未定”要猜：提交了就有结果，没提交就还在流水里。只在缓存里扣，数据库就不知道卖了多少，Redis 一丢，卖掉的会再卖一次；慕课网因此先加异步消息，再换成事务型消息。" },
    "en": { "taught": "Transactional message with a stock log (1 open, 2 done, 3 rolled back) and check-back", "ours": "The result of a ticket is written in the same Postgres transaction as the order: an order is the result of its ticket, and all other results are in `ticket_results`. Settling a ticket again first reads its result and changes nothing, which is the check-back. No state has to be guessed: after a commit there is a result, and before it the ticket is in the journal. If only the cache is decremented, the database does not know what is sold, and after a loss of Redis it is sold again; hence imooc adds a message, and then makes it transactional." },
    "code": [["schema.sql", "ticket_results"], ["order/place.go", "Place"], ["seckill/settle.go", "settleUntilDone"], ["seckill/lab/strategy_shop.go", "Buy"]],
    "see": ["lesson:confirm", "lesson:journal", "lesson:outbox"],
    "run": ["go test -v -count 1 -run 'TestABatchPlacedAgainChangesNothing|TestATicketHasOneResultWhoeverBringsIt' ./order", "./miaosha audit"]
  },
  {
    "id": "polling", "by": "CDE",
    "words": ["轮询", "客户端轮询", "getMiaoshaResult", "排队中", "-1 失败 0 排队", "秒杀结果", "polling", "result", "抢单状态", "订单状态"],
    "also": ["异步获取", "ajax轮询", "D/ajax", "消耗性能", "200ms", "50ms", "轮询秒杀结果", "小米手机", "E/-1"],
    "zh": { "taught": "客户端每 50 到 200 毫秒轮询结果：-1 失败、0 排队中、订单号成功", "ours": "`GET /api/sales/{id}/result` 答复 `state`（queued、ordered、sold_out 等）、前面的人数 `ahead` 和 `next_poll_ms`：由服务器按队列长短告诉页面下次什么时候来问：拿到排队号后第一次最早在 50 毫秒后，以后最早 200 毫秒，最晚 2 秒。查询成批进行：一次 Redis 管道，一条 SQL。" },
    "en": { "taught": "The client polls every 50 to 200 ms: -1 failed, 0 queueing, an id when done", "ours": "`GET /api/sales/{id}/result` answers with `state` (queued, ordered, sold_out and others), the position `ahead` and `next_poll_ms`: the server says by the length of the queue when to ask again: after 50 ms at least for the first time, 200 ms for later ones, and 2 s at most. Polls are read in batches: one Redis pipeline, one SQL query." },
    "code": [["web/seckill.go", "result"], ["seckill/status.go", "nextPoll"], ["seckill/results.go", "read"], ["web/static/result_stream.js", "resultStream"]],
    "see": [],
    "run": ["L=$(./miaosha users -n 1 --sale 1 --out - | tail -n 1); T=$(echo $L | cut -d, -f3); P=$(echo $L | cut -d, -f4); S=http://127.0.0.1:8080/api; curl -sX POST $S/sales/1/buy/$P -H \"Authorization: Bearer $T\"; for i in 1 2 3; do curl -s $S/sales/1/result -H \"Authorization: Bearer $T\"; sleep 0.2; done", "./miaosha bench --shape polls --seconds 3"]
  },
  {
    "id": "push", "by": "D",
    "words": ["WebSocket", "服务端推送", "消息推送", "@ServerEndpoint", "STOMP", "SSE", "Server-Sent Events", "EventSource", "长连接", "server push", "精准推送", "推送给指定用户", "convertAndSendToUser"],
    "also": ["主动推送", "ORDER.FAIL", "ORDER.SUCCESS", "通知用户", "不同的客户端", "一对多", "D/uuid", "seckillGoodId", "userId", "订单成功", "订单失败"],
    "zh": { "taught": "用 WebSocket 把结果推给对应的用户，成功和失败都推", "ours": "用 SSE（`text/event-stream`）推 `result` 和 `left`。推送只有一个方向，WebSocket 的反方向用不上；SSE 是普通的 HTTP 请求，会话、限流、nginx 都照常起作用，断线由页面重连，连不上就轮询。只推给这个用户自己，登出后 2 秒内断开。" },
    "en": { "taught": "WebSocket push of the result to the right client, success and failure", "ours": "Server-sent events (`text/event-stream`) push `result` and `left`. The push has one direction, so the other one of WebSocket would be unused; SSE is an ordinary HTTP request, so session, limits and nginx work as for any other, and the page reconnects or polls when the stream breaks. A stream carries its own user's results alone and ends within 2 s of a log-out." },
    "code": [["web/events.go", "saleEvents"], ["web/events.go", "pushEvents"], ["seckill/subscribers.go", "publish"], ["web/static/result_stream.js", "resultStream"]],
    "see": ["page:/"],
    "run": ["L=$(./miaosha users -n 1 --sale 1 --out - | tail -n 1); T=$(echo $L | cut -d, -f3); P=$(echo $L | cut -d, -f4); S=http://127.0.0.1:8080/api; (sleep 1; curl -sX POST $S/sales/1/buy/$P -H \"Authorization: Bearer $T\") & curl -sN --max-time 4 $S/sales/1/events -H \"Authorization: Bearer $T\"", "go test -v -count 1 -run 'TestEventsSendResultAndLeft|TestEventsEndWithTheSession' ./web"]
  },
  {
    "id": "listen-after-buy", "by": "D",
    "words": ["返回 200 再连 WebSocket", "先下单再连接", "连接数", "connect after the 200", "listen after the buy", "200 之后再连接", "返回 200 后再建立连接", "建立连接"],
    "also": ["前10个请求", "状态码为200"],
    "zh": { "taught": "收到 200 之后才建立推送连接", "ours": "一样：页面在 buy 答复 202 之后才打开事件流，拿到最后的结果就关上，没有抢的人不占连接；浏览器的 F12、Network 里看得到先后。每个进程里，每个用户最多 5 条流，一共最多 10,000 条。课程说只有前 10 个请求要建立连接，因为例子里的库存是 10；这里拿到排队号的才听，被拒绝的不连。" },
    "en": { "taught": "Connect for the push only after the 200", "ours": "The same: the page opens its event stream after the 202 of buy and closes it with the final result, so visitors who do not buy hold no connection; the network panel of the browser (F12) shows the order. In each process a user has five streams at most, and all users 10,000. The course lets the first ten requests connect, since its example has ten units; here those with a ticket listen, and a refused buyer does not connect." },
    "code": [["web/static/purchase.js", "awaitResult"], ["web/static/result_stream.js", "resultStream"], ["web/events.go", "saleEvents"]],
    "see": ["page:/"],
    "run": ["go test -v -count 1 -run TestTwoVisitorsWantTheLastUnit ./web"]
  }
];
