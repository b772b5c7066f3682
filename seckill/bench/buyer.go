package bench

import (
	"strconv"
	"time"
)

// step is what a buyer does next.
type step int

const (
	stepSum step = iota
	stepPath
	stepBuy
	stepPoll
	stepPay
	stepConfirm
	stepList
)

// buyer is a Buyer on his way. One worker has him.
type buyer struct {
	Buyer
	k           int       // which of the crowd
	sale        string    // where
	planned, at time.Time // when he was to click; when his next step is due
	step        step
	sum         string // the answer to the sum he was asked
	accepted    bool
	unheard     bool   // a click of his got no answer, and may have been taken
	order       string // or payment
}

// pays tells whether he is among the percent who do. They are spread over the crowd, since it is often its front that buys.
func (b *buyer) pays(percent int) bool { return int(uint32(b.k)*2654435761>>16)%100 < percent }

// later is a heap of those who wait, by when.
type later []*buyer

func (l later) Len() int           { return len(l) }
func (l later) Less(i, j int) bool { return l[i].at.Before(l[j].at) }
func (l later) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *later) Push(x any)        { *l = append(*l, x.(*buyer)) }
func (l *later) Pop() any {
	old := *l
	b := old[len(old)-1]
	*l = old[:len(old)-1]
	return b
}

// write puts the request of the buyer's step into w.out.
func (w *worker) write(b *buyer) {
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
	case stepSum:
		add("GET ", sale, "/captcha")
	case stepPath:
		add("POST ", sale, "/path")
		if b.sum != "" {
			body = `{"captcha":` + strconv.Quote(b.sum) + `}`
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
	add(" HTTP/1.1\r\nHost: ", w.wire.to.host, "\r\nAuthorization: Bearer ", b.Token, "\r\n")
	if body != "" {
		add("Content-Type: application/json\r\n")
	}
	add("Content-Length: ")
	out = strconv.AppendInt(out, int64(len(body)), 10)
	add("\r\n\r\n", body)
	w.out = out
}
