package sandboxtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// script returns a buyer whose requests of each kind get these replies in turn, and then the last
// one again and again. Each is a status and the data.
func script(replies map[string][]string) (b *sandboxtest.Buyer, sent *[]string) {
	var mu sync.Mutex
	sent = &[]string{}
	b = &sandboxtest.Buyer{ID: 7, Sale: "3"}
	b.Send = func(kind, method, path, body string) sandboxtest.Reply {
		mu.Lock()
		defer mu.Unlock()
		*sent = append(*sent, strings.TrimSpace(kind+" "+path+" "+body))
		line := replies[kind][0]
		if len(replies[kind]) > 1 {
			replies[kind] = replies[kind][1:]
		}
		var r sandboxtest.Reply
		var data string
		fmt.Sscanf(line, "%d %s %s", &r.Status, &r.Code, &data)
		r.Data = []byte(data)
		r.Header = http.Header{}
		return r
	}
	return b, sent
}

func TestBuyerGoesOnUntilTheStateIsFinal(t *testing.T) {
	t.Parallel()
	b, sent := script(map[string][]string{
		"path":   {`503 busy`, `200 ok {"path":"p1"}`, `200 ok {"path":"p2"}`},
		"buy":    {`503 busy`, `503 busy`, `503 busy`, `202 ok {"state":"queued"}`},
		"result": {`200 ok {"state":"none"}`, `200 ok {"state":"queued"}`, `200 ok {"state":"ordered","order_id":"o1"}`},
	})
	b.Buy(time.Now().Add(time.Minute))
	if b.State != "ordered" || b.OrderID != "o1" {
		t.Errorf("the buyer has %q %q, want the order o1", b.State, b.OrderID)
	}
	if b.Forgotten {
		t.Error("the buyer had no ticket when the result was none, and is called forgotten")
	}
	const sale = "/api/sales/3"
	want := []string{"path " + sale + "/path", "path " + sale + "/path", "buy " + sale + "/buy/p1", "buy " + sale + "/buy/p1", "result " + sale + "/result",
		"path " + sale + "/path", "buy " + sale + "/buy/p2", "buy " + sale + "/buy/p2", "result " + sale + "/result", "result " + sale + "/result"}
	if diff := cmp.Diff(want, *sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBuyerNoticesALostTicket(t *testing.T) {
	t.Parallel()
	b, _ := script(map[string][]string{
		"path":   {`200 ok {"path":"p1"}`, `410 sold_out`},
		"buy":    {`202 ok {"state":"queued"}`},
		"result": {`200 ok {"state":"queued"}`, `200 ok {"state":"none"}`},
	})
	b.Buy(time.Now().Add(time.Minute))
	if b.State != "sold_out" || !b.Forgotten {
		t.Errorf("state %q, forgotten %t; want sold_out, true", b.State, b.Forgotten)
	}
}

func TestBuyerPays(t *testing.T) {
	t.Parallel()
	b, sent := script(map[string][]string{
		"pay":     {`503 busy`, `429 too_many`, `200 ok {"payment_id":"m1"}`},
		"confirm": {`409 wrong_status`},
	})
	if r := b.Pay(time.Now().Add(time.Minute), "o1"); r.Code != "wrong_status" {
		t.Errorf("the reply is %d %s, want the one to the last step", r.Status, r.Code)
	}
	want := []string{"pay /api/orders/o1/pay", "pay /api/orders/o1/pay", "pay /api/orders/o1/pay", `confirm /api/cashier/m1 {"action":"confirm"}`}
	if diff := cmp.Diff(want, *sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
