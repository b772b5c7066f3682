// Command borders holds the imports of this project against the table in .ci/borders, which says what each package may
// import: an import that no row allows is an error, and so is a row that allows more than there is. It also reports
// test code in the binary. It asks go list once, and reads the files for other systems and tags itself.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is the table, from the root of the module, where the command runs.
const file = ".ci/borders"

func main() {
	found, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "borders:", err)
		os.Exit(2)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// check returns what is wrong.
func check() ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, wrong := parse(string(text))
	imports, err := list()
	if err != nil {
		return nil, err
	}
	return slices.Concat(wrong, t.compare(imports), testCode(imports)), nil
}

// table is the file, with names as it has them: main for the root of the module.
type table struct {
	all, watched []string
	rows         map[string][]string
	order        []string
}

// parse reads the table, and returns the rows that are wrong in themselves.
func parse(text string) (t table, wrong []string) {
	t.rows = map[string][]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		allowed := strings.Fields(rest)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s: %q is no row", file, line))
			continue
		case name == "all":
			t.all = allowed
			continue
		case name == "watched":
			t.watched = allowed
			continue
		case t.rows[name] != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %s has two rows", file, name))
		case slices.Contains(t.all, name):
			wrong = append(wrong, fmt.Sprintf("%s: %s is for all, so it imports nothing of this project and has no row",
				file, name))
		}
		for _, a := range allowed {
			if !slices.Contains(t.watched, a) && t.rows[a] == nil {
				wrong = append(wrong, fmt.Sprintf("%s: the row %s names %s, which is not in a row above it", file, name,
					a))
			}
		}
		t.rows[name] = append([]string{}, allowed...)
		t.order = append(t.order, name)
	}
	return t, wrong
}

// compare holds the imports of each package against the table.
func (t table) compare(imports map[string][]string) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		for _, i := range t.counted(imports[name]) {
			if !slices.Contains(t.rows[name], i) {
				wrong = append(wrong, fmt.Sprintf("%s must not import %s: no row %q of %s allows it",
					name, i, name, file))
			}
		}
	}
	for _, name := range t.order {
		of, ok := imports[name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: there is no package %s: remove its row", file, name))
			continue
		}
		for _, a := range t.rows[name] {
			if !slices.Contains(t.counted(of), a) {
				wrong = append(wrong, fmt.Sprintf("%s: %s does not import %s: remove it from the row %q",
					file, name, a, name))
			}
		}
	}
	return wrong
}

// counted returns those imports for which a row is needed, a watched package for those below it.
func (t table) counted(imports []string) (counted []string) {
	for _, i := range imports {
		if own, ok := name(i); ok {
			if !slices.Contains(t.all, own) {
				counted = append(counted, own)
			}
			continue
		}
		for _, w := range t.watched {
			if (i == w || strings.HasPrefix(i, w+"/")) && !slices.Contains(counted, w) {
				counted = append(counted, w)
			}
		}
	}
	return counted
}

// testCode returns the packages of the binary that import a package for tests.
func testCode(imports map[string][]string) (wrong []string) {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(at string) {
		if seen[at] {
			return
		}
		seen[at] = true
		for _, i := range imports[at] {
			if own, ok := name(i); ok {
				walk(own)
			} else if i == "testing" || strings.HasPrefix(i, "testing/") || i == "net/http/httptest" {
				wrong = append(wrong, fmt.Sprintf("test code is in the binary: %s imports %s", at, i))
			}
		}
	}
	walk("main")
	return wrong
}

// name returns the name that the table has for a package of this project.
func name(path string) (string, bool) {
	if path == "miaosha" {
		return "main", true
	}
	return strings.CutPrefix(path, "miaosha/")
}

// list returns what each package of this project imports without its tests, on any system and with any tag.
func list() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,IgnoredGoFiles", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	imports := map[string][]string{}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir         string
			Imports, IgnoredGoFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return imports, nil
		} else if err != nil {
			return nil, err
		}
		for _, f := range p.IgnoredGoFiles {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.ImportsOnly)
			if err != nil {
				return nil, err
			}
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return nil, err
				}
				p.Imports = append(p.Imports, path)
			}
		}
		slices.Sort(p.Imports)
		at, _ := name(p.ImportPath)
		imports[at] = slices.Compact(p.Imports)
	}
}
