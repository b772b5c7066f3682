package operator

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every key in Redis is built in the file that says when it expires. The lab has keys of its own.
func TestKeysAreBuiltInOnePlacePerPackage(t *testing.T) {
	t.Parallel()
	quoted := regexp.MustCompile("[\"'`]ms:")
	found := map[string]bool{}
	for at, text := range readRepository(t).sources {
		program := strings.HasSuffix(at, ".lua") || strings.HasSuffix(at, ".go") && !strings.HasSuffix(at, "_test.go")
		if program && quoted.MatchString(text) {
			found[at] = true
		}
	}
	want := []string{"seckill/backend/keys.go", "seckill/gate/keys.go", "seckill/lab/namespace.go", "seckill/lineage/keys.go", "seckill/live/keys.go", "user/keys.go"}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("keys are built in %v, want %v", got, want)
	}
}

// The documented user of Redis may run every command of the scripts, also of those that no test of a shop reaches.
func TestTheUserOfRedisMayRunTheScripts(t *testing.T) {
	t.Parallel()
	_, _, acl := rights(t)
	call, scripts := regexp.MustCompile(`redis\.call\('([A-Z]+)'(?:, '([A-Z]+)')?`), 0
	for at, text := range readRepository(t).sources {
		if !strings.HasSuffix(at, ".lua") {
			continue
		}
		scripts++
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			command, sub := "+"+strings.ToLower(m[1]), "|"+strings.ToLower(m[2])
			if words := strings.Fields(acl); !slices.Contains(words, command) && !slices.Contains(words, command+sub) {
				t.Errorf("%s calls %s, and the user has no %s", at, m[1], command)
			}
		}
	}
	if scripts < 10 {
		t.Errorf("only %d scripts were read", scripts)
	}
}
