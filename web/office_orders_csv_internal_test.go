package web

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/admin"
)

// The file has what a buyer quotes, and what came and went back of the money of an order, in the language of the
// reader; in the form for programs it has codes.
func TestOrderFileRows(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("Asia/Shanghai", 8*3600)
	at := time.Date(2026, 11, 26, 16, 30, 0, 0, time.UTC)
	later := at.Add(time.Hour)
	o := admin.Order{Order: order.Order{ID: uuid.MustParse("0192f0c1-1ade-7abc-8def-0123456789ab"), UserID: 7, SaleID: 3, Title: "茶", Price: 990, CreatedAt: at, PaidAt: &at}, BuyerPhone: "13800138000"}
	o.Address.Name, o.Address.Phone, o.Address.Address = "王小明", "010-88886666", "北京市海淀区中关村大街 1 号"
	o.Carrier, o.Tracking, o.ShippedAt = "顺丰", "0012345678901", &at
	captured := admin.Money{Payment: admin.Payment{Amount: 990, Status: "captured", Provider: "provider", ProviderRef: "4200001234567890123456789012", UpdatedAt: at}}
	free := admin.Money{Payment: admin.Payment{Status: "refunded", Provider: "provider", UpdatedAt: later}}
	with := func(p admin.Money, status, provider string, updated time.Time) admin.Money {
		p.Status, p.Provider, p.UpdatedAt = status, provider, updated
		return p
	}
	byHand := with(captured, "refunded", order.Hand, later)
	byHand.Note = "bank transfer 77"
	columns := func(f orderFile, status string, money ...admin.Money) string {
		o := o
		o.Status = status
		var texts []string
		for _, cell := range f.row(o, money) {
			switch cell := cell.(type) {
			case string:
				texts = append(texts, cell)
			case value:
				texts = append(texts, string(cell))
			}
		}
		if len(texts) != len(orderColumns[0]) || len(texts) != len(orderColumns[1]) {
			t.Fatalf("%d cells, %d and %d columns", len(texts), len(orderColumns[0]), len(orderColumns[1]))
		}
		return strings.Join(texts, "|")
	}
	const number = "069F-1G8T-VTNW"
	if order.Number(o.ID) != number {
		t.Fatal(order.Number(o.ID))
	}
	head := "0192f0c1-1ade-7abc-8def-0123456789ab|3|茶|9.90|"
	parcel := "|7|13800138000|王小明|010-88886666|北京市海淀区中关村大街 1 号|顺丰|0012345678901|"
	zh, en, raw := orderFile{zone: zone, chinese: true}, orderFile{zone: zone}, orderFile{zone: zone, raw: true, chinese: true}
	const here, there = "2026-11-27 00:30:00|2026-11-27 00:30:00", "2026-11-26T16:30:00.000Z|2026-11-26T16:30:00.000Z"
	for _, test := range []struct{ got, want string }{
		{columns(zh, "paid", captured), head + "已付款|" + here + parcel + "2026-11-27 00:30:00|" + number + "|provider|4200001234567890123456789012|9.90|0.00|0.00|||Asia/Shanghai"},
		{columns(en, "paid", captured), head + "paid|" + here + parcel + "2026-11-27 00:30:00|" + number + "|provider|4200001234567890123456789012|9.90|0.00|0.00|||Asia/Shanghai"},
		{columns(zh, "pending"), head + "待付款|" + here + parcel + "2026-11-27 00:30:00|" + number + "|||0.00|0.00|0.00|||Asia/Shanghai"},
		{columns(zh, "refunded", with(captured, "refunded", order.Cashier, later)), head + "已退款|" + here + parcel + "2026-11-27 00:30:00|" + number +
			"|沙盒收银台|4200001234567890123456789012|9.90|0.00|9.90|2026-11-27 01:30:00|店铺退款|Asia/Shanghai"},
		{columns(en, "refunded"), head + "refunded|" + here + parcel + "2026-11-27 00:30:00|" + number + "|||0.00|0.00|0.00||refunded by the shop|Asia/Shanghai"},
		{columns(en, "refunded", free), head + "refunded|" + here + parcel + "2026-11-27 00:30:00|" + number + "|provider||0.00|0.00|0.00|2026-11-27 01:30:00|refunded by the shop|Asia/Shanghai"},
		{columns(en, "cancelled", with(captured, "refund_due", order.Hand, later)), head + "cancelled|" + here + parcel + "2026-11-27 00:30:00|" + number +
			"|confirmed by hand|4200001234567890123456789012|9.90|9.90|0.00|2026-11-27 01:30:00|received after the order had expired or was cancelled|Asia/Shanghai"},
		{columns(en, "paid", captured, with(captured, "refund_due", order.Hand, later)), head + "paid|" + here + parcel + "2026-11-27 00:30:00|" + number +
			"|provider; confirmed by hand|4200001234567890123456789012; 4200001234567890123456789012|19.80|9.90|0.00|2026-11-27 01:30:00|paid twice|Asia/Shanghai"},
		{columns(en, "refunded", byHand), head + "refunded|" + here + parcel + "2026-11-27 00:30:00|" + number +
			"|confirmed by hand|4200001234567890123456789012|9.90|0.00|9.90|2026-11-27 01:30:00|refunded by the shop; bank transfer 77|Asia/Shanghai"},
		{columns(raw, "refunded", with(captured, "refunded", order.Cashier, later)), head + "refunded|" + there + parcel + "2026-11-26T16:30:00.000Z|" + number +
			"|cashier|4200001234567890123456789012|9.90|0.00|9.90|2026-11-26T17:30:00.000Z|by_shop|UTC"},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("(-want +got) %s", diff)
		}
	}
	if name := (orderFile{zone: time.Local}).zoneOf(at); !strings.HasPrefix(name, "UTC") || len(name) != len("UTC+08:00") { //timing: only the form of the name
		t.Errorf("the zone of the machine is called %s", name)
	}
	words, err := os.ReadFile("static/words/zh.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range order.Statuses {
		if want := "'status." + status + "': '" + orderWords[status][0] + "'"; !strings.Contains(string(words), want) {
			t.Errorf("the pages do not have %s", want)
		}
	}
}
