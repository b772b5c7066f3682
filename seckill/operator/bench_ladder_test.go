package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/bench"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Each rung has one flag less than the one below. The last one has none: it is the shop.
func TestRungs(t *testing.T) {
	t.Parallel()
	all := rungs()
	for i, r := range all {
		if len(r.Flags) != len(all)-1-i || i > 0 && !slices.Equal(all[i-1].Flags[1:], r.Flags) {
			t.Errorf("rung %d has the flags %v", i, r.Flags)
		}
	}
}

// Every rung sells exactly: one buyer of four finds a unit, and of the others one the only unit of the other sale.
func TestLadder(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + sandboxtest.Home(t), "PATH=" + os.Getenv("PATH"), "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind()}
	page := filepath.Join(t.TempDir(), "ladder.html")
	var l bench.Ladder
	out := sandboxtest.MustCommand(t, env, "bench", "--ladder", "--rounds", "1", "--seconds", "20", "-n", "80", "--conns", "8", "--json", "--html", page)
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(l.Rungs) != 7 {
		t.Errorf("%d rungs, want 7", len(l.Rungs))
	}
	for i, r := range l.Rungs {
		turn := r.Rounds[0].Turn
		got := []int64{turn.Offered, turn.Pages, turn.Accepted + turn.Refused, turn.Failed, int64(turn.Sold)}
		if diff := cmp.Diff([]int64{80, 80, 80, 0, turn.Accepted}, got); diff != "" {
			t.Errorf("rung %d: offered, lists, answered, failed, sold: %s", i, diff)
		}
		if busy := turn.RefusedBy["busy"]; turn.Accepted > 21 || turn.Accepted+busy < 21 { // one who is told so on a busy machine may not come again
			t.Errorf("rung %d: %d accepted, %d busy, want 21 without those", i, turn.Accepted, busy)
		}
		if !r.Exact || r.Purchases <= 0 || r.Requests <= 0 || r.Click <= 0 || r.Result <= 0 {
			t.Errorf("rung %d: %+v", i, r)
		}
	}
	if html, err := os.ReadFile(page); err != nil || strings.Count(string(html), "<polyline") != 2 {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
}
