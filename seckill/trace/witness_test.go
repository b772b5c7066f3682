package trace

import (
	"maps"
	"slices"
	"testing"
	"time"

	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Processes with several secrets each are one shop if every two share one.
func TestProcessesThatShareOneOfTheirSecretsAreOneShop(t *testing.T) {
	t.Parallel()
	g, now := gate.New(sandboxtest.Redis(t), "probe", time.Second), time.Now()
	for name, fingerprints := range map[string][]string{"old": {"1"}, "both": {"1", "2"}} {
		if _, err := g.ShowSecrets(t.Context(), name, fingerprints, now, now); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := g.ShowSecrets(t.Context(), "new", []string{"2"}, now, now)
	if want := map[string][]string{"old": {"1"}, "both": {"1", "2"}, "new": {"2"}}; err != nil || !maps.EqualFunc(shown, want, slices.Equal) {
		t.Errorf("%v, %v; want %v", shown, err, want)
	}
}
