package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

// ordersOffice is where the staff finds orders and acts on them.
type ordersOffice struct {
	desk      *desk
	admin     *admin.Store
	zone      *time.Location // of the times in files
	timelines *timelines
}

func (s *ordersOffice) rows() []row {
	return []row{
		route(GET, "/api/admin/orders", theStaff, first(searches), answerLimit, s.adminOrders),
		route(GET, "/api/admin/orders/{id}", theStaff, first(staff), answerLimit, s.adminOrder),
		route(GET, "/api/admin/tickets/{ticket}", theStaff, first(staff), answerLimit, s.adminTicket),
	}
}

// listedOrder is an order in a list of the staff: its buyer's phone is masked for all of them, and its address only
// known or not.
type listedOrder struct {
	ID         uuid.UUID `json:"id"`
	Number     string    `json:"number"` // the short form of the id
	UserID     int64     `json:"user_id"`
	Phone      string    `json:"phone"`
	SaleID     int64     `json:"sale_id"`
	Title      string    `json:"title"`
	Price      int64     `json:"price"` // fen
	Status     string    `json:"status"`
	CreatedAt  string    `json:"created_at"`
	ExpiresAt  string    `json:"expires_at"`
	PaidAt     string    `json:"paid_at,omitempty"`
	HasAddress bool      `json:"has_address"`
	ShippedAt  string    `json:"shipped_at,omitempty"`
}

func listed(o admin.Order) listedOrder {
	return listedOrder{ID: o.ID, Number: order.Number(o.ID), UserID: o.UserID, Phone: admin.Mask(admin.Telephone,
		o.BuyerPhone), SaleID: o.SaleID, Title: o.Title, Price: o.Price, Status: o.Status,
		CreatedAt: formatTime(o.CreatedAt), ExpiresAt: formatTime(o.ExpiresAt), PaidAt: formatOrNone(o.PaidAt),
		HasAddress: o.Address.Address != "", ShippedAt: formatOrNone(o.ShippedAt)}
}

// formatOrNone is formatTime, and "" for nil.
func formatOrNone(t *time.Time) string {
	if t == nil {
		return ""
	}
	return formatTime(*t)
}

// orderFilter reads the filter of a search for orders.
func orderFilter(r *http.Request) (admin.OrderFilter, error) {
	q := query{values: r.URL.Query()}
	f := admin.OrderFilter{Sale: q.typedID("sale"), Status: q.text("status"), From: q.time("from"), To: q.time("to"),
		Cursor: q.uuid("cursor")}
	if spelled := typed.Search(q.text("q")); len(spelled) > 0 {
		f.Q, f.Or = spelled[0], spelled[1:]
	}
	q.found("q", f.Q)
	if f.Status != "" && !slices.Contains(order.Statuses, f.Status) {
		q.wrong = append(q.wrong, fieldError{"status", "value"})
	}
	return f, q.err()
}

// adminOrders answers with a page of the orders that a search finds.
func (s *ordersOffice) adminOrders(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := orderFilter(r)
	if err != nil {
		return err
	}
	orders, next, err := s.admin.Orders(r.Context(), by, f, admin.OrderPage)
	if err != nil {
		return err
	}
	out := struct {
		Orders []listedOrder `json:"orders"`
		Next   string        `json:"next,omitempty"` // the cursor of the next page
	}{Orders: make([]listedOrder, 0, len(orders))}
	for _, o := range orders {
		out.Orders = append(out.Orders, listed(o))
	}
	if next != uuid.Nil {
		out.Next = next.String()
	}
	return ok(w, 200, out)
}

// adminOrder answers with all that the shop knows of an order, as the caller sees it.
func (s *ordersOffice) adminOrder(w http.ResponseWriter, r *http.Request, by admin.By) error {
	id, err := orderID(r)
	if err != nil {
		return err
	}
	f, err := s.admin.OrderFile(r.Context(), by, id)
	if err != nil {
		return err
	}
	out := struct {
		listedOrder
		Nickname  string          `json:"nickname"`
		SaleState string          `json:"sale_state"`
		Archived  *time.Time      `json:"archived_at,omitempty"` // history and told may lack what is in files
		History   []admin.Move    `json:"history"`
		Payments  []admin.Payment `json:"payments"`
		Told      []admin.Told    `json:"told"`
		Ticket    string          `json:"ticket"`
		Delivery  order.Delivery  `json:"delivery"`
	}{listed(f.Order), f.Nickname, f.SaleState, f.Archived, f.History, f.Payments, f.Told, f.Ticket, f.Delivery}
	out.Phone = f.BuyerPhone
	return ok(w, 200, out)
}

// adminTicket answers with the timeline of a ticket, which may be given by its order's id or number.
func (s *ordersOffice) adminTicket(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	ticket, err := pathText(r, "ticket")
	if key := typed.Key(ticket); key != "" {
		ticket = key
	}
	if err != nil || !admin.IsTicket(ticket) {
		return fieldError{field: "ticket"}
	}
	return s.timelines.answer(w, r, ticket)
}
