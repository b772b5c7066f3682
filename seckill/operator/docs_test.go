package operator

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The documents name files, code, tests and commands. Each name is checked against the sources, by these conventions:
//
//   - the target of a relative link exists, and its #anchor is a heading there;
//   - a `path/with.extension` exists, from the document's folder or from the root; a `file.go` (or .lua, .sql, .md, .js, .css)
//     exists in the document's folder or below it;
//   - a `folder/below` one of ours is there, from the root;
//   - `pkg.Name`, `Type.Method`, `Type.field` and `table.column` are declared, and a `mixedCase` word is in the sources;
//   - a `Name` in [file](file.go) or in `file.go` is in that file;
//   - names of tests, MIAOSHA_ variables and miaosha_ metrics, wherever they stand, are in the sources;
//   - in `code` and in sh blocks, `make x` is a target, `miaosha x --flag` a command with that flag, and ./folder a folder.

// document is a page that GitHub shows.
type document struct{ path, text string }

// repository is what the documents are about. Paths are from its root.
type repository struct {
	root     string
	files    map[string]bool            // and folders
	sources  map[string]string          // texts of programs, without the documents
	declared map[string]bool            // pkg.Name, Type.Method, Type.field
	words    map[string]bool            // of all sources
	tests    map[string]bool            // Test, Fuzz and Benchmark functions
	targets  map[string]bool            // of the Makefile
	flags    map[string]map[string]bool // by command; "" has all of them
}

func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	r := readRepository(t)
	docs := r.documents(t)
	for _, want := range []string{"README.md", "README.zh-CN.md", "CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md", "SCALE.md", "TESTING.md", "deploy/README.md", "web/README.md",
		"seckill/bench/README.md", "seckill/faults/README.md", "seckill/lab/README.md", "seckill/lab/TEACHING.md", "seckill/lab/TEACHING.zh-CN.md"} {
		if !slices.ContainsFunc(docs, func(d document) bool { return d.path == want }) {
			t.Errorf("there is no %s", want)
		}
	}
	if n := len(reTest.FindAllString(r.document(t, "SECURITY.md").text, -1)); n < 20 {
		t.Errorf("SECURITY.md names %d tests, want one at least for each promise", n)
	}
	for _, d := range docs {
		for _, wrong := range r.wrong(d) {
			t.Errorf("%s: %s", d.path, wrong)
		}
	}
}

