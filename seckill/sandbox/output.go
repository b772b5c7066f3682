package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// logLimit is the size from which a server's log is emptied at the next start.
const logLimit = 10 << 20

// serverLog is the file to which a server writes its messages. The child whose output it is closes
// the handle.
type serverLog struct {
	file  *os.File
	start int64 // offset of the messages of this start
}

func openLog(path string) (*serverLog, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	info, err := os.Lstat(path)
	if err == nil && info.Size() > logLimit {
		flags |= os.O_TRUNC
	}
	f, err := openFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a server's log: %w", err)
	}
	l := &serverLog{file: f}
	if info, err := f.Stat(); err == nil {
		l.start = info.Size()
	}
	return l, nil
}

// explain adds to err the last line of this start that contains sign. If a line contains taken, it
// returns errPortTaken.
func (l *serverLog) explain(err error, sign, taken string) error {
	f, openErr := openFile(l.file.Name(), os.O_RDONLY, 0)
	if openErr != nil {
		return err
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, l.start, logLimit))
	if bytes.Contains(text, []byte(taken)) {
		return fmt.Errorf("%w (see %s)", errPortTaken, l.file.Name())
	}
	if line := lastLine(text, sign); line != "" {
		return fmt.Errorf("%w: %s (see %s)", err, line, l.file.Name())
	}
	return fmt.Errorf("%w (see %s)", err, l.file.Name())
}

// lastLine returns the last line that contains one of signs, else the last line that is not empty.
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

// onOwnThread prepares a command, calls its run (Output or CombinedOutput) on a thread of its own and
// waits for it. The command cannot outlive this process: see child.run.
func onOwnThread(cmd *exec.Cmd, p program, run func() ([]byte, error)) (text []byte, err error) {
	prepare(cmd, p)
	var thread sync.WaitGroup
	thread.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		text, err = run()
	})
	thread.Wait()
	return text, err
}
