package web

import (
	"encoding/csv"
	"errors"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	downloadLimit = 10 * time.Minute // for a whole file
	downloadStall = 30 * time.Second // in which the client must take the next rows
)

var errStopping = errors.New("the shop is stopping")

// sendCSV streams rows as a file for spreadsheets. It keeps one row at a time, so a file may be of any length. The file begins
// with the mark by which Excel knows UTF-8, and no cell of it is a formula.
//
// An error before the first row is the answer. After that the status is sent: the connection is broken off, so that no client
// takes a part for the whole.
func (s *Server) sendCSV(w http.ResponseWriter, name string, header []string, rows iter.Seq2[[]string, error]) error {
	rc, out, begun := http.NewResponseController(w), csv.NewWriter(w), false
	out.UseCRLF = true
	begin := func() error {
		begun = true
		w.Header()["Content-Type"] = []string{"text/csv; charset=utf-8"}
		w.Header()["Content-Disposition"] = []string{mime.FormatMediaType("attachment", map[string]string{"filename": name})}
		if _, err := w.Write([]byte("\ufeff")); err != nil {
			return err
		}
		return writeRow(out, header)
	}
	for row, err := range rows {
		if err != nil && !begun {
			return err
		}
		if err == nil && s.isClosing() {
			err = errStopping
		}
		if err == nil {
			err = rc.SetWriteDeadline(time.Now().Add(downloadStall))
		}
		if err == nil && !begun {
			err = begin()
		}
		if err == nil {
			err = writeRow(out, row)
		}
		if err != nil {
			s.Log.Warn("a download broke off", "file", name, "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	if !begun {
		if err := begin(); err != nil {
			return err
		}
	}
	if out.Flush(); out.Error() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writeRow writes a row, of which each cell is text. It leaves row as it is: all downloads have one header.
func writeRow(out *csv.Writer, row []string) error {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = asText(cell)
	}
	return out.Write(cells)
}

// asText returns a cell that no spreadsheet takes for a formula: one that would be begins with an apostrophe. Excel in Chinese
// and Japanese also knows the wide signs.
func asText(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
