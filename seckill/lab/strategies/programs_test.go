package strategies

import (
	"os"
	"slices"
	"strings"
	"testing"

	"miaosha/seckill/lab/labtest"
)

// Every strategy but the shop is a program, and each wrong one says how it goes wrong.
func TestProgramsAreComplete(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range Programs() {
		if p.Language == "lua" {
			names = append(names, p.Name)
			labtest.CheckLua(t, p.Name, p.Source)
		}
		if n := strings.Count(p.Source, "\n"); n > 60 {
			t.Errorf("%s.%s has %d lines; at most 60 are read", p.Name, p.Language, n)
		}
		if !strings.HasPrefix(p.Source, "-- ") {
			t.Errorf("%s.%s has no comment in front", p.Name, p.Language)
		}
		if (p.Wrong == "") != (p.Kind == "") {
			t.Errorf("%s.%s: wrong %q, kind %q", p.Name, p.Language, p.Wrong, p.Kind)
		}
	}
	want := slices.DeleteFunc(Names(), func(name string) bool { return name == "shop" })
	if !slices.Equal(names, want) {
		t.Errorf("programs: %v\nstrategies: %v", names, want)
	}
	files, _ := os.ReadDir("programs")
	if len(files) != len(Programs()) {
		t.Errorf("%d files, %d programs", len(files), len(Programs()))
	}
}
