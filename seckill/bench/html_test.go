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
	if bad := regexp.MustCompile(`(?i)(src|href)=|@import|url\(|NaN|Inf\b`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	if strings.Contains(page, "<capacity>") {
		t.Errorf("the name of the turn is not escaped:\n%s", page)
	}
	// The sentence comes first, and what was run stands in the page, in both languages.
	for _, want := range []string{"2 purchases a second, 1 requests failed; the 4 orders are what the buyers were told, and every invariant holds.",
		"每秒成交 2 单，1 个请求失败；4 个订单与买家得知的结果一致，不变式全部成立。", "<code>miaosha bench -n 10</code>", "v1.2 · ", "<code>abc123</code>",
		">latency in ms, from the planned click<", ">延迟（毫秒），从计划的点击算起<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<polyline"); n != 3 {
		t.Errorf("%d curves, want 3 (accept; accepted, committed):\n%s", n, page)
	}
}
