package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "timing:", err)
		os.Exit(2)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		fmt.Printf("%d findings. An exception has its reason on the line: %s why\n", len(found), exception)
		os.Exit(1)
	}
}

// check returns the findings in the folder root and below, sorted. It knows the types of Go's own library and of
// the package itself only, which is all that the forms need: so nothing has to be compiled, and files of all tags
// and systems are read at once.
func check(root string) ([]string, error) {
	fset := token.NewFileSet()
	pkgs, err := parse(fset, root)
	if err != nil {
		return nil, err
	}
	imports, err := newImporter(fset, pkgs)
	if err != nil {
		return nil, err
	}
	type finding struct {
		at   token.Position
		text string
	}
	var found []finding
	for _, p := range pkgs {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses:      map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		config := types.Config{Importer: imports, Error: func(error) {}} // for what is not known
		pkg, _ := config.Check(p.path, fset, p.files, info)
		_, err := analyzer.Run(&analysis.Pass{Analyzer: analyzer, Fset: fset, Files: p.files, Pkg: pkg, TypesInfo: info,
			ReadFile: os.ReadFile,
			Report:   func(d analysis.Diagnostic) { found = append(found, finding{fset.Position(d.Pos), d.Message}) }})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(x, y finding) int {
		return cmp.Or(cmp.Compare(x.at.Filename, y.at.Filename), cmp.Compare(x.at.Offset, y.at.Offset))
	})
	var lines []string
	for _, f := range found {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", f.at.Filename, f.at.Line, f.text))
	}
	return lines, nil
}

// source is the files of one package. A package and its external tests are two.
type source struct {
	path  string
	files []*ast.File
}

// parse reads the packages that have tests, and sandboxtest.
func parse(fset *token.FileSet, root string) ([]*source, error) {
	byName := map[string]*source{}
	tested := map[string]bool{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if at != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
				d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(at, ".go"):
			return nil
		}
		f, err := parser.ParseFile(fset, at, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Join("miaosha", filepath.ToSlash(filepath.Dir(at)))
		name := dir + " " + f.Name.Name
		if byName[name] == nil {
			byName[name] = &source{path: dir}
		}
		byName[name].files = append(byName[name].files, f)
		tested[name] = tested[name] || strings.HasSuffix(at, "_test.go") || f.Name.Name == "sandboxtest"
		return nil
	})
	var pkgs []*source
	for name, p := range byName {
		if tested[name] {
			pkgs = append(pkgs, p)
		}
	}
	return pkgs, err
}

// partialImporter imports Go's own library, and an empty package for every other.
type partialImporter struct {
	own   types.Importer
	known map[string]string // the file with the types of a package
}

// newImporter finds the types of those packages of Go's own library that the files import.
func newImporter(fset *token.FileSet, pkgs []*source) (*partialImporter, error) {
	im := &partialImporter{known: map[string]string{}}
	for _, p := range pkgs {
		for _, f := range p.files {
			for _, spec := range f.Imports {
				if at, err := strconv.Unquote(spec.Path.Value); err == nil && isOwn(at) {
					im.known[at] = ""
				}
			}
		}
	}
	args := []string{"list", "-export", "-json=ImportPath,Export"}
	for at := range im.known {
		args = append(args, at)
	}
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := list.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		im.known[p.ImportPath] = p.Export
	}
	im.own = importer.ForCompiler(fset, "gc", func(at string) (io.ReadCloser, error) { return os.Open(im.known[at]) })
	return im, nil
}

// isOwn reports whether a package is of Go's own library: its path begins with no domain, and not with this module.
func isOwn(at string) bool {
	first, _, _ := strings.Cut(at, "/")
	return !strings.Contains(first, ".") && first != "miaosha" && at != "unsafe" && at != "C"
}

// Import implements types.Importer.
func (im *partialImporter) Import(at string) (*types.Package, error) {
	if _, ok := im.known[at]; ok {
		return im.own.Import(at)
	}
	if at == "unsafe" {
		return types.Unsafe, nil
	}
	name := path.Base(at)
	if dir := path.Dir(at); len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(dir)
	}
	p := types.NewPackage(at, name)
	p.MarkComplete()
	return p, nil
}
