package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// logLimit is the size at which a server's log begins anew, at a start.
const logLimit = 10 << 20

// serverLog is the file that a server writes its messages to. Its handle is closed by the child that has it as output.
type serverLog struct {
	file  *os.File
	begun int64 // where this start's messages begin
}

func openLog(path string) (*serverLog, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	info, err := os.Stat(path)
	if err == nil && info.Size() > logLimit {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a server's log: %w", err)
	}
	l := &serverLog{file: f}
	if info, err := f.Stat(); err == nil {
		l.begun = info.Size()
	}
	return l, nil
}

// explain adds to err what the server said at this start: the last line that holds sign. If some line holds taken, the
// error is errPortTaken.
func (l *serverLog) explain(err error, sign, taken string) error {
	f, openErr := os.Open(l.file.Name())
	if openErr != nil {
		return err
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, l.begun, logLimit))
	if bytes.Contains(text, []byte(taken)) {
		return fmt.Errorf("%w (see %s)", errPortTaken, l.file.Name())
	}
	if line := lastLine(text, sign); line != "" {
		return fmt.Errorf("%w: %s (see %s)", err, line, l.file.Name())
	}
	return fmt.Errorf("%w (see %s)", err, l.file.Name())
}

// lastLine returns the last line that holds one of signs, or the last one that isn't empty.
func lastLine(text []byte, signs ...string) string {
	last, found := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		last = line
		for _, sign := range signs {
			if i := strings.Index(line, sign); i >= 0 {
				found = line[i:]
			}
		}
	}
	if found != "" {
		return found
	}
	return last
}

// onThread runs f on a thread of its own and waits for it. A short-lived child of f can't outlive us: see child.run.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		f()
	}()
	<-done
}
