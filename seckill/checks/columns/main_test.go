package main

import (
	"slices"
	"strings"
	"testing"
)

func TestLongLines(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 130)
	src := strings.Join([]string{
		"package p",
		"// " + x,                        // 2: a comment
		"const a = `" + x + "`",          // a raw string
		"const b = `",                    // and one
		x + "`",                          // of two lines
		"var c = f(",                     //
		"\t\"" + x + "\",",               // one string alone
		"\t\"" + x + "\", 1,",            // 8: and not alone
		"\t" + strings.Repeat("y", 116),  // a tab counts four
		"\t" + strings.Repeat("y", 117),  // 10
		"//go:generate " + x,             // a directive
		"// " + strings.Repeat("中", 117), // a character is a column
		"// " + strings.Repeat("中", 118), // 13
	}, "\n")
	if got, want := long([]byte(src)), []int{2, 8, 10, 13}; !slices.Equal(got, want) {
		t.Errorf("long lines %v, want %v", got, want)
	}
}
