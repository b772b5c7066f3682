// Orders and payments. stock.js says what a row has.
export default [
  {
    "id": "purchase-flow", "by": "ABCE",
    "words": ["秒杀流程", "下单流程", "优化秒杀流程", "秒杀架构", "架构设计", "分层过滤", "业务逻辑", "purchase flow", "the whole purchase"],
    "also": ["设计理念", "系统上游", "秒杀下单", "SecKillOrderService", "SecKillOrderController", "下单实现", "下单交易", "B/createOrder", "优化思路", "方案1", "方案2", "即将进入支付", "抢单成功", "wseckillorder"],
    "zh": { "taught": "秒杀流程：从点击到订单的每一步", "ours": "答题 → 隐藏地址 → 合并通道（lane）→ 库存闸（一个 Redis 脚本：查重复、查时间窗、扣库存、写流水）→ 队列 → Postgres 一个事务落库 → 推送或轮询结果 → 付款。越往后人越少，每一步都有上限，满了就答 503，不让人无限等。便宜的检查在前：格式、地址、售罄标记都不查任何存储。在沙盒里买一件，打开订单，点“查看这个排队号的每一步”，就看到它真实经过的每一步、时间和等待；第一条命令在终端里做同样的事。" },
    "en": { "taught": "The whole flow of a purchase, from the click to the order", "ours": "Sum, hidden address, lane, gate (one Redis script: earlier ticket, window, unit, journal), queue, one transaction in Postgres, the result by push or poll, payment. Each step has fewer buyers than the one before and a bound of its own; full is a 503 and no endless wait. The cheap checks come first: form, address and sold-out mark ask no store. Buy a unit in the sandbox, open the order and choose \"Follow its ticket, step by step\": it shows each step that this ticket really took, with its time and wait. The first command does the same in a terminal." },
    "code": [["seckill/seckill.go", "Address"], ["seckill/seckill.go", "Buy"], ["seckill/lane.go", "serve"], ["seckill/settle.go", "settle"], ["seckill/trace/trace.go", "Grant"], ["seckill/README.md", ""]],
    "see": ["page:/", "page:/orders.html", "lesson:batch"],
    "run": ["L=$(./miaosha users -n 1 --sale 1 --out - | tail -n 1); T=$(echo $L | cut -d, -f3); P=$(echo $L | cut -d, -f4); S=http://127.0.0.1:8080/api; curl -sX POST $S/sales/1/buy/$P -H \"Authorization: Bearer $T\"; sleep 1; ./miaosha ticket $(curl -s $S/orders -H \"Authorization: Bearer $T\" | grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' | head -n 1)", "./miaosha lab --strategies read-then-write,guard-unique,shop"]
  },
  {
    "id": "unpaid", "by": "DE",
    "words": ["订单超时", "超时未支付", "15 分钟未支付", "30 分钟", "取消订单", "延时队列", "延迟消息", "死信队列 TTL", "定时任务", "@Scheduled", "Quartz", "库存回补", "库存回滚", "恢复库存", "delay queue", "order timeout", "scheduled task", "延时取消订单", "延迟队列", "超时取消", "超时取消订单", "超时关单", "关单", "未支付取消"],
    "also": ["订单失效", "超时自动取消订单", "死信队列交换机", "修改订单状态", "定时器", "Timer", "关闭订单", "待付款"],
    "zh": { "taught": "15 或 30 分钟未付款：取消订单，库存回到数据库、Redis 和标记", "ours": "每个进程的清扫都查 `expires_at <= clock_timestamp()`，取消订单和 `stock + n` 在同一个事务里，取消两次也只回补一次。付款写的是相反的条件，同一行只有一个能成功；逾期到账的钱记为待退款。试一试：在 127.0.0.1:8090 抢一件不付款，约 21 秒后剩余件数加一；在原来的地址下的单仍是 15 分钟。Redis 由对账改，标记自己过期。用数据库的索引而不是延时消息：重启、改时长都不丢。" },
    "en": { "taught": "Unpaid for 15 or 30 minutes: cancel, and return the unit in the database, in Redis and in the mark", "ours": "The sweeper of each process looks for `expires_at <= clock_timestamp()`; cancelling and `stock + n` are one transaction, so cancelling twice puts back once. A payment has the opposite condition on the same row, so one of the two wins, and a late payment is due for refund. To see it: buy at 127.0.0.1:8090 and do not pay, and the units left grow by one after about 21 s; an order made at the first address still has 15 minutes. Reconcile corrects Redis, and the mark expires. An index in the database instead of delayed messages: a restart loses nothing." },
    "code": [["order/expire.go", "Expire"], ["order/expire.go", "Sweep"], ["goods/stock.go", "GiveBack"], ["order/pay.go", "Capture"], ["seckill/reconcile.go", "tick"]],
    "see": ["lesson:late-payment", "exercise:e-order-time"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --pay-within 20s", "go test -v -count 1 -run 'TestFiveSweepersPutEachUnitBackOnce|TestPayCancelAndExpiryRaceForAHundredOrders' ./order"]
  },
  {
    "id": "order-amount", "by": "ABE",
    "words": ["商品数量", "amount", "按钮置灰", "按钮禁用", "云服务器部署", "nohup", "部署", "Docker", "docker compose", "数据库部署", "jar 包部署", "order amount", "dead button", "deployment", "systemd", "秒杀按钮"],
    "also": ["前端控制"],
    "zh": { "taught": "下单数量；点过之后按钮置灰；部署到云服务器", "ours": "一单总是一件，数量不用传，也就没有负数和超大的数。点过之后页面换成排队的样子，刷新也回到原来的位置，因为状态在服务器上。部署是一个文件，没有 JDK、没有应用服务器；`deploy/` 里有 systemd 单元、Dockerfile，和两个进程加 nginx 的 compose 文件。" },
    "en": { "taught": "A quantity on the order; the buy button is disabled after a click; deployment on a bare server", "ours": "An order is always for one unit, so no quantity is sent, and none can be negative or huge. After a click the page shows the queue in place of the button, even after a reload, because the server keeps the state. Deployment is one file, without a runtime or an application server; `deploy/` has a systemd unit, a Dockerfile, and a compose file with two processes behind nginx." },
    "code": [["order/place.go", "Place"], ["web/static/views.js", "VIEWS"], ["web/static/purchase.js", "viewOf"], ["deploy/miaosha.service", "ExecStart"], ["deploy/compose.yaml", "services"], ["deploy/README.md", ""]],
    "see": ["page:/"],
    "run": ["go build -trimpath -o miaosha .", "./miaosha config"]
  },
  {
    "id": "order-ids", "by": "A",
    "words": ["雪花算法", "snowflake", "IdWorker", "分布式 ID", "全局唯一 ID", "自增 ID", "UUID", "UUIDv7", "时钟回拨", "workerId", "订单号", "distributed id", "order id"],
    "also": ["nextId"],
    "zh": { "taught": "分布式订单号：IdWorker、雪花算法", "ours": "订单号是 UUIDv7：前 48 位是毫秒，后面是随机数，大致按时间排序，所以和雪花算法一样适合做主键。雪花算法要给每台机器分配 workerId，两台重了或者时钟回拨就会重号；UUIDv7 不用分配，时钟回拨也靠随机位不重，还猜不出别人的订单号。第一条命令先后下五单，再按订单号排序：前面的 1 是这个号出现的次数，后面的 1 到 5 是下单的先后。" },
    "en": { "taught": "Distributed order ids (IdWorker, snowflake)", "ours": "An order id is a UUIDv7: 48 bits of milliseconds, then random bits, so ids are roughly in the order of time, which suits a primary key as snowflake's do. Snowflake needs a worker id for each machine, and two of the same, or a clock that goes back, produce the same id twice; UUIDv7 has no worker id, its random bits hold when a clock goes back, and no one can guess another buyer's order. The first command places five orders one after another and sorts them by id: the 1 in front says how often an id occurs, and 1 to 5 behind is the order in which they were placed." },
    "code": [["order/place.go", "sell"], ["order/pay.go", "OpenPayment"], ["schema.sql", "orders"]],
    "see": ["page:/orders.html"],
    "run": ["S=http://127.0.0.1:8080/api; N=0; ./miaosha users -n 5 --sale 1 --out - | tail -n 5 | while IFS=, read -r _ _ T P; do N=$((N+1)); curl -so /dev/null -X POST $S/sales/1/buy/$P -H \"Authorization: Bearer $T\"; sleep 1; echo \"$(curl -s $S/orders -H \"Authorization: Bearer $T\" | grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' | head -n 1) $N\"; done | sort | uniq -c", "go test -v -count 1 -run TestOrderIDsDifferAndAreInTheOrderOfTime ./order", "go test -v -count 1 -run TestForeignAndMissingAreTheSame ./web"]
  },
  {
    "id": "seller-and-price", "by": "AB",
    "words": ["商家", "seller_id", "sellerId", "商品原价", "平销", "非活动价格", "promo_id", "普通下单", "shop name", "seller", "normal price"],
    "also": ["costPrice", "setMoney", "setSellerId", "getCostPrice", "A/订单状态"],
    "zh": { "taught": "订单上的商家、成交价和活动编号", "ours": "一个店铺就是一个商家：`--shop-name` 是商家的名字，显示在每一页和每个订单的答复里（`seller`）；它不存进订单，改了店名，旧订单也显示新的；不设置就没有 `seller`，页面写“秒杀”。课程把 `seller_id` 存进订单，因为那是多商家的平台。慕课网下单时带活动编号；这里活动之外不卖：只有一条下单的路、一个价，价格在下单时写进订单，之后改价不影响它。要按原价卖，就发布一场按原价、时间长的秒杀，走的还是同一条路。原价（`list_price`）只用来显示。" },
    "en": { "taught": "Seller, price and promotion on the order", "ours": "One shop is one seller: `--shop-name` is its name, shown on every page and in the answer for every order (`seller`). It is not stored with the order, so old orders show a new name; without it there is no `seller`. The course stores `seller_id` with the order, since its platform has many sellers. imooc sends the id of a promotion with the order; here nothing is sold outside a sale, so there is one path and one price, which is written into the order and stays when the price changes. To sell at the normal price, publish a long sale at that price; it takes the same path. `list_price` is for display alone." },
    "code": [["web/shop_orders.go", "orderJSON"], ["goods/sale.go", "Sell"], ["order/place.go", "Place"], ["web/shop_sales.go", "newSaleJSON"]],
    "see": ["page:/orders.html"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --shop-name 小秒百货", "./miaosha sale --title 保温杯 --price 8900 --list-price 8900 --stock 100 --end 720h"]
  },
  {
    "id": "deduct-when", "by": "E",
    "words": ["下单减库存", "付款减库存", "支付减库存", "减库存时机", "deduct at order", "deduct at payment"],
    "also": ["下订单减库存"],
    "zh": { "taught": "下单减库存还是付款减库存", "ours": "下单减：抢到就为你留一件，到期（`--pay-within`，默认 15 分钟）不付款就重新开售。付款才减，订单会比库存多，付款时才发现没货，只能退款；下单就减，怕的是占着不付，所以有付款期限、每人一单、到期自动退回。付款和到期在同一行上写相反的条件，只有一个能成功，逾期到账的钱退还。课程说不付款也只是少卖；这里不必少卖，退回来的那件马上有人接着抢。" },
    "en": { "taught": "Stock deducted at the order or at the payment", "ours": "At the order: a unit is reserved for its buyer, and goes back on sale when it is not paid in time (`--pay-within`, 15 minutes by default). If it is deducted at the payment, there are more orders than units, and buyers learn at the cashier that nothing is left. If it is deducted at the order, units can be held without paying; hence the deadline, one order for each user, and the unit that comes back. Payment and expiry write opposite conditions on the same row, so one of the two wins, and late payments are refunded. The course accepts that an unpaid unit stays unsold; here it need not, since the next buyer gets it at once." },
    "code": [["order/place.go", "Place"], ["order/expire.go", "Expire"], ["order/pay.go", "Capture"], ["goods/stock.go", "GiveBack"]],
    "see": ["exercise:e-order-time", "exercise:e-pay-time", "lesson:late-payment"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --pay-within 20s", "go test -v -count 1 -run 'TestPayCancelAndExpiryRaceForAHundredOrders|TestFiveSweepersPutEachUnitBackOnce' ./order"]
  }
];
