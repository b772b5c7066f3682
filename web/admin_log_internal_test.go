package web

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What Postgres cannot take as a text is a wrong field, not a fault.
func TestAQueryHasTextsThatPostgresTakes(t *testing.T) {
	q := query{values: url.Values{"subject": {"sale 7\x00"}, "action": {"\xff"}, "q": {"奶奶"}}}
	q.text("subject")
	q.text("action")
	if q.text("q") != "奶奶" {
		t.Error("a text was changed")
	}
	want := []wrongField{fieldError{"subject", "form"}, fieldError{"action", "form"}}
	if diff := cmp.Diff(want, wrongFields(q.err()), cmp.AllowUnexported(fieldError{})); diff != "" {
		t.Error(diff)
	}
}
