package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/admin"
)

func (s *ordersOffice) fileRows() []row {
	return []row{
		route(GET, "/api/admin/orders.csv", theStaff, first(downloads), downloadLimit, s.adminOrdersCSV),
	}
}

// orderColumns are the columns of the file, in Chinese and in English. A new one comes at the end: programs count them.
var orderColumns = [2][]string{
	{"订单 ID", "秒杀", "商品", "价格（元）", "状态", "下单时间", "支付时间", "用户", "手机号", "收货人", "收货电话", "收货地址", "快递公司", "运单号", "发货时间",
		"订单号", "支付机构", "支付流水号", "已收款（元）", "待退款（元）", "已退款（元）", "退款时间", "退款原因", "时区"},
	{"order", "sale", "title", "price (yuan)", "status", "ordered", "paid", "user", "phone", "name", "delivery phone",
		"address", "carrier", "tracking", "shipped",
		"order number", "payment provider", "payment reference", "received (yuan)", "refund due (yuan)",
		"refunded (yuan)", "refund time", "refund reason", "time zone"},
}

// orderWords are what the file calls a status, a provider that is none, and the reason of a refund, in Chinese and in
// English.
var orderWords = map[string][2]string{
	order.Pending: {"待付款", "pending"}, order.Paid: {"已付款", "paid"}, order.Cancelled: {"已取消",
		"cancelled"}, order.Refunded: {"已退款", "refunded"},
	order.Cashier: {"沙盒收银台", "sandbox cashier"}, order.Hand: {"人工确认", "confirmed by hand"},
	"by_shop": {"店铺退款", "refunded by the shop"}, "too_late": {"付款截止或取消后才到账",
		"received after the order had expired or was cancelled"}, "twice": {"重复付款", "paid twice"},
}

const csvPage = 1000 // orders that one query reads

// orderFile is how a file of orders is written.
type orderFile struct {
	zone    *time.Location
	raw     bool // for programs: codes in place of words, and times as the API has them
	chinese bool
}

// adminOrdersCSV streams the orders that a search finds, as the caller sees them: an administrator gets phones and
// addresses whole, for the parcels. The log has a line of each file before its first row. No connection to Postgres is
// held while the client reads: each thousand orders are two queries.
func (s *ordersOffice) adminOrdersCSV(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := orderFilter(r)
	q := query{values: r.URL.Query()}
	file := orderFile{zone: s.zone, raw: q.raw(), chinese: chinese(r)}
	if lang := q.oneOf("lang", "zh", "en"); lang != "" { // a link cannot say the language of its page in a header
		file.chinese = lang == "zh"
	}
	if err := errors.Join(err, q.err()); err != nil {
		return err
	}
	columns := orderColumns[1]
	if file.chinese && !file.raw {
		columns = orderColumns[0]
	}
	return s.desk.sendCSV(w, "orders.csv", file.raw, columns, func(yield func([]any, error) bool) {
		for noted := false; ; noted = true {
			orders, payments, next, err := s.ordersWithPayments(r.Context(), by, f)
			if err == nil && !noted {
				err = s.admin.File(r.Context(), by, "orders.csv", filterOf(r))
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range orders {
				if !yield(file.row(o, payments[o.ID]), nil) {
					return
				}
			}
			if f.Cursor = next; next == uuid.Nil {
				return
			}
		}
	})
}

func (s *ordersOffice) ordersWithPayments(
	ctx context.Context, by admin.By, f admin.OrderFilter,
) (orders []admin.Order, payments map[uuid.UUID][]admin.Money, next uuid.UUID, err error) {
	if orders, next, err = s.admin.Orders(ctx, by, f, csvPage); err != nil {
		return nil, nil, next, err
	}
	ids := make([]uuid.UUID, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	payments, err = s.admin.MoneyOf(ctx, by, ids)
	return orders, payments, next, err
}

// row returns the cells of an order. money are its payments of which money came. Times are those of the shop's zone, as
// spreadsheets read them.
func (f orderFile) row(o admin.Order, money []admin.Money) []any {
	var providers, references, reasons, notes []string
	var received, due, refunded int64
	var back *time.Time
	for _, p := range money {
		received += p.Amount
		if p.Note != "" {
			notes = append(notes, p.Note)
		}
		providers, references = append(providers, f.word(p.Provider)), append(references, p.ProviderRef)
		if p.Status == "captured" {
			continue
		}
		if p.Status == "refunded" {
			refunded += p.Amount
		} else {
			due += p.Amount
		}
		if back == nil || p.UpdatedAt.After(*back) {
			back = &p.UpdatedAt
		}
	}
	if back != nil || o.Status == order.Refunded { // a free order has a payment of nothing, or none
		switch {
		case o.Status == order.Refunded:
			reasons = append(reasons, f.word("by_shop"))
		case o.Status != order.Paid:
			reasons = append(reasons, f.word("too_late"))
		}
		if len(money) > 1 {
			reasons = append(reasons, f.word("twice"))
		}
	}
	return []any{value(o.ID.String()), value(strconv.FormatInt(o.SaleID, 10)), o.Title, yuan(o.Price), f.word(o.Status),
		f.at(&o.CreatedAt), f.at(o.PaidAt),
		value(strconv.FormatInt(o.UserID, 10)), o.BuyerPhone, o.Name, o.Phone, o.Address.Address, o.Carrier, o.Tracking,
		f.at(o.ShippedAt),
		order.Number(o.ID), strings.Join(slices.Compact(providers), "; "), strings.Join(references, "; "),
		yuan(received), yuan(due), yuan(refunded), f.at(back),
		strings.Join(append(reasons, notes...), "; "), f.zoneOf(o.CreatedAt)}
}

// word returns what the file calls a thing of the shop: its code in the raw form. Any other text is itself.
func (f orderFile) word(code string) string {
	words, known := orderWords[code]
	switch {
	case !known || f.raw:
		return code
	case f.chinese:
		return words[0]
	}
	return words[1]
}

func (f orderFile) at(t *time.Time) value {
	switch {
	case t == nil:
		return ""
	case f.raw:
		return value(formatTime(*t))
	}
	return value(t.In(f.zone).Format(time.DateTime))
}

// zoneOf returns the name of the zone of the file's times: Asia/Shanghai, or UTC+08:00 if the shop has that of its
// machine.
func (f orderFile) zoneOf(t time.Time) string {
	switch {
	case f.raw:
		return "UTC"
	case f.zone == time.Local:
		return t.In(f.zone).Format("UTC-07:00")
	}
	return f.zone.String()
}

// filterOf returns the filter of a file as the staff's log has it: in short, and what was typed freely is masked.
func filterOf(r *http.Request) map[string]string {
	of := map[string]string{}
	for name, text := range map[string]string{"q": admin.Mask(admin.Telephone, r.URL.Query().Get("q")),
		"subject": admin.Mask(admin.Number, r.URL.Query().Get("subject"))} {
		if text != "" {
			of[name] = text
		}
	}
	for _, name := range []string{"sale", "status", "by", "action", "from", "to"} {
		if text := r.URL.Query().Get(name); text != "" {
			of[name] = string([]rune(text)[:min(40, utf8.RuneCountInString(text))])
		}
	}
	return of
}

func yuan(fen int64) value { return value(fmt.Sprintf("%d.%02d", fen/100, fen%100)) }