// This test breaks each convention once, beside its right use, because a check that finds nothing may be blind.
func TestWrongNamesInDocumentsAreFound(t *testing.T) {
	t.Parallel()
	d := document{"seckill/README.md", strings.Join([]string{
		"[lane](lane.go) [none](nowhere.go) [anchor](../SECURITY.md#how-to-report) [no anchor](../SECURITY.md#nowhere) [web](https://example.org/x)",
		"`lane.go` `gone.go` `order/place.go` `order/gone.go` `reserve.lua` `buyers.csv` `seckill/gate` `seckill/gone` `application/json` `/api/sales.html`",
		"`goods.Lock` `goods.Nothing` `Engine.Buy()` `Engine.Nothing` `sales.stock` `sales.nothing` `sessionLife` `noSuchWord` `FLUSHALL`",
		"`Place` in [place.go](../order/place.go), `Lock` in [window.go](../goods/window.go), `Place()` in `order/place.go`, `Lease` in `reserve.lua`",
		"TestLeastPrivilege TestOfNothing MIAOSHA_SECRET MIAOSHA_NOTHING miaosha_shed_total miaosha_nothing_total",
		"`make check` `make nothing` `miaosha audit` `miaosha nothing` `miaosha bench --shape second` `miaosha audit --shape` `miaosha --addr :80 --units 3` `--qmax` `--nothing`",
		"```sh", "ID=$(./miaosha sale --title \"A B\" --nowhere 3) # miaosha gone", "make gone   # make never", "go test ./order ./gone && ./miaosha users -n 3 -x 4", "```",
		"```", "not checked: `gone.go` make nothing", "```", "",
	}, "\n")}
	want := []string{
		"a link to nowhere.go, which does not exist", "a link to ../SECURITY.md#nowhere, which is no heading there",
		"the file `gone.go`", "the file `order/gone.go`", "the folder `seckill/gone`", "the name `goods.Nothing`", "the name `Engine.Nothing`", "the name `sales.nothing`",
		"the name `noSuchWord`", "`Lock` in ../goods/window.go", "`Lease` in reserve.lua", "the test TestOfNothing", "the variable MIAOSHA_NOTHING", "the metric miaosha_nothing_total",
		"make nothing", "the command miaosha nothing", "the flag --shape of miaosha audit", "the flag --units of miaosha serve", "the flag --nothing",
		"the flag --nowhere of miaosha sale", "make gone", "the folder ./gone", "the flag -x of miaosha users",
	}
	got := readRepository(t).wrong(d)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The README is one page in two languages, and short enough to be read to its end.
func TestTheTwoReadmesSayTheSame(t *testing.T) {
	t.Parallel()
	r := repository{root: "../.."}
	en, zh := r.document(t, "README.md"), r.document(t, "README.zh-CN.md")
	for _, d := range []document{en, zh} {
		if n := strings.Count(d.text, "\n"); n > 150 {
			t.Errorf("%s has %d lines, want 150 at most", d.path, n)
		}
	}
	if diff := cmp.Diff(outline(en), outline(zh)); diff != "" {
		t.Errorf("(-English +Chinese)\n%s", diff)
	}
}

// The plan for a lesson is the same in both languages, but for the README to which it leads.
func TestTheTwoPlansForALessonSayTheSame(t *testing.T) {
	t.Parallel()
	r := repository{root: "../.."}
	neutral := strings.NewReplacer(".zh-CN.md", ".md", "#两条命令", "#two-commands")
	both := [2][]string{outline(r.document(t, "seckill/lab/TEACHING.md")), outline(r.document(t, "seckill/lab/TEACHING.zh-CN.md"))}
	for i := range both {
		for k, line := range both[i] {
			both[i][k] = neutral.Replace(line)
		}
	}
	if len(both[0]) < 40 {
		t.Errorf("the plan has %d headings, rows, links and commands, want 40 or more", len(both[0]))
	}
	if diff := cmp.Diff(both[0], both[1]); diff != "" {
		t.Errorf("(-English +Chinese)\n%s", diff)
	}
}

// outline returns what a document has in any language: levels of headings, targets of links, rows of tables, commands.
func outline(d document) (all []string) {
	prose, shell := parts(d.text)
	for line := range strings.Lines(prose) {
		if m := reHeading.FindStringSubmatch(line); m != nil {
			all = append(all, m[1])
		}
		if strings.HasPrefix(line, "|") {
			all = append(all, fmt.Sprint("row of ", strings.Count(line, "|")-1))
		}
		for _, m := range reLink.FindAllStringSubmatch(line, -1) {
			if !strings.HasPrefix(m[1], "README.") {
				all = append(all, m[1])
			}
		}
	}
	for _, line := range shell {
		name, flags := miaoshaIn(line)
		all = append(all, fmt.Sprint("miaosha ", name, flags))
	}
	return all
}

var (
	reFence    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	reSpan     = regexp.MustCompile("`([^`\n]+)`")
	reLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	reHeading  = regexp.MustCompile(`(?m)^(#+) (.+)$`)
	reComment  = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	reInFile   = regexp.MustCompile("`(\\w+)(?:\\(\\))?` in (?:\\[[^\\]]*\\]\\(([^)#]+)\\)|`([^`]+\\.\\w+)`)")
	reAnyFile  = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)*/[\w-]+(?:\.[\w-]+)*\.[a-z]+$`)
	reSource   = regexp.MustCompile(`^[\w-]+(?:\.[\w-]+)*\.(?:go|lua|sql|md|js|css)$`)
	reOurs     = regexp.MustCompile(`^(?:deploy|goods|order|seckill|user|web)(?:/[\w-]+)+/?$`)
	reData     = regexp.MustCompile(`^[\w-]+\.(?:csv|json|html|pem)$`)
	reMember   = regexp.MustCompile(`^([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?(?:\(\))?$`)
	reMixed    = regexp.MustCompile(`^\w*[a-z][A-Z]\w*(?:\(\))?$`)
	reWord     = regexp.MustCompile(`[A-Za-z_]\w*`)
	reTest     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	reVariable = regexp.MustCompile(`\bMIAOSHA_[A-Z_]+`)
	reMetric   = regexp.MustCompile(`\bmiaosha_(\w+)`)
	reMakes    = regexp.MustCompile(`(?m)(?:^|[;&|] *)make ([a-z]+)`)
	reMiaosha  = regexp.MustCompile(`(?:^|\$\(|[;&|] *|^time )(?:\./)?miaosha(?:$|\s+((?:"[^"]*"|[^")|;&])*))`)
	reFolder   = regexp.MustCompile(`(?:^|\s)\./([\w/]+)`)
	reFlag     = regexp.MustCompile(`(?:^|\s)(--[a-z][\w-]*|-[a-z])\b`)
	reQuoted   = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// parts returns a document without its fenced blocks, and the lines of those in sh, without comments.
func parts(text string) (prose string, shell []string) {
	for _, m := range reFence.FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" {
			shell = append(shell, strings.Split(reComment.ReplaceAllString(m[2], ""), "\n")...)
		}
	}
	return reFence.ReplaceAllString(text, ""), shell
}

// wrong lists the names in a document that nothing in the repository has.
func (r *repository) wrong(d document) (wrong []string) {
	missing := func(there bool, format string, args ...any) {
		if !there {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	dir, prose, code := path.Dir(d.path), "", []string(nil)
	prose, code = parts(d.text)
	for _, m := range reLink.FindAllStringSubmatch(prose, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		at := path.Join(dir, target)
		if target == "" {
			at = d.path
		}
		missing(r.files[at], "a link to %s, which does not exist", m[1])
		if anchor != "" && r.files[at] {
			missing(r.hasHeading(at, anchor), "a link to %s, which is no heading there", m[1])
		}
	}
	for _, m := range reSpan.FindAllStringSubmatch(prose, -1) {
		s := m[1]
		switch {
		case reAnyFile.MatchString(s), reSource.MatchString(s):
			missing(len(r.called(dir, s)) > 0, "the file `%s`", s)
		case reOurs.MatchString(s):
			missing(r.files[strings.TrimSuffix(s, "/")], "the folder `%s`", s)
		case reData.MatchString(s): // made while the shop runs
		case reMember.MatchString(s):
			missing(r.hasMember(s), "the name `%s`", s)
		case reMixed.MatchString(s):
			missing(r.words[strings.TrimSuffix(s, "()")], "the name `%s`", s)
		case strings.HasPrefix(s, "--"):
			for _, f := range reFlag.FindAllStringSubmatch(s, -1) {
				missing(r.flags[""][f[1]], "the flag %s", f[1])
			}
		default:
			code = append(code, s)
		}
	}
	for _, m := range reInFile.FindAllStringSubmatch(prose, -1) {
		name := m[2] + m[3]
		missing(slices.ContainsFunc(r.called(dir, name), func(at string) bool {
			return slices.Contains(reWord.FindAllString(r.sources[at], -1), m[1])
		}), "`%s` in %s", m[1], name)
	}
	for _, name := range reTest.FindAllString(d.text, -1) {
		missing(r.tests[name], "the test %s", name)
	}
	for _, name := range reVariable.FindAllString(d.text, -1) {
		missing(r.words[name], "the variable %s", name)
	}
	for _, m := range reMetric.FindAllStringSubmatch(d.text, -1) {
		missing(r.words[m[1]] || r.words[m[0]], "the metric %s", m[0])
	}
	for _, line := range code {
		for _, m := range reMakes.FindAllStringSubmatch(line, -1) {
			missing(r.targets[m[1]], "make %s", m[1])
		}
		for _, m := range reFolder.FindAllStringSubmatch(line, -1) {
			missing(r.files[m[1]] || m[1] == "miaosha", "the folder ./%s", m[1])
		}
		name, flags := miaoshaIn(line)
		missing(name == "" || r.flags[name] != nil, "the command miaosha %s", name)
		for _, f := range flags {
			missing(r.flags[name] == nil || r.flags[name][f], "the flag %s of miaosha %s", f, name)
		}
	}
	return wrong
}

// miaoshaIn returns the command and the flags with which a line calls miaosha: serve for flags alone, "" for no call.
func miaoshaIn(line string) (command string, flags []string) {
	m := reMiaosha.FindStringSubmatch(line)
	if m == nil {
		return "", nil
	}
	args := reQuoted.ReplaceAllString(m[1], "")
	if first, _, _ := strings.Cut(args, " "); reWord.FindString(first) == first {
		command = first
	}
	for _, f := range reFlag.FindAllStringSubmatch(args, -1) {
		flags = append(flags, f[1])
	}
	if command == "" && len(flags) > 0 {
		command = "serve"
	}
	return command, flags
}

// called lists the files that a document in dir may mean by a name: a path from there or from the root, or a file of that
// name below.
func (r *repository) called(dir, name string) (files []string) {
	for f := range r.files {
		if f == name || f == path.Join(dir, name) || path.Base(f) == name && (dir == "." || strings.HasPrefix(f, dir+"/")) {
			files = append(files, f)
		}
	}
	return files
}

// hasMember reports whether a.b or a.b.c is declared, is a column of a table, or occurs in the sources.
func (r *repository) hasMember(s string) bool {
	m := reMember.FindStringSubmatch(s)
	if m[3] != "" && r.declared[m[1]+"."+m[2]] && r.declared[m[2]+"."+m[3]] || m[3] == "" && r.declared[m[1]+"."+m[2]] {
		return true
	}
	table := regexp.MustCompile(`(?s)create table if not exists ` + m[1] + ` \((.*?)\n\);`).FindStringSubmatch(r.sources["schema.sql"])
	if table != nil {
		column, _ := regexp.MatchString(`(?m)^\s+`+m[2]+`\s`, table[1])
		return column
	}
	for _, text := range r.sources {
		if strings.Contains(text, strings.TrimSuffix(s, "()")) {
			return true
		}
	}
	return false
}

// hasHeading reports whether a page has a heading with GitHub's anchor.
func (r *repository) hasHeading(page, anchor string) bool {
	raw, _ := os.ReadFile(filepath.Join(r.root, page))
	prose, _ := parts(string(raw))
	for _, m := range reHeading.FindAllStringSubmatch(prose, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[2]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

func (r *repository) document(t *testing.T, at string) document {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.root, at))
	if err != nil {
		t.Fatal(err)
	}
	return document{at, string(raw)}
}

// documents returns the documents of the root, the table of ASVS, the READMEs of all folders and the plan for a lesson.
// A changelog may name what is gone.
func (r *repository) documents(t *testing.T) (docs []document) {
	t.Helper()
	for _, f := range slices.Sorted(maps.Keys(r.files)) {
		if base := path.Base(f); base == "README.md" || base == "README.zh-CN.md" || strings.HasPrefix(base, "TEACHING.") || slices.Contains([]string{"CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md", "SCALE.md", "TESTING.md"}, f) || f == asvsTable {
			docs = append(docs, r.document(t, f))
		}
	}
	return docs
}

// readRepository returns the repository, which all tests read and none changes.
func readRepository(t *testing.T) *repository {
	t.Helper()
	readOnce.Do(func() { theRepository = readSources(t) })
	if theRepository == nil {
		t.Fatal("the repository could not be read: see the first test that failed")
	}
	return theRepository
}

var (
	readOnce      sync.Once
	theRepository *repository
)

// readSources reads the sources, and asks the built shop for its commands and flags.
func readSources(t *testing.T) *repository {
	t.Helper()
	r := &repository{root: "../..", files: map[string]bool{}, sources: map[string]string{}, declared: map[string]bool{}, words: map[string]bool{},
		tests: map[string]bool{}, targets: map[string]bool{}, flags: map[string]map[string]bool{"": {}}}
	err := fs.WalkDir(os.DirFS(r.root), ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return err
		}
		if d.Name() == "node_modules" { // what make baseline and make pages install
			return fs.SkipDir
		}
		r.files[at] = true
		switch {
		case d.IsDir(), !slices.Contains([]string{".go", ".lua", ".sql", ".js", ".css", ".html"}, path.Ext(at)) && at != "Makefile",
			at == "seckill/operator/docs_test.go": // which names what does not exist
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(r.root, at))
		if err != nil {
			return err
		}
		r.sources[at] = string(raw)
		for _, w := range reWord.FindAllString(string(raw), -1) {
			r.words[w] = true
		}
		if path.Ext(at) == ".go" {
			return r.declare(at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(r.sources["Makefile"], -1) {
		r.targets[m[1]] = true
	}
	help := sandboxtest.MustCommand(t, nil, "--help")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  `).FindAllStringSubmatch(help, -1) {
		r.flags[m[1]] = map[string]bool{}
		help := sandboxtest.MustCommand(t, nil, m[1], "--help")
		for _, verb := range regexp.MustCompile(`(?m)^  `+m[1]+` ([a-z]+)  `).FindAllStringSubmatch(help, -1) {
			help += sandboxtest.MustCommand(t, nil, m[1], verb[1], "--help")
			r.flags[m[1]+" "+verb[1]] = map[string]bool{}
		}
		for _, f := range regexp.MustCompile(`(?m)^ {2,6}(?:(-\w), )?(--[\w-]+)`).FindAllStringSubmatch(help, -1) {
			r.flags[m[1]][f[1]], r.flags[m[1]][f[2]] = true, true
		}
		maps.Copy(r.flags[""], r.flags[m[1]])
	}
	return r
}

