package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// built is the program under test, built once per test binary.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// buildFlags are -race in a test binary with the race detector, so that the detector watches the
// shop too.
var buildFlags []string

// Binary builds the shop once and returns its path. Main removes it when the tests end.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "miaosha-binary-"); built.err != nil {
			return
		}
		// Of all commands only go run keeps what it has linked, so the tests of several packages share one linking.
		cmd := exec.Command("go", slices.Concat([]string{"run"}, buildFlags, []string{"-exec", `sh -c 'cp "$0" "$MIAOSHA_BINARY"'`, "miaosha"})...)
		cmd.Env = append(os.Environ(), "MIAOSHA_BINARY="+filepath.Join(built.dir, "miaosha"))
		var out []byte
		if out, built.err = cmd.CombinedOutput(); built.err != nil {
			os.Stderr.Write(out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the shop: %v", built.err)
	}
	return filepath.Join(built.dir, "miaosha")
}

func removeBinary() {
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
}
