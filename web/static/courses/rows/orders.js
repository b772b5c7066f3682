// Orders and payments. stock.js says what a row has.
export default [
  {
    "id": "unpaid", "by": "DE",
    "words": ["订单超时", "超时未支付", "15 分钟未支付", "30 分钟", "取消订单", "延时队列", "延迟消息", "死信队列 TTL", "定时任务", "@Scheduled", "Quartz", "库存回补", "库存回滚", "恢复库存", "delay queue", "order timeout", "scheduled task", "延时取消订单", "延迟队列", "超时取消", "超时取消订单", "超时关单", "关单", "未支付取消"],
    "zh": { "taught": "15 或 30 分钟未付款：取消订单，库存回到数据库、Redis 和标记", "ours": "每个进程的清扫都查 `expires_at <= clock_timestamp()`，取消订单和 `stock + n` 在同一个事务里，取消两次也只回补一次。付款写的是相反的条件，同一行只有一个能成功；迟到的钱记为待退款。试一试：在 127.0.0.1:8090 抢一件不付款，约 21 秒后剩余件数加一；在原来的地址下的单仍是 15 分钟。Redis 由对账改，标记自己过期。用数据库的索引而不是延时消息：重启、改时长都不丢。" },
    "en": { "taught": "Unpaid for 15 or 30 minutes: cancel, and put the unit back in the database, Redis and the mark", "ours": "The sweeper of each process looks for `expires_at <= clock_timestamp()`; cancelling and `stock + n` are one transaction, so cancelling twice puts back once. A payment has the opposite condition on the same row, so one of the two wins, and money that comes late is due for refund. To see it: buy at 127.0.0.1:8090 and do not pay, and the units left grow by one after about 21 s; an order made at the first address still has 15 minutes. Reconcile corrects Redis, and the mark ends by itself. An index of the database and no delayed message: a restart loses none of it." },
    "code": [["order/expire.go", "Expire"], ["order/expire.go", "Sweep"], ["goods/stock.go", "GiveBack"], ["order/pay.go", "Capture"], ["seckill/reconcile.go", "tick"]],
    "see": ["lesson:late-payment"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --pay-within 20s", "go test -v -count 1 -run 'TestFiveSweepersPutEachUnitBackOnce|TestPayCancelAndExpiryRaceForAHundredOrders' ./order"]
  },
  {
    "id": "order-amount", "by": "AB",
    "words": ["商品数量", "amount", "按钮置灰", "按钮禁用", "云服务器部署", "nohup", "部署", "Docker", "docker compose", "数据库部署", "jar 包部署", "order amount", "dead button", "deployment", "systemd", "秒杀按钮"],
    "zh": { "taught": "下单数量；点过之后按钮置灰；部署到云服务器", "ours": "一单总是一件，数量不用传，也就没有负数和超大的数。点过之后页面换成排队的样子，刷新也回到原来的位置，因为状态在服务器上。部署是一个文件，没有 JDK、没有应用服务器；`deploy/` 里有 systemd 单元、Dockerfile，和两个进程加 nginx 的 compose 文件。" },
    "en": { "taught": "An amount on the order; the buy button is dead after a click; deployment on a bare server", "ours": "An order is always for one unit, so no amount is sent, negative or huge. After a click the page shows the queue in place of the button, also after a reload, because the state is the server's. Deployment is one file, without a runtime or an application server; `deploy/` has a systemd unit, a Dockerfile, and a compose file with two processes behind nginx." },
    "code": [["order/place.go", "Place"], ["web/static/views.js", "VIEWS"], ["web/static/purchase.js", "viewOf"], ["deploy/miaosha.service", "ExecStart"], ["deploy/compose.yaml", "services"], ["deploy/README.md", ""]],
    "see": ["page:/"],
    "run": ["go build -trimpath -o miaosha .", "./miaosha config"]
  },
  {
    "id": "order-ids", "by": "A",
    "words": ["雪花算法", "snowflake", "IdWorker", "分布式 ID", "全局唯一 ID", "自增 ID", "UUID", "UUIDv7", "时钟回拨", "workerId", "订单号", "distributed id", "order id"],
    "zh": { "taught": "分布式订单号：IdWorker、雪花算法", "ours": "订单号是 UUIDv7：前 48 位是毫秒，后面是随机数，大致按时间排序，所以和雪花算法一样适合做主键。雪花算法要给每台机器分配 workerId，两台重了或者时钟回拨就会重号；UUIDv7 不用分配，时钟回拨也靠随机位不重，还猜不出别人的订单号。" },
    "en": { "taught": "Distributed order ids (IdWorker, snowflake)", "ours": "An order id is a UUIDv7: 48 bits of milliseconds, then random bits, so ids are roughly in the order of time, which suits a primary key as snowflake's do. Snowflake needs a worker id for each machine, and two of the same, or a clock that goes back, make an id twice; UUIDv7 has no worker id, its random bits hold when a clock goes back, and no one can guess another buyer's order." },
    "code": [["order/place.go", "sell"], ["order/pay.go", "OpenPayment"], ["schema.sql", "orders"]],
    "see": ["page:/orders.html"],
    "run": ["go test -v -count 1 -run TestForeignAndMissingAreTheSame ./web"]
  },
  {
    "id": "seller-and-price", "by": "AB",
    "words": ["商家", "seller_id", "sellerId", "商品原价", "平销", "非活动价格", "promo_id", "普通下单", "shop name", "seller", "normal price"],
    "zh": { "taught": "订单上的商家；活动之外按原价卖", "ours": "一个店就是一个卖家：`--shop-name` 是卖家的名字，写在每一页和每个订单上（`seller`）；不设置，订单里就没有 `seller`，页面写“秒杀”。活动之外不卖，也就没有两条下单的路：课程里普通下单和秒杀下单各写一遍扣库存，两遍都要对，绕过一遍就超卖。要按原价卖，就发布一场按原价、时间长的秒杀，走的还是同一条路。原价（`list_price`）只用来显示。" },
    "en": { "taught": "Seller on the order; goods at normal price outside a promotion", "ours": "One shop is one seller: `--shop-name` is its name, on every page and on every order (`seller`); without it an order has no `seller`. Nothing is sold outside a sale, so there is one path: in the course the normal order and the flash-sale order each take stock in code of their own, both have to be right, and a way around one oversells. To sell at the normal price, publish a long sale at that price; it takes the same path. `list_price` is for display alone." },
    "code": [["web/order.go", "orderJSON"], ["goods/sale.go", "Sell"], ["order/place.go", "Place"], ["web/goods.go", "newSaleJSON"]],
    "see": ["page:/"],
    "run": ["./miaosha --addr 127.0.0.1:8090 --ops-addr off --shop-name 小秒百货", "./miaosha sale --title 保温杯 --price 8900 --list-price 8900 --stock 100 --end 720h"]
  }
];
