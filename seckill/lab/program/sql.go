package program

import (
	"fmt"
	"regexp"
	"strings"
)

// luaOfSQL translates a program of plain SQL steps to Lua. Comments "-- prepare" and "-- buy" begin its parts; without
// them all belongs to buy. "-- think" is a pause, and ":user" the buyer. A statement of buy that returns or touches no
// row ends the click with no. The lines of both programs have the same numbers.
func luaOfSQL(source string) (string, error) {
	var out strings.Builder
	part, depth := "", 0 // depth: inside begin and commit
	open := func(name string) {
		if part != "" {
			out.WriteString(" return true end ")
		}
		part = name
		fmt.Fprintf(&out, "function %s(user) ", name)
	}
	if !sqlPart.MatchString(source) {
		open("buy")
	}
	for _, s := range splitSQL(source) {
		// What stands before the statement keeps its lines.
		text := strings.TrimSpace(s.text)
		if s.comment {
			name := strings.ToLower(strings.TrimSpace(strings.TrimLeft(text, "-")))
			switch {
			case (name == "prepare" || name == "buy") && depth > 0:
				return "", fmt.Errorf("line %d: the transaction before it has no commit", s.line)
			case name == "prepare" || name == "buy":
				open(name)
			case name == "think" && part == "buy":
				out.WriteString("think() ")
			}
			out.WriteString("\n")
			continue
		}
		if text == "" {
			out.WriteString(strings.Repeat("\n", strings.Count(s.text, "\n")))
			continue
		}
		if part == "" {
			return "", fmt.Errorf("line %d: a statement before -- prepare or -- buy", s.line)
		}
		lead := s.text[:strings.Index(s.text, text)]
		out.WriteString(strings.Repeat("\n", strings.Count(lead, "\n")))
		switch begin := sqlBegin.FindStringSubmatch(text); {
		case begin != nil && begin[1] != "":
			fmt.Fprintf(&out, "if tx(%q, function() ", strings.Join(strings.Fields(begin[1]), " "))
			depth++
		case begin != nil:
			out.WriteString("if tx(function() ")
			depth++
		case sqlCommit.MatchString(text) && depth > 0:
			out.WriteString("return true end) == false then return false end ")
			depth--
		case sqlRollback.MatchString(text) && depth > 0:
			out.WriteString("return false end) == false then return false end ")
			depth--
		default:
			statement, arg := text, ""
			if sqlUser.MatchString(statement) {
				statement, arg = sqlUser.ReplaceAllString(statement, "${1}$$1"), ", user"
			}
			level := "=="
			for strings.Contains(statement, "]"+level+"]") {
				level += "="
			}
			call := fmt.Sprintf("sql([%s[%s]%s]%s)", level, statement, level, arg)
			if part == "buy" {
				fmt.Fprintf(&out, "if %s.affected == 0 then return false end ", call)
			} else {
				fmt.Fprintf(&out, "%s ", call)
			}
		}
		out.WriteString(strings.Repeat("\n", strings.Count(s.text[len(lead)+len(text):], "\n")))
	}
	if depth > 0 {
		return "", fmt.Errorf("the last transaction has no commit")
	}
	if part == "" {
		return "", fmt.Errorf("there is no statement")
	}
	out.WriteString("return true end")
	return out.String(), nil
}

var (
	sqlPart     = regexp.MustCompile(`(?mi)^\s*--\s*(prepare|buy)\s*$`)
	sqlUser     = regexp.MustCompile(`(^|[^:]):user\b`)
	sqlBegin    = regexp.MustCompile(`(?i)^(?:begin(?:\s+work|\s+transaction)?|start\s+transaction)(?:\s+isolation\s+level\s+(\w+(?:\s+\w+)?))?$`)
	sqlCommit   = regexp.MustCompile(`(?i)^(?:commit|end)(?:\s+work|\s+transaction)?$`)
	sqlRollback = regexp.MustCompile(`(?i)^rollback(?:\s+work|\s+transaction)?$`)
)

// sqlPiece is a statement without its semicolon, or a comment that stands on a line of its own between two statements.
type sqlPiece struct {
	text    string
	line    int // of its first character, from 1
	comment bool
}

// splitSQL splits a source at its semicolons, but not inside of quotes, dollar quotes and comments.
func splitSQL(source string) (pieces []sqlPiece) {
	start, line, startLine := 0, 1, 1
	cut := func(to, next int, comment bool) {
		pieces = append(pieces, sqlPiece{source[start:to], startLine, comment})
		start, startLine = next, line
	}
	for i := 0; i < len(source); {
		rest := source[i:]
		switch {
		case source[i] == '\n':
			line++
			i++
		case source[i] == ';':
			cut(i, i+1, false)
			i++
		case strings.HasPrefix(rest, "--"):
			end := i + len(rest)
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				end = i + n
			}
			if strings.TrimSpace(source[start:i]) == "" {
				cut(i, i, false) // the blank lines before it
				if end < len(source) {
					line++
					end++
				}
				cut(end, end, true)
				startLine = line
			}
			i = end
		case strings.HasPrefix(rest, "/*"):
			i = skipTo(source, i+2, "*/", &line)
		case source[i] == '\'' || source[i] == '"':
			i = skipTo(source, i+1, source[i:i+1], &line)
		case source[i] == '$':
			if tag := sqlDollar.FindString(rest); tag != "" {
				i = skipTo(source, i+len(tag), tag, &line)
			} else {
				i++
			}
		default:
			i++
		}
	}
	if start < len(source) {
		cut(len(source), len(source), false)
	}
	return pieces
}

var sqlDollar = regexp.MustCompile(`^\$[A-Za-z_]*\$`)

// skipTo returns the index behind the next end from i on, or the length of the source, and counts the lines.
func skipTo(source string, i int, end string, line *int) int {
	n := strings.Index(source[i:], end)
	if n < 0 {
		n = len(source) - i
	} else {
		n += len(end)
	}
	*line += strings.Count(source[i:i+n], "\n")
	return i + n
}
