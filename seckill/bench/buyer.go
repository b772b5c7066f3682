package bench

import (
	"strconv"
	"time"
)

// step is the next request of a buyer.
type step int

const (
	stepCaptcha step = iota
	stepPath
	stepBuy
	stepPoll
	stepPay
	stepConfirm
	stepList
	stepShow
)

// buyer is a Buyer during a turn. It belongs to one worker.
type buyer struct {
	Buyer
	index      int       // position among the arrivals of the turn
	sale       string    // URL path
	planned    time.Time // the click
	due        time.Time // the next step
	step       step
	captcha    string // the answer
	accepted   bool
	unanswered bool   // a click got no response; the shop may have accepted it
	order      string // order or payment id
}

// pays reports whether the buyer is among the percent who pay: spread evenly, not the first ones.
func (b *buyer) pays(percent int) bool { return int(uint32(b.index)*2654435761>>16)%100 < percent }

// buyerHeap holds waiting buyers, the next due first.
type buyerHeap []*buyer

func (l buyerHeap) Len() int           { return len(l) }
func (l buyerHeap) Less(i, j int) bool { return l[i].due.Before(l[j].due) }
func (l buyerHeap) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *buyerHeap) Push(x any)        { *l = append(*l, x.(*buyer)) }
func (l *buyerHeap) Pop() any {
	old := *l
	b := old[len(old)-1]
	*l = old[:len(old)-1]
	return b
}

// writeRequest writes the request of the buyer's step into w.out.
func (w *worker) writeRequest(b *buyer) {
	out, sale, body := w.out[:0], b.sale, ""
	add := func(parts ...string) {
		for _, p := range parts {
			out = append(out, p...)
		}
	}
	switch b.step {
	case stepList:
		w.out = append(out, w.t.list...)
		return
	case stepShow:
		add("GET ", sale)
	case stepCaptcha:
		add("GET ", sale, "/captcha")
	case stepPath:
		add("POST ", sale, "/path")
		if b.captcha != "" {
			body = `{"captcha":` + strconv.Quote(b.captcha) + `}`
		}
	case stepBuy:
		add("POST ", sale, "/buy/", b.Path)
	case stepPoll:
		add("GET ", sale, "/result")
	case stepPay:
		add("POST /api/orders/", b.order, "/pay")
	case stepConfirm:
		add("POST /api/cashier/", b.order)
		body = `{"action":"confirm"}`
	}
	add(" HTTP/1.1\r\nHost: ", w.client.to.host, "\r\nAuthorization: Bearer ", b.Token, "\r\n")
	if body != "" {
		add("Content-Type: application/json\r\n")
	}
	add("Content-Length: ")
	out = strconv.AppendInt(out, int64(len(body)), 10)
	add("\r\n\r\n", body)
	w.out = out
}
