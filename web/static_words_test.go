package web

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"miaosha/goods"
	"miaosha/seckill/admin"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
	"miaosha/user"
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
	n := strings.Count(lessons, "\n    name: '")
	if n < 12 || strings.Count(lessons, "places: [") != n || len(places) < 2*n {
		t.Fatalf("%d lessons name %d places, want 12 lessons or more with two places each or more", n, len(places))
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
	for _, words := range []string{"lab/words/lessons_en.js", "lab/words/lessons_zh.js", "lab/words/load_en.js", "lab/words/load_zh.js"} {
		for _, file := range regexp.MustCompile(`\w+(?:/\w+)+\.(?:go|lua)\b`).FindAllString(asset(t, words), -1) {
			read(file)
		}
	}
}

// Each lesson has a title of its own, in both languages: the list shows no more of it.
func TestLessonsHaveDifferentTitles(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		seen := map[string]string{}
		for _, found := range regexp.MustCompile(`'(lesson\.[\w-]+)\.title': '((?:[^'\\]|\\.)+)'`).FindAllStringSubmatch(asset(t, "lab/words/titles_"+language+".js"), -1) {
			if other, ok := seen[found[2]]; ok {
				t.Errorf("%s: %s and %s are both called %q", language, other, found[1], found[2])
			}
			seen[found[2]] = found[1]
		}
		if n := strings.Count(asset(t, "lab/lessons.js"), "\n    name: '"); len(seen) != n {
			t.Errorf("%s: %d titles for %d lessons", language, len(seen), n)
		}
	}
}

// A student finds the lessons by the words of the courses.
func TestLessonsAreFoundByTheWordsOfTheCourses(t *testing.T) {
	for file, words := range map[string]string{
		"lab/words/lessons_zh.js": "秒杀令牌 队列泄洪 预减库存 内存标记 库存流水 库存回补 死信 消息队列 削峰 幂等 一致性 悲观锁 乐观锁 分布式锁 防刷 限流 RabbitMQ RocketMQ",
		"lab/words/lessons_en.js": "pessimistic optimistic distributed idempotent pre-decrement journal peak dead consistency token avalanche RabbitMQ RocketMQ",
	} {
		text := asset(t, file)
		for word := range strings.FieldsSeq(words) {
			if !strings.Contains(text, word) {
				t.Errorf("%s does not contain %s", file, word)
			}
		}
	}
}

