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
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
)

// List is the size of the list of sales.
type List struct {
	Sales    int    `json:"sales"`
	Encoding string `json:"encoding"`    // "" for none
	Bytes    int    `json:"bytes"`       // of the body with Encoding
	Plain    int    `json:"plain_bytes"` // of the body without encoding
}

// list requests the list of sales again and again, for users who are not logged in.
func list(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	if d.expected, err = d.inspectList(ctx); err != nil {
		return nil, err
	}
	d.list = d.listRequest(encodings)
	t, err := d.turn(ctx, plan{name: "list", buyers: buyers, arrivals: math.MaxInt, duration: d.duration(),
		conns: d.Conns, firstStep: stepList})
	t.List = &d.expected
	return []Turn{t}, err
}

// encodings are those that browsers accept, except br, which this program cannot decode.
const encodings = "gzip, deflate, zstd"

func (d *driver) listRequest(encodings string) []byte {
	return fmt.Appendf(nil,
		"GET /api/sales HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\nAccept-Encoding: %s\r\nAccept-Language: zh-CN,zh;q=0.9,en;q=0.8\r\n\r\n",
		d.to.host, encodings)
}

// inspectList reads and checks the list with and without encoding. The turn then only counts. The shop may show the
// list of a second ago, so inspectList waits until the sale is in it.
func (d *driver) inspectList(ctx context.Context) (p List, err error) {
	var plain response
	for until := time.Now().Add(10 * time.Second); ; {
		if plain, err = d.fetchList(ctx, "identity"); err != nil {
			return p, err
		}
		sales, err := salesIn(plain.body)
		if err != nil {
			return p, err
		}
		if slices.Contains(sales, d.Sale) {
			break
		}
		if time.Now().After(until) {
			return p, fmt.Errorf("sale %d is not in the list of %s", d.Sale, d.URL)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return p, err
		}
	}
	sent, err := d.fetchList(ctx, encodings)
	if err != nil {
		return p, err
	}
	p.Encoding, p.Bytes, p.Plain = sent.encoding, len(sent.body), len(plain.body)
	whole, err := decompress(sent)
	if err != nil {
		return p, fmt.Errorf("unpack the list: %w", err)
	}
	sales, err := salesIn(whole)
	p.Sales = len(sales)
	return p, err
}

func decompress(resp response) ([]byte, error) {
	compressed := bytes.NewReader(resp.body)
	switch resp.encoding {
	case "":
		return resp.body, nil
	case "gzip":
		r, err := gzip.NewReader(compressed)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(compressed)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("unknown encoding %q", resp.encoding)
}

func (d *driver) fetchList(ctx context.Context, encodings string) (response, error) {
	c := client{to: d.to}
	defer c.close()
	resp, err := c.do(ctx, d.listRequest(encodings), responseLimit)
	if err == nil && resp.status != http.StatusOK {
		err = fmt.Errorf("%d %s", resp.status, jsonValue(resp.body, "code"))
	}
	if err != nil {
		return resp, fmt.Errorf("read the list: %w", err)
	}
	return resp, nil
}

// salesIn returns the ids of the sales in a list.
func salesIn(body []byte) (ids []int64, err error) {
	var list struct {
		Code string
		Data []struct{ ID int64 }
	}
	err = json.Unmarshal(body, &list)
	if err == nil && list.Code != "ok" {
		err = fmt.Errorf("the code is %q", list.Code)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	for _, sale := range list.Data {
		ids = append(ids, sale.ID)
	}
	return ids, nil
}
