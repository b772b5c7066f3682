package gate

import (
	"github.com/google/uuid"

	"miaosha/order"
)

// States of a ticket. The final ones are the outcomes of package order.
const (
	None   = "none" // no ticket: asking for one is safe
	Queued = "queued"
)

// Status is what the gate has for one user in one sale.
type Status struct {
	State   string
	Ticket  string    // when Queued
	OrderID uuid.UUID // when order.Ordered
}

// encode returns the value of the tickets hash for a result: O<order id>, or X<outcome>. The reserve script writes the
// third kind, Q<ticket>.
func encode(r order.Result) string {
	if r.OrderID != uuid.Nil {
		return "O" + r.OrderID.String()
	}
	return "X" + r.Outcome
}

// decode returns the Status of a value of the tickets hash: None for "", order.Invalid for a value of no known kind.
func decode(value string) Status {
	if value == "" {
		return Status{State: None}
	}
	switch rest := value[1:]; value[0] {
	case 'Q':
		return Status{State: Queued, Ticket: rest}
	case 'O':
		if id, err := uuid.Parse(rest); err == nil {
			return Status{State: order.Ordered, OrderID: id}
		}
	case 'X':
		switch rest {
		case order.SoldOut, order.Closed, order.Invalid:
			return Status{State: rest}
		}
	}
	return Status{State: order.Invalid}
}

// OrdersIn returns the orders in a page of TicketsKey: each field, and then its value.
func OrdersIn(page []string) (orders []uuid.UUID) {
	for i := 1; i < len(page); i += 2 {
		if s := decode(page[i]); s.OrderID != uuid.Nil {
			orders = append(orders, s.OrderID)
		}
	}
	return orders
}
