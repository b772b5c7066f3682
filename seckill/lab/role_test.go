package lab

import (
	"errors"
	"testing"
)

// A process gets a URL of any driver, without what only ours knows.
func TestURLsForOtherPrograms(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"postgres://u:p@h:5433/shop?sslmode=require&pool_max_conns=4&search_path=x&default_query_exec_mode=exec": "postgres://lab_7:pw@h:5433/shop?sslmode=require",
		"postgresql://h/shop?user=u&password=p": "postgresql://lab_7:pw@h/shop",
	} {
		if got, err := urlOf(given, "lab_7", "pw"); err != nil || got != want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	if _, err := urlOf("host=h password=secret", "lab_7", "pw"); !errors.Is(err, errDatabaseURL) {
		t.Error(err)
	}
}
