package payment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"miaosha/seckill/payment"
)

// How the stand-in provider deals with a payment, by its order. A fault strikes the first call of each action.
type script struct {
	Notice string // once, lost, repeated, late: on POST /late; reordered: of a declined try, behind the capture; twice: two captures
	Fault  string // "", down: 500 without the work; silent: the work, and no answer; refused: of the refund
}

// money is what the provider has done for an order.
type money struct {
	PaymentID string
	Captured  int // payments of the buyer
	Refunded  int // times that money went back
	Calls     map[string]int
	refunds   map[string]bool // idempotency keys
	notices   []payment.Notice
}

// standIn is a provider that does each work once for each idempotency key, and is bad at all else.
type standIn struct {
	notify  string // the shop's address for notices
	mu      sync.Mutex
	scripts map[string]script
	books   map[string]*money
}

// runProvider runs the provider until stdin ends. Its first line on stdout is its address.
func runProvider(notify string) {
	p := &standIn{notify: notify, scripts: map[string]script{}, books: map[string]*money{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shop", p.serveShop)
	mux.HandleFunc("POST /pay/{order}", p.pay)
	mux.HandleFunc("POST /late", p.sendLate)
	mux.HandleFunc("POST /scripts", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		must(json.NewDecoder(r.Body).Decode(&p.scripts))
	})
	mux.HandleFunc("GET /books", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		must(json.NewEncoder(w).Encode(p.books))
	})
	fmt.Println("http://" + listener.Addr().String())
	go func() { must(http.Serve(listener, mux)) }()
	io.Copy(io.Discard, os.Stdin)
}

// must ends the process. A panic in a handler would not.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "the process of the test:", err)
		os.Exit(1)
	}
}

// serveShop answers the shop's signed requests.
func (p *standIn) serveShop(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	must(err)
	must(payment.Verify(r.Header, []byte(secret), body, time.Now()))
	var q struct {
		Action    string `json:"action"`
		PaymentID string `json:"payment_id"`
		OrderID   string `json:"order_id"`
		Amount    int64  `json:"amount"`
		RefundID  string `json:"refund_id"`
		Ref       string `json:"provider_ref"`
	}
	must(json.Unmarshal(body, &q))
	p.mu.Lock()
	m, fault := p.books[q.OrderID], p.scripts[q.OrderID].Fault
	if m == nil {
		m = &money{Calls: map[string]int{}, refunds: map[string]bool{}}
		p.books[q.OrderID] = m
	}
	m.Calls[q.Action]++
	if m.Calls[q.Action] > 1 {
		fault = ""
	}
	answer := map[string]any{"payment_id": q.PaymentID}
	switch {
	case fault == "down":
	case q.Action == "create":
		m.PaymentID = q.PaymentID
		answer["status"], answer["pay_url"] = "open", "http://"+r.Host+"/pay/"+q.OrderID
	case q.Action == "query" && m.Captured == 0:
		answer["status"] = "open"
	case q.Action == "query":
		answer["status"], answer["provider_ref"], answer["amount"] = "captured", ref(q.OrderID), q.Amount
	case fault == "refused":
		answer["status"], answer["why"] = "refused", "no balance"
	case q.PaymentID != m.PaymentID || q.Ref != ref(q.OrderID) && q.Ref != again(q.OrderID):
		answer["status"], answer["why"] = "refused", "no such capture"
	default:
		answer["status"] = "refunded"
		if !m.refunds[q.RefundID] {
			m.refunds[q.RefundID] = true
			m.Refunded++
		}
	}
	p.mu.Unlock()
	switch fault {
	case "down":
		w.WriteHeader(http.StatusInternalServerError)
	case "silent":
		<-r.Context().Done()
	default:
		must(json.NewEncoder(w).Encode(answer))
	}
}

func ref(order string) string { return "ref-" + order }

// again is the reference of a second capture.
func again(order string) string { return ref(order) + "-again" }

// pay is the provider's page: the buyer pays, and the shop is told.
func (p *standIn) pay(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("order")
	p.mu.Lock()
	m, how := p.books[id], p.scripts[id].Notice
	m.Captured++
	captured := payment.Notice{PaymentID: m.PaymentID, OrderID: id, Amount: price, Ref: ref(id)}
	m.notices = []payment.Notice{captured}
	if how == "twice" {
		m.Captured++
		captured.Ref = again(id)
		m.notices = append(m.notices, captured)
	}
	if how == "reordered" {
		m.notices = append(m.notices, payment.Notice{PaymentID: m.PaymentID, OrderID: id, Amount: price, Declined: "no money on the first card"})
	}
	p.mu.Unlock()
	switch how {
	case "once", "reordered", "twice":
		p.send(m.notices...)
	case "repeated":
		var crowd sync.WaitGroup
		for range 3 {
			crowd.Go(func() { p.send(captured) })
		}
		crowd.Wait()
	}
}

// sendLate sends every notice, all at once: the first time for those that are late, again for the others.
func (p *standIn) sendLate(http.ResponseWriter, *http.Request) {
	var crowd sync.WaitGroup
	p.mu.Lock()
	for id, m := range p.books {
		if p.scripts[id].Notice != "lost" {
			crowd.Go(func() { p.send(m.notices...) })
		}
	}
	p.mu.Unlock()
	crowd.Wait()
}

func (p *standIn) send(notices ...payment.Notice) {
	for _, n := range notices {
		body, err := json.Marshal(n)
		must(err)
		req, err := http.NewRequest(http.MethodPost, p.notify, bytes.NewReader(body))
		must(err)
		payment.SignRequest(req, []byte(noticeSecret), time.Now(), body)
		resp, err := http.DefaultClient.Do(req)
		must(err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			must(fmt.Errorf("the shop answers %s to %s", resp.Status, body))
		}
	}
}
