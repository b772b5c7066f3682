//go:build faults && linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Wire is the network between one shop and one store.
type Wire struct{ proxy *toxiproxy.Proxy }

// newWire listens on a port of loopback and passes on to a store's address.
func newWire(name, to string) (*Wire, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &Wire{toxiproxy.NewProxy(server, name, "127.0.0.1:0", to)}
	if err := w.proxy.Start(); err != nil {
		return nil, fmt.Errorf("lay a wire to %s: %w", to, err)
	}
	return w, nil
}

func (w *Wire) Addr() string { return w.proxy.Listen }

// Hurt adds a toxic, such as Hurt("latency", "downstream", `{"latency": 2000}`), under the name "kind_stream".
// Downstream is what the store answers.
func (w *Wire) Hurt(kind, stream string, attributes string) {
	text := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": %s}`, kind, stream, attributes)
	if !json.Valid([]byte(text)) {
		panic(text)
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		panic(err) // the harness is wrong
	}
}

// Heal takes all toxics away.
func (w *Wire) Heal() { w.proxy.Toxics.ResetToxics(context.Background()) }

// Cut closes all connections and refuses new ones until Join.
func (w *Wire) Cut() { w.proxy.Stop() }

// Join ends a Cut.
func (w *Wire) Join() error { return w.proxy.Start() }
