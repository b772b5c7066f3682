package web

import (
	"html/template"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModules(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	for name, source := range map[string]string{
		"page.js":       "import { a } from './a.js';\nimport words from './lab/words.js';\nawait loadTexts({ zh: () => import('./missing.js'), en: () => import('./en.js') });\n",
		"en.js":         "",
		"a.js":          "// import './comment.js'\nimport {\n  b,\n  c,\n} from './b.js';\nexport default { 'key': './text.js' };\n",
		"b.js":          "import './a.js'; // a cycle\nimport './page.js';\nexport * from './c.js';\n",
		"c.js":          "export const c = () => './no.js';\n",
		"lab/words.js":  "import { c } from '../c.js';\n",
		"unused.js":     "import './page.js';\n",
		"broken.js":     "import './broken_too.js';\n",
		"broken_too.js": "import './missing.js';\n",
	} {
		files[name] = []byte(source)
	}
	got, err := modules(scriptsOf(files), "page.js", "en")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.js", "b.js", "c.js", "en.js", "lab/words.js"}, got); diff != "" {
		t.Errorf("modules of page.js (-want +got):\n%s", diff)
	}
	_, err = modules(scriptsOf(files), "broken.js", "en")
	if err == nil || !strings.Contains(err.Error(), "missing.js does not exist") {
		t.Errorf("an import of a missing script: %v", err)
	}
}

// Every page names its own title, description, style and script in both languages, and files that are served. A page says
// whether the shop is a sandbox.
func TestPagesAreMadeFromOneTemplate(t *testing.T) {
	t.Parallel()
	for lab, of := range map[string]struct{ sandbox, local bool }{"": {}, " data-lab": {true, false}, ` data-lab="local"`: {true, true}} {
		a, err := loadAssets("", marks{Sandbox: of.sandbox, Local: of.local, NoCodes: !of.sandbox})
		if err != nil {
			t.Fatal(err)
		}
		a.pages[missingPage.Path] = a.absent
		for _, pg := range append([]page{missingPage}, pages...) {
			for _, zh := range []bool{true, false} {
				f := a.pages[pg.Path].in(zh)
				if (f == nil) != (pg.Path == teachPage && !of.local || (pg.Path == minePage || pg.Path == classPage) && !of.sandbox) {
					t.Fatalf("with the mark %q: %s is there, or not, against its rule", lab, pg.Path)
				}
				if f == nil {
					continue
				}
				html := string(f.plain.bytes)
				if lang := (bilingual{"zh-CN", "en"}).in(zh); !strings.Contains(html, "<html"+lab) || !strings.Contains(html, ` lang="`+lang+"\">\n<head>") {
					t.Errorf("%s, Chinese %v: it has not the mark %q of its shop, or the language is wrong", pg.Path, zh, lab)
				}
				if strings.Contains(html, " data-no-codes ") == of.sandbox {
					t.Errorf("%s with the mark %q: only a shop that sends no codes says so", pg.Path, lab)
				}
				if strings.Contains(html, a.prefix()+"sandbox/") != of.sandbox {
					t.Errorf("%s with the mark %q: only a sandbox loads what only a sandbox has", pg.Path, lab)
				}
				for style := range strings.FieldsSeq(pg.Style) {
					if want := `<link rel="stylesheet" href="` + a.prefix() + style + `">`; strings.Count(html, want) != 1 {
						t.Errorf("%s has %d of %s, want one", pg.Path, strings.Count(html, want), want)
					}
				}
				for _, want := range []string{"<title>" + pg.Title.in(zh) + " · " + shopName.in(zh) + "</title>", `<meta name="description" content="` + template.HTMLEscapeString(pg.Description.in(zh)) + `">`,
					`<script type="module" src="` + a.prefix() + pg.Script + `">`} {
					if strings.Count(html, want) != 1 {
						t.Errorf("%s has %d of %s, want one", pg.Path, strings.Count(html, want), want)
					}
				}
				if intro := `<div class="intro ghosts"><h1><span class="zh" lang="zh-CN">` + pg.Title.ZH + "</span>"; strings.Contains(html, intro) != (pg.Skeleton == "intro") {
					t.Errorf("%s begins with its title, or not, against its skeleton %q", pg.Path, pg.Skeleton)
				}
				for _, part := range strings.Split(html, `"`) {
					if strings.HasPrefix(part, "/static/") && a.files[part] == nil {
						t.Errorf("%s names %s, which is not served", pg.Path, part)
					}
				}
			}
		}
		for _, name := range []string{"/page.html", a.prefix() + "page.html"} {
			if a.files[name] != nil {
				t.Errorf("the template is served as %s", name)
			}
		}
	}
}

// A page that begins with a text which its words do not have, or which depends on values, is an error.
func TestIntroOf(t *testing.T) {
	t.Parallel()
	for zh, ok := range map[string]bool{
		"export default {\n  'lab.intro': '中文',\n};":              true,
		"export default {\n  'other.intro': '中文',\n};":            false,
		"export default {\n  'lab.intro': ({ n }) => `${n}`,\n};": false,
		"export default {\n  'lab.intro': 'it\\'s',\n};":          false,
	} {
		files := map[string][]byte{"lab/words/zh.js": []byte(zh), "lab/words/en.js": []byte("export default {\n  'lab.intro': 'English',\n};")}
		intro, err := introOf(files, page{Path: "/lab.html"})
		if (err == nil) != ok || ok && intro != (bilingual{"中文", "English"}) {
			t.Errorf("%s: %v, %v", zh, intro, err)
		}
	}
}

// PagePaths lists the pages for the tests that open them in a browser.
func PagePaths() (paths []string) {
	for _, pg := range pages {
		paths = append(paths, pg.Path)
	}
	return paths
}

// A style sheet that a page needs is named in the page, so the browser does not learn of it from another one.
func TestStyleSheetsImportNoOther(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(embedded, "static", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".css") && strings.Contains(asset(t, strings.TrimPrefix(name, "static/")), "@import") {
			t.Errorf("%s imports another style sheet", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A script that loads another one later says it in words when that is lost: it does so through load of lost.js, or through loadTexts.
func TestLateImportsAreLoaded(t *testing.T) {
	t.Parallel()
	late, through := 0, regexp.MustCompile(`(?m)^import \{[^}]*\b(load|loadTexts)\b[^}]*\} from '[./]+(lost|i18n)\.js';$`)
	err := fs.WalkDir(embedded, "static", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".js") || strings.HasPrefix(name, "static/lib/") {
			return err
		}
		if source := asset(t, strings.TrimPrefix(name, "static/")); regexp.MustCompile(`(?m)^[^/\n]*\bimport\(`).MatchString(source) {
			late++
			if !through.MatchString(source) {
				t.Errorf("%s imports something later, and does not load it by load or loadTexts", name)
			}
		}
		return nil
	})
	if err != nil || late < 8 {
		t.Errorf("%d scripts import something later: %v", late, err)
	}
}
