package bench

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// The page loads nothing from elsewhere, and escapes names.
func TestPageIsSelfContained(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().HTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if bad := regexp.MustCompile(`(?i)(src|href)=|@import|url\(|<script|NaN|Inf\b`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	if strings.Contains(page, "<capacity>") {
		t.Errorf("the name of the turn is not escaped:\n%s", page)
	}
	if n := strings.Count(page, "<polyline"); n != 3 {
		t.Errorf("%d curves, want 3 (accept; accepted, committed):\n%s", n, page)
	}
}