// Both languages have the same keys, and every key that a script names exists.
func TestTextsExistInBothLanguages(t *testing.T) {
	known := map[string]bool{}
	for _, file := range []string{"words/", "lab/words/", "lab/words/titles_", "lab/words/lessons_", "lab/words/lines_", "lab/words/trials_", "lab/words/load_", "lab/words/picture_", "lab/words/handout_", "mine/words/", "courses/words/", "class/words/", "sandbox/words/", "sandbox/words/teach_", "admin/words/", "admin/words/live_", "admin/words/sales_", "admin/words/orders_", "admin/words/payments_", "admin/words/ticket_"} {
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
	for _, folder := range []string{"static/*.js", "static/lab/*.js", "static/mine/*.js", "static/courses/*.js", "static/class/*.js", "static/sandbox/*.js", "static/admin/*.js"} {
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

// Chinese texts have full-width punctuation: a half-width mark beside a Chinese character is a slip.
func TestChineseIsPunctuatedInFullWidth(t *testing.T) {
	half := regexp.MustCompile(`\p{Han}[,;:!?]|[,;:!?]\p{Han}|\p{Han}\([^)]*\p{Han}[^)]*\)|\p{Han}\.(\s|'|"|$)`)
	texts := map[string]string{}
	for _, file := range []string{"errors.go", "errors_fields.go", "../goods/demo.json"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(b)
	}
	for _, folder := range []string{"static/words/zh.js", "static/*/words/*zh.js", "static/courses/rows/*.js"} {
		files, err := fs.Glob(embedded, folder)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches no file, %v", folder, err)
		}
		for _, file := range files {
			texts[file] = asset(t, strings.TrimPrefix(file, "static/"))
		}
	}
	for file, text := range texts {
		for _, found := range half.FindAllStringIndex(text, -1) {
			t.Errorf("%s: half-width punctuation in %q", file, text[max(0, found[0]-20):min(len(text), found[1]+20)])
		}
	}
}

// The lab's sources are explained in both languages, part by part, and the comment at their top in Chinese.
func TestExperimentsAreExplained(t *testing.T) {
	about := asset(t, "lab/words/about_zh.js")
	for _, info := range strategies.All() {
		if !strings.Contains(about, "\n  'strategy."+info.Name+".about': [") {
			t.Errorf("lab/words/about_zh.js has no %s", info.Name)
		}
	}
	for _, lang := range []string{"zh", "en"} {
		texts := asset(t, "lab/words/trials_"+lang+".js") + asset(t, "lab/words/load_"+lang+".js")
		for _, name := range experiments.Names() {
			files := experiments.Source(name)
			if len(files) == 0 {
				t.Errorf("%s has no source", name)
			}
			for _, f := range files {
				if !strings.Contains(about, "\n  'source."+f.File+".about': [") {
					t.Errorf("lab/words/about_zh.js has no %s", f.File)
				}
				_, lines, _ := strings.Cut(texts, "\n  'source."+f.File+".lines': [\n")
				lines, _, _ = strings.Cut(lines, "\n  ],")
				if n := strings.Count(lines, "\n") + 1; len(f.Marks) == 0 || n != len(f.Marks) || strings.Contains(f.Source, "//lab:") {
					t.Errorf("%s: %s explains %d parts of %d", f.File, lang, n, len(f.Marks))
				}
			}
		}
	}
}

// Why a sale cannot be changed is said in both languages, and of a plan that failed on the page too.
func TestReasonsOfSalesAreExplainedInBothLanguages(t *testing.T) {
	for reason := range whyNotZH {
		if (goods.TransitionError{Reason: reason}).Why() == "" {
			t.Errorf("package goods has no reason %q", reason)
		}
	}
	for _, reason := range []string{goods.Draft, goods.Published, goods.Paused, goods.Closed, "ended", "open", "past", "soon", "shown"} {
		if whyNotZH[reason] == "" {
			t.Errorf("the reason %q has no Chinese text", reason)
		}
	}
	for _, words := range []string{"admin/words/sales_en.js", "admin/words/sales_zh.js"} {
		known := textKeys(t, words)
		for _, reason := range []string{goods.Draft, goods.Published, goods.Paused, goods.Closed, "ended", admin.NotStaff} {
			if !slices.Contains(known, "plans.why."+reason) {
				t.Errorf("%s does not say why a plan failed: %s", words, reason)
			}
		}
	}
}

// Every strategy has a name, a sentence, and a text for each marked part of its source, in both languages.
func TestStrategiesAreExplainedInBothLanguages(t *testing.T) {
	for _, lang := range []string{"en", "zh"} {
		known, lines := textKeys(t, "lab/words/"+lang+".js"), asset(t, "lab/words/lines_"+lang+".js")
		for _, info := range strategies.All() {
			for _, key := range []string{"strategy." + info.Name, "strategy." + info.Name + ".says"} {
				if !slices.Contains(known, key) {
					t.Errorf("lab/words/%s.js has no %q", lang, key)
				}
			}
			_, rest, _ := strings.Cut(lines, "\n  'strategy."+info.Name+".lines': [\n")
			texts, _, _ := strings.Cut(rest, "  ],\n")
			if n := strings.Count(texts, "\n"); n != len(info.Marks) {
				t.Errorf("lab/words/lines_%s.js explains %d parts of %s, which has %d marked parts", lang, n, info.Name, len(info.Marks))
			}
		}
	}
}

// What a race's steps are called beside statements and calls exists in both languages.
func TestStepsOfRacesAreInBothLanguages(t *testing.T) {
	files, err := filepath.Glob("../seckill/lab/*.go")
	if err != nil {
		t.Fatal(err)
	}
	steps := []string{"yes", "no"}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bn\.Step\("([^"]+)"\)`).FindAllSubmatch(source, -1) {
			steps = append(steps, string(m[1]))
		}
	}
	if len(steps) < 6 {
		t.Fatalf("the lab has the steps %q, want four of the code", steps)
	}
	for _, lang := range []string{"en", "zh"} {
		known := textKeys(t, "lab/words/"+lang+".js")
		for _, step := range steps {
			if !slices.Contains(known, "step."+step) {
				t.Errorf("lab/words/%s.js has no %q", lang, "step."+step)
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
	if len(keys) < 10 {
		t.Fatalf("%s has %d keys, want 10 or more", name, len(keys))
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

// The comments of the shop's programs are in Chinese, too.
func TestProgramCommentsAreTranslated(t *testing.T) {
	sources := []string{strings.ReplaceAll(asset(t, "mine/write.js"), `\n`, "\n")} // has the empty program
	for _, p := range strategies.Programs() {
		sources = append(sources, p.Source)
	}
	for _, e := range exercises.All() {
		sources = append(sources, e.Start.Source, e.Solution.Source)
	}
	known, used := textKeys(t, "mine/words/comments_zh.js"), map[string]bool{}
	for _, source := range sources {
		for _, comment := range regexp.MustCompile(`(?m)^--.*(?:\n--.*)*|-- .*$`).FindAllString(source, -1) {
			first, _, _ := strings.Cut(strings.TrimPrefix(comment, "-- "), "\n")
			key := strings.ReplaceAll("comment."+first, "'", `\'`)
			if marks := []string{"prepare", "buy", "think"}; slices.Contains(marks, first) { // of a program in SQL
				continue
			}
			if used[key] = true; !slices.Contains(known, key) {
				t.Errorf("no Chinese for %q", comment)
			}
		}
	}
	for _, key := range known {
		if !used[key] {
			t.Errorf("no program has the comment %q", key)
		}
	}
}

// The rules that a page shows before are those of the code.
func TestRulesAreThoseOfTheCode(t *testing.T) {
	for _, file := range []string{"words/zh.js", "words/en.js"} {
		for key, numbers := range map[string][]int{"rule.password": {user.PasswordMin, user.PasswordMax}, "rule.nickname": {user.NicknameMax}} {
			line := regexp.MustCompile(`(?m)^  '` + key + `': .*$`).FindString(asset(t, file))
			var want []string
			for _, n := range numbers {
				want = append(want, strconv.Itoa(n))
			}
			if got := regexp.MustCompile(`\d+`).FindAllString(line, -1); !slices.Equal(got, want) {
				t.Errorf("%s: %s has the numbers %v, want %v", file, line, got, want)
			}
		}
	}
	most := fmt.Sprintf(" %d KB", program.MaxSource>>10)
	for file, part := range map[string]string{"mine/words/zh.js": most, "mine/words/en.js": most, "mine/store.js": fmt.Sprintf("LARGEST = %d * 1024;", program.MaxSource>>10)} {
		if !strings.Contains(asset(t, file), part) {
			t.Errorf("%s does not have %q", file, part)
		}
	}
}
