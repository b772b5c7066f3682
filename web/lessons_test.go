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

// Every place in our code that a lesson names is there: the file, and the name in it.
func TestLessonsNameWhatExists(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		b, err := os.ReadFile("../" + file)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	lessons := page(t, "lab_lessons.js")
	places := regexp.MustCompile(`\['([\w/.]+\.(?:go|sql|lua))', '(\w+)'\]`).FindAllStringSubmatch(lessons, -1)
	if n := strings.Count(lessons, "places: ["); n != 12 || len(places) < 2*n {
		t.Fatalf("%d lessons name %d places", n, len(places))
	}
	for _, p := range places {
		file, name := p[1], p[2]
		as := `\b` + name + `\b`
		if path.Ext(file) == ".go" {
			as = `(?m)^func (\(\w+ [*\w]+\) )?` + name + `\(`
		}
		if !regexp.MustCompile(as).MatchString(read(file)) {
			t.Errorf("%s has no %s", file, name)
		}
	}
	for _, words := range []string{"words/lessons_en.js", "words/lessons_zh.js"} {
		for _, file := range regexp.MustCompile(`\w+(?:/\w+)+\.(?:go|lua)\b`).FindAllString(page(t, words), -1) {
			read(file)
		}
	}
}

// Both languages have the same words, and every word that a page asks for by its name is there.
func TestWordsAreInBothLanguages(t *testing.T) {
	known := map[string]bool{}
	for _, names := range [][2]string{{"en", "zh"}, {"lab_en", "lab_zh"}, {"lessons_en", "lessons_zh"}} {
		en, zh := wordsOf(t, names[0]), wordsOf(t, names[1])
		for _, k := range en {
			known[k] = true
			if !slices.Contains(zh, k) {
				t.Errorf("%q is missing in Chinese", k)
			}
		}
		for _, k := range zh {
			if !slices.Contains(en, k) {
				t.Errorf("%q is missing in English", k)
			}
		}
	}
	files, err := fs.Glob(embedded, "static/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		for _, asked := range regexp.MustCompile(`\bt\('([\w.]+)'[,)]`).FindAllStringSubmatch(page(t, path.Base(file)), -1) {
			if !known[asked[1]] {
				t.Errorf("%s asks for the word %q", file, asked[1])
			}
		}
	}
}

// wordsOf lists the keys of a file of words, each of which stands at the beginning of a line.
func wordsOf(t *testing.T, name string) (keys []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^  (?:'((?:[^'\\]|\\.)+)'|(\w+)):`).FindAllStringSubmatch(page(t, "words/"+name+".js"), -1) {
		k := m[1] + m[2]
		if slices.Contains(keys, k) {
			t.Errorf("%s has %q twice", name, k)
		}
		keys = append(keys, k)
	}
	if len(keys) < 30 {
		t.Fatalf("%s has %d words", name, len(keys))
	}
	return keys
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(embedded, "static/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