// declare adds the names that a Go file declares.
func (r *repository) declare(at string) error {
	file, err := parser.ParseFile(token.NewFileSet(), at, r.sources[at], parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			owner := pkg
			if d.Recv != nil {
				owner = reWord.FindString(strings.TrimLeft(r.sources[at][d.Recv.List[0].Type.Pos()-1:d.Recv.List[0].Type.End()-1], "*"))
			} else if reTest.MatchString(d.Name.Name) {
				r.tests[d.Name.Name] = true
			}
			r.declared[owner+"."+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						r.declared[pkg+"."+n.Name] = true
					}
				case *ast.TypeSpec:
					r.declared[pkg+"."+s.Name.Name] = true
					for _, n := range membersOf(s.Type) {
						r.declared[s.Name.Name+"."+n] = true
					}
				}
			}
		}
	}
	return nil
}

// membersOf returns the fields of a struct type or the methods of an interface type.
func membersOf(t ast.Expr) (names []string) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// The heart's reading order says how many lines it is. The number may be wrong by one in twenty.
func TestReadingOrderIsCounted(t *testing.T) {
	t.Parallel()
	r := readRepository(t)
	_, section, found := strings.Cut(r.document(t, "seckill/README.md").text, "\n## Reading order\n")
	section, _, _ = strings.Cut(section, "\n## ")
	said := regexp.MustCompile(`About ([0-9],[0-9]{3}) lines`).FindStringSubmatch(section)
	if !found || said == nil {
		t.Fatal("seckill/README.md has no reading order with its number of lines")
	}
	want, err := strconv.Atoi(strings.ReplaceAll(said[1], ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, link := range regexp.MustCompile(`\]\(([^)]+\.(?:go|lua))\)`).FindAllStringSubmatch(section, -1) {
		text, err := os.ReadFile(filepath.Join(r.root, "seckill", link[1]))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if 20*max(lines-want, want-lines) > want {
		t.Errorf("the reading order is %d lines, and says %s", lines, said[1])
	}
}
