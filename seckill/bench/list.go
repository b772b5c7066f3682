package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/klauspost/compress/zstd"
)

// Page is what the list is to browsers.
type Page struct {
	Sales    int    `json:"sales"`
	Encoding string `json:"encoding"`    // "" for none
	Bytes    int    `json:"bytes"`       // of the body, as it is sent to them
	Plain    int    `json:"plain_bytes"` // and to who can't unpack it
}

// front: the list of sales, one after the other, for people who are not logged in.
func front(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	if d.page, err = d.lookAtList(ctx); err != nil {
		return nil, err
	}
	d.list = d.listRequest(encodings)
	t, err := d.turn(ctx, plan{name: "list", buyers: buyers, arrivals: math.MaxInt, coming: d.coming(), conns: d.Conns, first: stepList})
	t.Page = &d.page
	return []Turn{t}, err
}

// encodings are those that browsers name, without br, which can't be looked into here.
const encodings = "gzip, deflate, zstd"

func (d *driver) listRequest(encodings string) []byte {
	return fmt.Appendf(nil, "GET /api/sales HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\nAccept-Encoding: %s\r\nAccept-Language: zh-CN,zh;q=0.9,en;q=0.8\r\n\r\n",
		d.to.host, encodings)
}

// lookAtList reads the list once as browsers do and once plain, and looks into both: the turn only counts.
func (d *driver) lookAtList(ctx context.Context) (p Page, err error) {
	plain, err := d.fetchList(ctx, "identity")
	if err != nil {
		return p, err
	}
	if p.Sales, err = salesIn(plain.body); err != nil {
		return p, err
	}
	sent, err := d.fetchList(ctx, encodings)
	if err != nil {
		return p, err
	}
	p.Encoding, p.Bytes, p.Plain = sent.encoding, len(sent.body), len(plain.body)
	whole, err := unpack(sent)
	if err != nil {
		return p, fmt.Errorf("unpack the list: %w", err)
	}
	p.Sales, err = salesIn(whole)
	return p, err
}

func unpack(a answer) ([]byte, error) {
	packed := bytes.NewReader(a.body)
	switch a.encoding {
	case "":
		return a.body, nil
	case "gzip":
		r, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(packed)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("%q is not known here", a.encoding)
}

func (d *driver) fetchList(ctx context.Context, encodings string) (answer, error) {
	w := wire{to: d.to}
	defer w.close()
	a, err := w.ask(ctx, d.listRequest(encodings), answerLimit)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.status, field(a.body, "code"))
	}
	if err != nil {
		return a, fmt.Errorf("read the list: %w", err)
	}
	return a, nil
}

func salesIn(body []byte) (int, error) {
	var list struct {
		Code string
		Data []struct{ ID int64 }
	}
	err := json.Unmarshal(body, &list)
	if err == nil && list.Code != "ok" {
		err = fmt.Errorf("its code is %q", list.Code)
	}
	if err != nil {
		return 0, fmt.Errorf("read the list: %w", err)
	}
	return len(list.Data), nil
}
