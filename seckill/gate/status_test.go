package gate

import (
	"testing"

	"github.com/google/uuid"

	"miaosha/order"
)

// Each kind of value is decoded. A value that is of no kind is invalid, never "none".
func TestStatus(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for value, want := range map[string]Status{
		"":                     {State: None},
		"Q7:1-2:nonce":         {State: Queued, Ticket: "7:1-2:nonce"},
		"O" + id.String():      {State: order.Ordered, OrderID: id},
		"Xsold_out":            {State: order.SoldOut},
		"Xclosed":              {State: order.Closed},
		"Xinvalid":             {State: order.Invalid},
		"X":                    {State: order.Invalid},
		"Xanything":            {State: order.Invalid},
		"O" + "not an id":      {State: order.Invalid},
		"written by a program": {State: order.Invalid},
	} {
		if got := decode(value); got != want {
			t.Errorf("%q is read as %+v, want %+v", value, got, want)
		}
	}
}

// A result that Ack writes is read as the same state.
func TestEncodedResultsAreDecoded(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for _, c := range []struct {
		result order.Result
		want   Status
	}{
		{order.Result{Outcome: order.Ordered, OrderID: id}, Status{State: order.Ordered, OrderID: id}},
		{order.Result{Outcome: order.Duplicate, OrderID: id}, Status{State: order.Ordered, OrderID: id}},
		{order.Result{Outcome: order.SoldOut}, Status{State: order.SoldOut}},
		{order.Result{Outcome: order.Closed}, Status{State: order.Closed}},
		{order.Result{Outcome: order.Invalid}, Status{State: order.Invalid}},
	} {
		if got := decode(encode(c.result)); got != c.want {
			t.Errorf("%s is read as %+v, want %+v", c.result.Outcome, got, c.want)
		}
	}
}
