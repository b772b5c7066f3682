// Package program is what a student's program can say: Lua, or SQL that is translated to it, the functions that it may
// call (Calls), and how long it may take (Limits). It opens no connection and starts no process. Whoever runs a
// program answers its calls: package boundary in a crowd, package schedules one step at a time.
package program

import (
	"fmt"
	"strings"

	"miaosha/seckill/lab"
)

// Program is a strategy that a student wrote. Its functions are described in ../README.md, "A program".
type Program struct {
	Language string `json:"language"` // Lua or SQL
	Source   string `json:"source"`   // at most MaxSource bytes
}

// Languages of a Program.
const (
	Lua = "lua"
	SQL = "sql"
)

// MaxSource is the longest source of a Program, in bytes.
const MaxSource = 64 << 10

// Validate returns an InvalidError for an invalid field of a program. It does not read the source.
func (p Program) Validate() error {
	switch {
	case p.Language != Lua && p.Language != SQL:
		return lab.InvalidError{Field: "language", Reason: "lua or sql"}
	case strings.TrimSpace(p.Source) == "":
		return lab.InvalidError{Field: "source", Reason: "required"}
	case len(p.Source) > MaxSource:
		return lab.InvalidError{Field: "source", Reason: fmt.Sprintf("at most %d bytes", MaxSource)}
	}
	return nil
}
