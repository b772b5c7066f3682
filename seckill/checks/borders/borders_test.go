package main

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each case changes what the packages of this project import, or the table.
func TestBorders(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	today, err := list()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		imports map[string]string // one import more, by package
		rows    string            // after those of the file
		want    []string
	}{
		{"as it is", nil, "", nil},
		{"a new package that imports nothing", map[string]string{"seckill/new": "fmt"}, "", nil},
		{"a new package that imports failpoint", map[string]string{"seckill/new": "miaosha/seckill/failpoint"}, "", nil},
		{"a new package that imports one of ours", map[string]string{"seckill/new": "miaosha/goods"}, "",
			[]string{`seckill/new must not import goods: no row "seckill/new" of .ci/borders allows it`}},
		{"a new package that imports one of ours, with a row", map[string]string{"seckill/new": "miaosha/goods"}, "seckill/new: goods\n", nil},
		{"a domain that speaks HTTP", map[string]string{"goods": "net/http", "order": "net/http/httptrace"}, "",
			[]string{`goods must not import net/http: no row "goods" of .ci/borders allows it`, `order must not import net/http: no row "order" of .ci/borders allows it`}},
		{"the gate knows the rush", map[string]string{"seckill/gate": "miaosha/seckill"}, "",
			[]string{`seckill/gate must not import seckill: no row "seckill/gate" of .ci/borders allows it`}},
		{"web audits", map[string]string{"web": "miaosha/seckill/audit"}, "", []string{`web must not import seckill/audit: no row "web" of .ci/borders allows it`}},
		{"failpoint imports a domain", map[string]string{"seckill/failpoint": "miaosha/goods"}, "",
			[]string{`seckill/failpoint must not import goods: no row "seckill/failpoint" of .ci/borders allows it`}},
		{"test code in the binary", map[string]string{"order": "testing"}, "",
			[]string{`order must not import testing: no row "order" of .ci/borders allows it`, "test code is in the binary: order imports testing"}},
		{"a row that allows too much", map[string]string{"seckill/new": "miaosha/goods"}, "seckill/new: goods order os/exec\n",
			[]string{`.ci/borders: seckill/new does not import order: remove it from the row "seckill/new"`,
				`.ci/borders: seckill/new does not import os/exec: remove it from the row "seckill/new"`}},
		{"a row of no package", nil, "seckill/gone:\n", []string{".ci/borders: there is no package seckill/gone: remove its row"}},
		{"a row for a package for all", map[string]string{"seckill/rounds": "miaosha/goods"}, "seckill/rounds: goods\n",
			[]string{".ci/borders: seckill/rounds is for all, so it imports nothing of this project and has no row"}},
		{"rows that do not go up", map[string]string{"seckill/a": "miaosha/seckill/b", "seckill/b": "fmt"}, "seckill/a: seckill/b\nseckill/b:\nnothing\nseckill/b:\n",
			[]string{".ci/borders: the row seckill/a names seckill/b, which is not in a row above it", `.ci/borders: "nothing" is no row`, ".ci/borders: seckill/b has two rows"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			imports := maps.Clone(today)
			for at, more := range c.imports {
				imports[at] = append(slices.Clone(imports[at]), more)
			}
			table, got := parse(string(text) + c.rows)
			got = slices.Concat(got, table.compare(imports), testCode(imports))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestListReadsFilesOfAllSystemsAndTags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod":       "module miaosha\n\ngo 1.26\n",
		"a.go":         "package main\n\nimport _ \"errors\"\n\nfunc main() {}\n",
		"a_plan9.go":   "package main\n\nimport _ \"os\"\n",
		"a_latency.go": "//go:build latency\n\npackage main\n\nimport _ \"net/http\"\n",
		"a_test.go":    "package main\n\nimport _ \"testing\"\n",
		"b_test.go":    "//go:build latency\n\npackage main\n\nimport _ \"testing/fstest\"\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{"main": {"errors", "net/http", "os"}}, got); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
}
