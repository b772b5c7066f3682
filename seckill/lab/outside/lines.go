package outside

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	shownLines = 100 // of what a process prints; an error shows the last ones all the same
	lastLines  = 10
	lineLength = 2000 // bytes; a longer line is cut into lines
)

// lines passes on what a process prints, line by line, and keeps the last lines.
type lines struct {
	to     io.Writer
	prefix string

	mu    sync.Mutex
	part  []byte // of a line that has not ended
	shown int
	kept  []string
}

// Write never fails: a process does not stop for its output.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 && len(l.part) > lineLength {
			i = lineLength
		}
		if i < 0 {
			return len(b), nil
		}
		l.add(strings.TrimRight(string(l.part[:i]), "\r"))
		l.part = append(l.part[:0], bytes.TrimPrefix(l.part[i:], []byte("\n"))...)
	}
}

func (l *lines) add(line string) {
	if l.kept = append(l.kept, line); len(l.kept) > lastLines {
		l.kept = l.kept[1:]
	}
	if l.shown++; l.shown <= shownLines {
		fmt.Fprintln(l.to, l.prefix+line)
	} else if l.shown == shownLines+1 {
		fmt.Fprintln(l.to, l.prefix+"(more lines are not shown)")
	}
}

// last returns the last lines as the end of an error's text, "" if there are none.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.kept
	if rest := strings.TrimSpace(string(l.part)); rest != "" {
		all = append(all[:len(all):len(all)], rest)
	}
	if len(all) == 0 {
		return ""
	}
	return "\nthe last lines that it printed:\n  " + strings.Join(all, "\n  ")
}
