package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/analysis/analysistest"
)

// The comments "want" in testdata say which lines are reported.
func TestForms(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), analyzer, "forms", "hang", "miaosha/seckill/sandbox/sandboxtest", "miaosha/seckill/faults")
}

// The command does without the types of other modules, and reads files of all tags and systems.
func TestCheckReadsEveryFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go":          "package a\n\nimport (\n\t\"time\"\n\n\t\"example.com/none/v2\"\n)\n\nfunc f() {\n\tnone.Call(time.Since(none.At) > 5)\n}\n",
		"a_windows_test.go":  "package a\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n",
		"b_test.go":          "//go:build latency && !windows\n\npackage a_test\n\nimport (\n\t\"net\"\n\t\"time\"\n)\n\nfunc f() { time.Sleep(1); net.Listen(\"tcp\", \":8080\") }\n",
		"c_test.go":          "//go:build !latency && faults\n\npackage a_test\n\nimport \"time\"\n\nfunc g() { time.Sleep(1) }\n",
		"c.go":               "package a\n\nimport \"time\"\n\nfunc h() { time.Sleep(1) }\n",
		"testdata/d_test.go": "package d\n\nimport \"time\"\n\nfunc h() { time.Sleep(1) }\n",
	} {
		at := filepath.Join(dir, "a", name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got, err := check(".")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a/a_test.go:10: " + compares, "a/a_windows_test.go:5: " + sleeps, "a/b_test.go:10: " + fixed, "a/c_test.go:7: " + sleeps}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
