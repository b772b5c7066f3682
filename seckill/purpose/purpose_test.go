package purpose

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table is in web/README.md, row by row; the document's own test looks for the tests that it names.
func TestTheTableIsInTheReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../web/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing strings.Builder
	for _, p := range All {
		until := p.Until
		if p.Life > 0 {
			life := strings.TrimSuffix(strings.TrimSuffix(p.Life.String(), "0s"), "0m")
			until = strings.TrimSpace(life + " " + until)
		}
		row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", p.Name, p.Bound, until, p.Uses, p.Kept, p.Shown)
		if !strings.Contains(string(page), row) {
			missing.WriteString(row)
		}
	}
	if missing.Len() > 0 {
		t.Errorf("web/README.md lacks these rows of the table:\n%s", missing.String())
	}
}

// No two purposes have one name, or one key.
func TestPurposesHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	secret := []byte("a secret of thirty-two bytes ....")
	seen := map[string]string{string(secret): "the secret"}
	for _, p := range All {
		key := string(p.Key(secret))
		if other, there := seen[key]; there || len(key) != 32 {
			t.Errorf("%s has the key of %s", p.Name, other)
		}
		seen[key] = p.Name
		if p.Life == 0 && p.Until == "" || p.Bound == "" || p.Kept == "" || p.Shown == "" || p.Uses != one && p.Uses != many {
			t.Errorf("the row of %s is not whole: %+v", p.Name, p)
		}
		if string(p.Key([]byte("another secret of 32 bytes ......"))) == key {
			t.Errorf("%s has one key in two shops", p.Name)
		}
	}
}
