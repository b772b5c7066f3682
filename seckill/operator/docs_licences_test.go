package operator

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

var writeLicences = flag.Bool("write-licences", false, "rewrite LICENSES.md (make licences)")

// licencesOf returns the SPDX names of the licences in a folder, from the files whose name is that
// of a licence. A file that the scanner recognizes only in part is an error: a person must read it.
func licencesOf(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.IsDir() || !regexp.MustCompile(`(?i)^(un)?(licen[cs]es?|copying)(\.(md|txt))?$`).MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		found := licensecheck.Scan(text)
		if found.Percent < 60 {
			return nil, fmt.Errorf("%s: only %.0f %% of it are the text of a known licence", filepath.Join(dir, f.Name()), found.Percent)
		}
		for _, m := range found.Match {
			if !m.IsURL {
				names = append(names, m.ID)
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no licence", dir)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// platforms returns the platforms of the Makefile.
func platforms(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^PLATFORMS := (.*)$`).FindSubmatch(raw)
	if m == nil {
		t.Fatal("the Makefile names no PLATFORMS")
	}
	return strings.Fields(string(m[1]))
}

// allowed are the licences with which the shop, itself under MIT, may be distributed as one program.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "Unicode-DFS-2016", "Unlicense"}

// LICENSES.md names every module in the shop's binary, on any of its platforms, and the scripts of
// its pages.
func TestLicencesAreCurrent(t *testing.T) {
	t.Parallel()
	type module struct{ path, version, how, dir string }
	seen := map[module]bool{}
	for _, p := range platforms(t) {
		goos, goarch, _ := strings.Cut(p, "/")
		cmd := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{if .Indirect}}indirect{{else}}direct{{end}}\t{{.Dir}}{{end}}{{end}}", "miaosha")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", p, err)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 {
				seen[module{f[0], f[1], f[2], f[3]}] = true
			}
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d modules are in the binary", len(seen))
	}
	modules := make([]module, 0, len(seen))
	for m := range seen {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.path, b.path) })

	var page strings.Builder
	page.WriteString(`# What the program is made of

Written by ` + "`make licences`" + `, and held against the program by ` + "`make check`" + `: every module that is in the binary on any system it is
built for, its data, and the scripts of its pages. The shop's own licence is [MIT](LICENSE). The licences' texts are in the modules; the
scripts' beside them in [web/static/lib](web/static/lib). Beside these there is Go's own library (BSD-3-Clause). Postgres and
Redis are programs of their own, and no part of it.

| what | version | licence | how |
|---|---|---|---|
`)
	row := func(what, version, how string, names []string, err error) {
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if !slices.Contains(allowed, name) {
				t.Errorf("%s is under %s, which is not in the list of allowed licences", what, name)
			}
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", what, version, strings.Join(names, ", "), how)
	}
	for _, m := range modules {
		names, err := licencesOf(m.dir)
		row(m.path, m.version, m.how, names, err)
	}
	// The scanner knows another wording of this licence; a person has read this one.
	if text, err := os.ReadFile("../alike/LICENSE"); err != nil || !strings.HasPrefix(string(text), "UNICODE, INC. LICENSE AGREEMENT - DATA FILES AND SOFTWARE\n") {
		t.Errorf("the licence of seckill/alike: %v\n%s", err, text)
	}
	row("confusables.txt of Unicode (seckill/alike)", "15.0.0", "data", []string{"Unicode-DFS-2016"}, nil)
	for _, dir := range []string{"../../web/static/lib", "../../web/static/lib/uplot"} {
		raw, err := os.ReadFile(filepath.Join(dir, "LICENSES"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^lib/(\S+) (?:is the file \S+ of|has) the npm package (\S+) ([\d.]+\d)`).FindAllStringSubmatch(string(raw), -1) {
			names, err := licencesOf(dir)
			row(m[2]+" ("+filepath.Base(m[1])+")", m[3], "page", names, err)
		}
		scripts, err := filepath.Glob(filepath.Join(dir, "*.js"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range scripts {
			if name := "(" + filepath.Base(s) + ")"; !strings.Contains(page.String(), name) {
				t.Errorf("%s/LICENSES does not say what %s is", dir, name)
			}
		}
	}

	if *writeLicences {
		if err := os.WriteFile("../../LICENSES.md", []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile("../../LICENSES.md"); err != nil || string(is) != page.String() {
		t.Errorf("LICENSES.md is out of date (%v): run make licences", err)
	}
}
