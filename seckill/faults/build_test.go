//go:build faults && linux

package faults

import (
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries are the shops built so far, by overlay.
var binaries struct {
	mu sync.Mutex
	at map[string]string
}

// build gives the shop built with failpoints, and with an overlay file of the go command's unless that is "": a mutant.
// Each variant is built once.
func build(t testing.TB, overlay string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path, ok := binaries.at[overlay]; ok {
		return path
	}
	sum := sha256.Sum256([]byte(overlay))
	path := filepath.Join(ground.dir, "miaosha-"+hex.EncodeToString(sum[:4]))
	args := []string{"build", "-tags", "faults", "-o", path}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, "miaosha")...).CombinedOutput(); err != nil {
		t.Fatalf("build the shop: %v\n%s", err, out)
	}
	if binaries.at == nil {
		binaries.at = map[string]string{}
	}
	binaries.at[overlay] = path
	return path
}
