//go:build faults && linux

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// readEvents reads an event stream until it ends, and calls each with every event. It returns an error if there was no stream.
func readEvents(ctx context.Context, client *http.Client, url, token string, each func(event, data string)) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return fmt.Errorf("events: status %d", resp.StatusCode)
	}
	event := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			each(event, data)
		}
	}
	return nil
}

// listener is a browser that listens for its buyer's result. Like an EventSource it connects again when the stream ends.
type listener struct {
	buyer     *sandboxtest.Buyer
	at        string        // "A", "C" or "nginx"
	listening chan struct{} // closed with the first event
	ordered   time.Time     // when it heard of the order; zero if it never did
}

func (l *listener) run(ctx context.Context, url string) {
	client := &http.Client{Transport: manyAddresses()}
	defer client.CloseIdleConnections()
	var first sync.Once
	for ctx.Err() == nil && l.ordered.IsZero() {
		stream, cancel := context.WithCancel(ctx)
		readEvents(stream, client, url, l.buyer.Token, func(event, data string) {
			if event != "result" {
				return
			}
			first.Do(func() { close(l.listening) })
			var p sandboxtest.Purchase
			if json.Unmarshal([]byte(data), &p) == nil && p.State == "ordered" {
				l.ordered = time.Now()
				cancel()
			}
		})
		cancel()
		time.Sleep(20 * time.Millisecond)
	}
}
