package operator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// The exit codes of the commands. Every other error is 1.
const (
	exitUsage    = 2 // the arguments are wrong, so nothing was done
	exitNotAsked = 3 // Audit could not ask a store
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	return 1
}

// Coloured reports whether text for f may have colours: f is a terminal that knows them, and noColor, the value of
// NO_COLOR, is empty (https://no-color.org).
func Coloured(f *os.File, noColor, terminal string) bool {
	return noColor == "" && terminal != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Failure returns the line that reports the error of a command.
func Failure(err error, coloured bool) string { return red("miaosha:", coloured) + " " + err.Error() }

func red(text string, coloured bool) string   { return paint("1;31", text, coloured) }
func green(text string, coloured bool) string { return paint("32", text, coloured) }

func paint(colour, text string, coloured bool) string {
	if !coloured {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// verdicts is a writer that colours what is broken or wrong red, and what is right green.
type verdicts struct{ w io.Writer }

func (v verdicts) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		s, end := strings.CutSuffix(string(line), "\n")
		switch {
		case strings.Contains(s, "BROKEN I"):
			s = red(s, true)
		case strings.HasSuffix(s, "every invariant holds"):
			s = green(s, true)
		case strings.HasSuffix(s, "  "+wrongVerdict):
			s = strings.TrimSuffix(s, wrongVerdict) + red(wrongVerdict, true)
		case strings.HasSuffix(s, "  "+rightVerdict):
			s = strings.TrimSuffix(s, rightVerdict) + green(rightVerdict, true)
		}
		if end {
			s += "\n"
		}
		if _, err := io.WriteString(v.w, s); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// progress says how far a command is: on a terminal in a line that it rewrites, elsewhere in a line a second at most.
// It is for one goroutine.
type progress struct {
	w        *os.File
	terminal bool
	rewrites bool // the last line on the terminal is to be rewritten
	last     time.Time
}

func (env Env) progress() *progress {
	return &progress{w: env.Err, terminal: term.IsTerminal(int(env.Err.Fd()))}
}

// step prints a line that stays.
func (p *progress) step(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
	p.last = time.Now()
}

// count prints a line in place of the count before it.
func (p *progress) count(format string, args ...any) {
	if p.terminal {
		p.clear()
		fmt.Fprintf(p.w, format, args...)
		p.rewrites = true
	} else if time.Since(p.last) > time.Second {
		p.step(format, args...)
	}
}

// above returns a writer of lines that stay: each write removes the count first, which may be on the same terminal.
func (p *progress) above(w io.Writer) io.Writer { return above{p, w} }

type above struct {
	p *progress
	w io.Writer
}

func (a above) Write(text []byte) (int, error) {
	a.p.clear()
	return a.w.Write(text)
}

// clear removes a count from the terminal.
func (p *progress) clear() {
	if p.rewrites {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.rewrites = false
	}
}
