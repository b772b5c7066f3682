package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// Archive is a row of the table archives.
type Archive struct {
	File    string // in the folder of the archives
	OfTable string
	Rows    int64
	SHA256  string    // of the file's text
	Oldest  time.Time // of its rows
	Newest  time.Time
	GoneAt  *time.Time // nil: its rows are still in their table
}

const columns = "file, of_table, rows, sha256, oldest, newest, gone_at"

// DamagedError says that a file is missing or not what was written, and how.
type DamagedError struct{ File, Why string }

func (e DamagedError) Error() string { return e.File + " " + e.Why }

// batch has the lines of a file that is to be written, and the times of its rows.
type batch struct {
	lines          []string
	bytes          int
	oldest, newest time.Time
}

var fileRows, fileBytes = 5000, 16 << 20

// full reports whether a batch is large enough for a file, and for a transaction.
func (b *batch) full() bool { return len(b.lines) >= fileRows || b.bytes >= fileBytes }

func (b *batch) add(line string, at time.Time) {
	if len(b.lines) == 0 || at.Before(b.oldest) {
		b.oldest = at
	}
	if at.After(b.newest) {
		b.newest = at
	}
	b.lines, b.bytes = append(b.lines, line), b.bytes+len(line)
}

// write writes a batch to a file, which is on disk when it returns. The name has the day of the oldest row and the
// beginning of the sum, so the same batch has the same file.
func (b *batch) write(dir, table string) (a Archive, err error) {
	slices.Sort(b.lines)
	sum := sha256.New()
	for _, line := range b.lines {
		io.WriteString(sum, line)
		sum.Write([]byte{'\n'})
	}
	a = Archive{OfTable: table, Rows: int64(len(b.lines)), SHA256: hex.EncodeToString(sum.Sum(nil)), Oldest: b.oldest,
		Newest: b.newest}
	a.File = fmt.Sprintf("%s-%s-%s.jsonl.gz", table, b.oldest.UTC().Format(time.DateOnly), a.SHA256[:16])
	if err := makeFolder(dir); err != nil {
		return a, fmt.Errorf("make the folder of the archives: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+table+"-*.part") // no one else may read it
	if err != nil {
		return a, fmt.Errorf("write an archive: %w", err)
	}
	defer os.Remove(f.Name()) // it has another name then, if all went well
	out := bufio.NewWriterSize(f, 1<<16)
	zip := gzip.NewWriter(out)
	for _, line := range b.lines {
		io.WriteString(zip, line) // an error stays until the end
		zip.Write([]byte{'\n'})
	}
	if err := errors.Join(zip.Close(), out.Flush(), f.Sync(), f.Close()); err != nil {
		return a, fmt.Errorf("write an archive: %w", err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, a.File)); err != nil {
		return a, fmt.Errorf("write an archive: %w", err)
	}
	return a, syncFolder(dir)
}

// makeFolder makes a folder, and those above it that are missing. Their names are on disk when it returns.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeFolder(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(above)
}

// syncFolder waits until the names in a folder are on disk. Windows has no such call.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the folder of the archives: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the folder of the archives: %w", err)
	}
	return nil
}

// Read passes each line of an archive to do, and then compares the file with its row in archives. What do made of the
// lines counts only if there is no error. DamagedError.
func (a Archive) Read(dir string, do func(line []byte) error) error {
	f, err := os.Open(filepath.Join(dir, filepath.Base(a.File)))
	if errors.Is(err, fs.ErrNotExist) {
		return DamagedError{a.File, "is not in the folder " + dir}
	}
	if err != nil {
		return fmt.Errorf("read an archive: %w", err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return DamagedError{a.File, "is damaged: " + err.Error()}
	}
	sum, n := sha256.New(), int64(0)
	in := bufio.NewReaderSize(zip, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			return DamagedError{a.File, "is damaged: " + err.Error()}
		}
		n++
		sum.Write(line)
		if err := do(line); err != nil {
			return DamagedError{a.File, fmt.Sprintf("is damaged: line %d: %v", n, err)}
		}
	}
	if n != a.Rows {
		return DamagedError{a.File, fmt.Sprintf("has %d lines, and had %d when it was written", n, a.Rows)}
	}
	if hex.EncodeToString(sum.Sum(nil)) != a.SHA256 {
		return DamagedError{a.File, "is not what was written: its SHA-256 is another one"}
	}
	return nil
}

// keys returns a column of the rows of an archive, as text. DamagedError.
func (a Archive) keys(dir, column string) ([]string, error) {
	keys := make([]string, 0, a.Rows)
	err := a.Read(dir, func(line []byte) error {
		key, err := field(line, column)
		keys = append(keys, key)
		return err
	})
	return keys, err
}

// field returns a field of a line, a text or a number, as text.
func field(line []byte, name string) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(fields[name], &text); err == nil {
		return text, nil
	}
	return string(fields[name]), nil
}
