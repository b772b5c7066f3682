package web

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every place in the code that a lesson names exists: the file, and the name in it.
func TestLessonsNameExistingCode(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		b, err := os.ReadFile("../" + file)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	lessons := asset(t, "lab/lessons.js")
	places := regexp.MustCompile(`\['([\w/.]+\.(?:go|sql|lua))', '(\w+)'\]`).FindAllStringSubmatch(lessons, -1)
	if n := strings.Count(lessons, "places: ["); n != 12 || len(places) < 2*n {
		t.Fatalf("%d lessons name %d places, want 12 lessons with two places each or more", n, len(places))
	}
	for _, p := range places {
		file, name := p[1], p[2]
		declaration := `\b` + name + `\b`
		if path.Ext(file) == ".go" {
			declaration = `(?m)^func (\(\w+ [*\w]+\) )?` + name + `\(`
		}
		if !regexp.MustCompile(declaration).MatchString(read(file)) {
			t.Errorf("%s has no %s", file, name)
		}
	}
	for _, words := range []string{"lab/words/lessons_en.js", "lab/words/lessons_zh.js"} {
		for _, file := range regexp.MustCompile(`\w+(?:/\w+)+\.(?:go|lua)\b`).FindAllString(asset(t, words), -1) {
			read(file)
		}
	}
}

// Both languages have the same keys, and every key that a script names exists.
func TestTextsExistInBothLanguages(t *testing.T) {
	known := map[string]bool{}
	for _, file := range []string{"words/", "lab/words/", "lab/words/lessons_"} {
		en, zh := textKeys(t, file+"en.js"), textKeys(t, file+"zh.js")
		for _, k := range en {
			known[k] = true
			if !slices.Contains(zh, k) {
				t.Errorf("%szh.js has no %q", file, k)
			}
		}
		for _, k := range zh {
			if !slices.Contains(en, k) {
				t.Errorf("%sen.js has no %q", file, k)
			}
		}
	}
	for _, folder := range []string{"static/*.js", "static/lab/*.js"} {
		files, err := fs.Glob(embedded, folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Fatalf("%s matches no script", folder)
		}
		for _, file := range files {
			for _, used := range regexp.MustCompile(`\bt\('([\w.]+)'[,)]`).FindAllStringSubmatch(asset(t, strings.TrimPrefix(file, "static/")), -1) {
				if !known[used[1]] {
					t.Errorf("%s uses the key %q, which does not exist", file, used[1])
				}
			}
		}
	}
}

// textKeys returns the keys of a file of texts. Each key stands at the beginning of a line.
func textKeys(t *testing.T, name string) (keys []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^  (?:'((?:[^'\\]|\\.)+)'|(\w+)):`).FindAllStringSubmatch(asset(t, name), -1) {
		k := m[1] + m[2]
		if slices.Contains(keys, k) {
			t.Errorf("%s has %q twice", name, k)
		}
		keys = append(keys, k)
	}
	if len(keys) < 30 {
		t.Fatalf("%s has %d keys, want 30 or more", name, len(keys))
	}
	return keys
}

// asset returns an embedded file below web/static.
func asset(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(embedded, "static/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
