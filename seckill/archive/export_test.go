package archive

import "testing"

// Stepping is Run that tells step what it has just done: "file", "row" or "gone". An error ends it there.
var Stepping = run

// Small lets a page and a file have three rows.
func Small(t *testing.T) {
	rows, sizes := fileRows, tables
	t.Cleanup(func() { fileRows, tables = rows, sizes })
	fileRows, tables = 3, append([]table{}, tables...)
	for i := range tables {
		tables[i].size = 3
	}
}
