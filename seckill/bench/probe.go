package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Shown is a sale as a shop shows it. The zero Shown is one that the shop does not know.
type Shown struct {
	Title   string
	StartAt time.Time `json:"start_at"`
}

// Look returns a sale as the shop at c.URL shows it. It is an error if no shop answers there.
func Look(ctx context.Context, c Config, sale int64) (s Shown, err error) {
	to, err := parseTarget(c.URL, c.AllowRemote)
	if err != nil {
		return s, err
	}
	client := client{to: to}
	defer client.close()
	c.Sale = sale
	resp, err := client.do(ctx, (&driver{Config: c, to: to}).saleRequest(), responseLimit)
	if err != nil {
		return s, fmt.Errorf("--url: no shop answers at %s: %w", c.URL, err)
	}
	var reply struct {
		Code string
		Data json.RawMessage
	}
	if json.Unmarshal(resp.body, &reply) != nil || reply.Code == "" {
		return s, fmt.Errorf("--url: what answers at %s is not a shop of this kind (status %d)", c.URL, resp.status)
	}
	if reply.Code == "ok" {
		err = json.Unmarshal(reply.Data, &s)
	}
	return s, err
}
