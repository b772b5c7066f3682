package lab

import "strings"

// Marked removes the comments lab:here and lab:end from a source and returns the lines between them.
func Marked(text string) (source string, marks [][2]int) {
	var lines []string
	from := 0
	for line := range strings.Lines(text) {
		switch strings.TrimSpace(line) {
		case "//lab:here":
			from = len(lines) + 1
		case "//lab:end":
			marks = append(marks, [2]int{from, len(lines)})
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), marks
}

// SourceFile is a file of an experiment as the pages show it.
type SourceFile struct {
	File   string   `json:"file"`
	Source string   `json:"source"`
	Marks  [][2]int `json:"marks"` // first and last line, from 1, of each part that decides
}
