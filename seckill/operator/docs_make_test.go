package operator

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// SECURITY.md says what make check does. This asks make, without running it, for the commands of check and of nightly.
func TestMakeChecksWhatSecuritySays(t *testing.T) {
	t.Parallel()
	recipe := func(target string) string {
		t.Helper()
		cmd := exec.Command("make", "--dry-run", "--always-make", "--no-print-directory", target)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make -n %s: %v\n%s", target, err, out)
		}
		return string(out)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	words := func(name string) []string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(makefile)
		if m == nil {
			t.Fatalf("the Makefile has no line %s = ...", name)
		}
		return strings.Fields(string(m[1]))
	}
	if text := recipe("check"); !strings.Contains(text, "checked") {
		t.Errorf("make check does not call checked:\n%s", text)
	}
	beside := slices.Concat(words("computed"), words("proved"))
	for target, does := range map[string][]string{"vet": {"vet ./...", "mod verify"}, "lint": {"tool staticcheck ./...", "deadcode"},
		"raced": slices.Concat([]string{"test -race", "./goods", "./order", "./user"}, rush(t))} {
		if !slices.Contains(beside, target) {
			t.Errorf("make check does not make %s: it makes %q", target, beside)
		}
		text := recipe(target)
		for _, part := range does {
			if !strings.Contains(text, part) || strings.HasPrefix(part, "./") && !slices.Contains(strings.Fields(text), part) {
				t.Errorf("make %s does not run %q:\n%s", target, part, text)
			}
		}
	}
	nightly := recipe("nightly")
	for _, target := range []string{"race", "promises"} {
		if !slices.Contains(strings.Fields(nightly), target) {
			t.Errorf("make nightly does not make %s:\n%s", target, nightly)
		}
	}
}

// rush returns the packages of the rush, as .ci/borders lists them.
func rush(t *testing.T) (packages []string) {
	borders, err := os.ReadFile("../../.ci/borders")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(borders), "# The rush.")
	text, _, _ = strings.Cut(text, "\n\n")
	for _, row := range regexp.MustCompile(`(?m)^(\S+):`).FindAllStringSubmatch(text, -1) {
		packages = append(packages, "./"+row[1])
	}
	if len(packages) < 5 {
		t.Fatalf(".ci/borders lists %q as the rush", packages)
	}
	return packages
}
