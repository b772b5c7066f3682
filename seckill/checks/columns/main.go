// Command columns lists the lines of Go outside tests that have more than 120 columns, a tab counting four. Long lines
// that may stay are those that a raw string makes long (SQL, tags), because a break would change it, those that have
// nothing but one string, so that a message can be searched for, and directives.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"
)

const most = 120

func main() {
	names, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "git ls-files:", err)
		os.Exit(2)
	}
	failed := false
	for _, name := range strings.Fields(string(names)) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil { // deleted, and not committed yet
			continue
		}
		for _, line := range long(src) {
			fmt.Printf("%s:%d has more than %d columns\n", name, line, most)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// long returns the numbers of the lines that are too long and could be broken.
func long(src []byte) (lines []int) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	raw, alone := map[int]bool{}, map[int]string{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.STRING {
			continue
		}
		first := file.Line(pos)
		alone[first] = text
		if text[0] == '`' {
			for n := range strings.Count(text, "\n") + 1 {
				raw[first+n] = true
			}
		}
	}
	for i, line := range strings.Split(string(src), "\n") {
		n := i + 1
		trimmed := strings.TrimSpace(line)
		switch {
		case columns(line) <= most, raw[n], strings.HasPrefix(trimmed, "//go:"), strings.Contains(line, " //timing: "):
		case alone[n] != "" && strings.TrimRight(trimmed, " +,:)]}") == alone[n]:
		default:
			lines = append(lines, n)
		}
	}
	return lines
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}
