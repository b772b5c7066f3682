package web

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
)

// orderColumns are the columns of the file, in Chinese and in English.
var orderColumns = [2][]string{
	{"订单号", "秒杀", "商品", "价格（元）", "状态", "下单时间", "支付时间", "用户", "手机号", "收货人", "收货电话", "收货地址", "快递公司", "运单号", "发货时间"},
	{"order", "sale", "title", "price (yuan)", "status", "ordered", "paid", "user", "phone", "name", "delivery phone", "address", "carrier", "tracking", "shipped"},
}

const csvPage = 1000 // orders that one query reads

// adminOrdersCSV streams the orders that a search finds. An administrator gets phones and addresses whole, for the parcels;
// a viewer gets them masked. No connection to Postgres is held while the client reads: each thousand orders are a query.
func (s *Server) adminOrdersCSV(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := orderFilter(r)
	if err != nil {
		return err
	}
	columns := orderColumns[1]
	if chinese(r) {
		columns = orderColumns[0]
	}
	return s.sendCSV(w, "orders.csv", columns, func(yield func([]string, error) bool) {
		for {
			orders, next, err := s.Admin.Orders(r.Context(), f, csvPage)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range orders {
				if !yield(s.orderRow(o, !by.Viewer), nil) {
					return
				}
			}
			if f.Cursor = next; next == uuid.Nil {
				return
			}
		}
	})
}

// orderRow returns the cells of an order. Times are those of the shop's zone, as spreadsheets read them.
func (s *Server) orderRow(o admin.Order, whole bool) []string {
	if !whole {
		o.BuyerPhone, o.Name, o.Phone, o.Address.Address = maskPhone(o.BuyerPhone), maskText(o.Name, 1), maskText(o.Phone, 3), maskText(o.Address.Address, 6)
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.In(s.cfg.zone).Format(time.DateTime)
	}
	return []string{o.ID.String(), strconv.FormatInt(o.SaleID, 10), o.Title, fmt.Sprintf("%d.%02d", o.Price/100, o.Price%100), o.Status, at(&o.CreatedAt), at(o.PaidAt),
		strconv.FormatInt(o.UserID, 10), o.BuyerPhone, o.Name, o.Phone, o.Address.Address, o.Carrier, o.Tracking, at(o.ShippedAt)}
}

// maskText returns the first characters of a text, and hides the others.
func maskText(text string, shown int) string {
	if utf8.RuneCountInString(text) <= shown {
		return text
	}
	return string([]rune(text)[:shown]) + "***"
}
