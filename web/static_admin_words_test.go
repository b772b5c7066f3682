package web

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every action that the code writes into the log of the staff has a text in both languages, and its kind is in the filter.
func TestEveryActionHasAText(t *testing.T) {
	whole := regexp.MustCompile(`(?:action\{(?:name: )?|a\.name = .*)"([a-z]+\.[a-z_]+)"`)                                                   // action{name: "goods.edit"}
	ends := regexp.MustCompile(`[cC]hange(Sale|Person)\(ctx, (?:tx, a, )?by, "([a-z_]+)"`)                                                   // ChangeSale(ctx, by, "pause"
	noted := regexp.MustCompile(`(?:Note|addJob|changeClass)\([^"]*"([a-z]+\.[a-z_]+)"|s\.short\(.*, "([a-z]+\.[a-z_]+)"|'(user\.[a-z_]+)'`) // Note(ctx, by, "lab.stop"
	var files []string
	for _, folder := range []string{"../seckill/admin", "../seckill/operator", "../user", "."} {
		found, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var actions []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range whole.FindAllStringSubmatch(string(source), -1) {
			actions = append(actions, m[1])
		}
		for _, m := range noted.FindAllStringSubmatch(string(source), -1) {
			actions = append(actions, m[1]+m[2]+m[3])
		}
		for _, m := range ends.FindAllStringSubmatch(string(source), -1) {
			actions = append(actions, map[string]string{"Sale": "sale.", "Person": "user."}[m[1]]+m[2])
		}
	}
	if len(actions) < 20 || !slices.Contains(actions, "sale.pause") || !slices.Contains(actions, "user.role") || !slices.Contains(actions, "plan.fail") ||
		!slices.Contains(actions, "lab.race") || !slices.Contains(actions, "class.close") || !slices.Contains(actions, "user.unban") {
		t.Fatalf("found the actions %v, want 20 or more", actions)
	}
	filter := regexp.MustCompile(`const ACTIONS = \[(.*)\];`).FindString(asset(t, "admin/log.js"))
	texts, err := filepath.Glob("static/admin/words/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"en", "zh"} {
		var known string
		for _, file := range texts {
			if strings.HasSuffix(file, lang+".js") {
				known += asset(t, strings.TrimPrefix(file, "static/"))
			}
		}
		for _, a := range actions {
			kind, _, _ := strings.Cut(a, ".")
			if !strings.Contains(known, "'action."+a+"':") || !strings.Contains(known, "'actions."+kind+"':") {
				t.Errorf("%s: the action %s, or its kind, has no text", lang, a)
			}
			if !strings.Contains(filter, "'"+kind+"'") {
				t.Errorf("the filter of the log has no %q", kind)
			}
		}
	}
}
