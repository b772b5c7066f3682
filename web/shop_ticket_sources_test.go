package web

import (
	"os"
	"strings"
	"testing"
)

// Every step of a ticket shows the functions that do it, each with the line that decides.
func TestStepsShowTheirCode(t *testing.T) {
	t.Parallel()
	found := loadSources(os.DirFS(".."))
	for step, places := range stepSources {
		if len(found[step]) != len(places) {
			t.Errorf("%s: %d of the functions %v are there", step, len(found[step]), places)
			continue
		}
		for i, f := range found[step] {
			lines := strings.Split(f.Source, "\n")
			if mark := places[i][2]; mark != "" && !strings.Contains(lines[f.Mark-1], mark) {
				t.Errorf("%s marks %q, which has no %q", step, lines[f.Mark-1], mark)
			}
			if file, err := os.ReadFile("../" + f.File); err != nil || strings.Split(string(file), "\n")[f.Line-1] != lines[0] {
				t.Errorf("%s: %s does not begin in line %d: %v", step, f.Name, f.Line, err)
			}
			if len(lines) > 130 {
				t.Errorf("%s shows %d lines of %s", step, len(lines), f.Name)
			}
		}
	}
}
