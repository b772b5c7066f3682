package web

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
)

var importStatement = regexp.MustCompile(`^(?:import|export)\b(?:[^;'"]*\bfrom)?\s*['"](\.[^'"]+)['"]`)

// textsImport is how a script names a file of texts: see loadTexts in static/i18n.js.
var textsImport = regexp.MustCompile(`\b(zh|en): \(\) => import\('(\.[^']+)'\)`)

var newline, importWord, exportWord, importCall = []byte("\n"), []byte("import"), []byte("export"), []byte("=> import(")

// script is what a script imports: addresses, and those of its files of texts by language, zh or en.
type script struct {
	imports []string
	texts   map[string][]string
}

// scriptsOf reads the imports of all scripts.
func scriptsOf(files map[string][]byte) map[string]script {
	scripts := map[string]script{}
	for name, source := range files {
		if path.Ext(name) != ".js" {
			continue
		}
		s := script{texts: map[string][]string{}}
		for rest := source; len(rest) > 0; _, rest, _ = bytes.Cut(rest, newline) {
			if !bytes.HasPrefix(rest, importWord) && !bytes.HasPrefix(rest, exportWord) {
				continue // a regular expression over all lines takes a tenth of the shop's start
			}
			if m := importStatement.FindSubmatch(rest); m != nil {
				s.imports = append(s.imports, string(m[1]))
			}
		}
		if bytes.Contains(source, importCall) {
			for _, m := range textsImport.FindAllSubmatch(source, -1) {
				s.texts[string(m[1])] = append(s.texts[string(m[1])], string(m[2]))
			}
		}
		scripts[name] = s
	}
	return scripts
}

// modules returns the scripts that a script imports, directly or through other scripts, in alphabetical order, with the
// files of texts in one language, zh or en. A page names them all, so that the browser loads them at once and not one
// after the other.
func modules(scripts map[string]script, name, lang string) ([]string, error) {
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		s, ok := scripts[name]
		if !ok {
			return fmt.Errorf("script %s does not exist", name)
		}
		seen[name] = true
		for _, address := range slices.Concat(s.imports, s.texts[lang]) {
			imported := path.Join(path.Dir(name), address)
			if seen[imported] {
				continue
			}
			if err := visit(imported); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	if err := visit(name); err != nil {
		return nil, err
	}
	delete(seen, name)
	return slices.Sorted(maps.Keys(seen)), nil
}
