//go:build faults && linux

package faults

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binaries has the path of each variant of the shop that was built, by overlay file.
var binaries struct {
	mu sync.Mutex
	at map[string]string
}

// build returns the path of the shop, built with failpoints. An overlay file of the go command, unless it is "", makes it a
// mutant. Each variant is built once.
func build(t testing.TB, overlay string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path, ok := binaries.at[overlay]; ok {
		return path
	}
	sum := sha256.Sum256([]byte(overlay))
	path := filepath.Join(shared.dir, "miaosha-"+hex.EncodeToString(sum[:4]))
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

// clockAhead sets the clock of a whole process five minutes ahead: its time package is compiled with this edit. It may be
// combined with the edits of a mutant.
var clockAhead = edit{"@time/time.go", "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {", "	sec, nsec, mono := runtimeNow()\n	sec += 300\n	if mono == 0 {"}

// overlay writes the edited files and the list of them for go build -overlay, and returns the path of the list. The test
// fails if a file does not have the text that an edit replaces.
func overlay(t testing.TB, name string, edits ...edit) string {
	t.Helper()
	if len(edits) == 0 {
		return ""
	}
	dir := filepath.Join(shared.dir, "overlays", strings.ReplaceAll(name, " ", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, replace := map[string]string{}, map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if std, ok := strings.CutPrefix(e.file, "@"); ok {
			path = filepath.Join(strings.TrimSpace(string(goroot)), "src", std)
		}
		if _, read := text[path]; !read {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(b)
			replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		}
		if n := strings.Count(text[path], e.old); n != 1 {
			t.Fatalf("%q: the text to replace is %d times in %s, want once:\n%s", name, n, e.file, e.old)
		}
		text[path] = strings.Replace(text[path], e.old, e.new, 1)
	}
	for path, to := range replace {
		if err := os.WriteFile(to, []byte(text[path]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
