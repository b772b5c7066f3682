package web

import (
	"encoding/csv"
	"errors"
	"iter"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"miaosha/seckill/typed"
)

const (
	downloadLimit = 10 * time.Minute // for a whole file
	downloadStall = 30 * time.Second // in which the client must take the next rows
)

var errStopping = errors.New("the shop is stopping")

// value is a cell that a spreadsheet may read as it likes: a number, a time or true. Any other cell is text and stays
// as it is written.
type value string

// sendCSV streams rows, of cells that are a string or a value. It keeps one row at a time, so a file may be of any
// length. It is for spreadsheets: it begins with the mark by which Excel knows UTF-8, and no text of it becomes a
// formula or another number. raw is the form for programs, without the mark and with each cell as it is.
//
// An error before the first row is the answer. After that the status is sent: the connection is broken off, so that no
// client takes a part for the whole.
func (d *desk) sendCSV(
	w http.ResponseWriter, name string, raw bool, header []string, rows iter.Seq2[[]any, error],
) error {
	rc, out, begun := http.NewResponseController(w), csv.NewWriter(w), false
	out.UseCRLF = true
	begin := func() error {
		begun = true
		w.Header()["Content-Type"] = []string{"text/csv; charset=utf-8"}
		w.Header()["Content-Disposition"] = []string{mime.FormatMediaType("attachment",
			map[string]string{"filename": name})}
		if !raw {
			if _, err := w.Write([]byte("\ufeff")); err != nil {
				return err
			}
		}
		return out.Write(header)
	}
	for row, err := range rows {
		if err != nil && !begun {
			return err
		}
		if err == nil && d.isClosing() {
			err = errStopping
		}
		if err == nil {
			err = rc.SetWriteDeadline(time.Now().Add(downloadStall))
		}
		if err == nil && !begun {
			err = begin()
		}
		if err == nil {
			err = out.Write(cells(row, raw))
		}
		if err != nil {
			d.log.Warn("a download broke off", "file", name, "err", err)
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

// cells returns a row as it is written.
func cells(row []any, raw bool) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		switch cell := cell.(type) {
		case value:
			out[i] = string(cell)
		case string:
			if out[i] = cell; !raw {
				out[i] = asText(cell)
			}
		}
	}
	return out
}

// converted matches the texts of which spreadsheets make numbers, times, truth values or errors, by how they begin:
// 13800000000 becomes 1.38E+10, 0138 becomes 138, 1-2 and Nov 11 2026 become days. More begin so than are converted,
// and lose nothing.
var converted = regexp.MustCompile(`(?i)^(?:[\p{Nd}\p{Sc}+\-.,:(#%/]|[上下]午` +
	`|(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|true|false)(?:[^a-z]|$))`)

// signed matches a telephone abroad or a number below zero. No formula of it can do harm.
var signed = regexp.MustCompile(`^[+\-][\d\s.()\-]*$`)

// asText returns a cell that every spreadsheet shows as it was written. One that would be a formula begins with an
// apostrophe; Excel in Chinese and Japanese also knows the wide signs. One that would become another value begins with
// a tab, which is seen nowhere: Excel, WPS and LibreOffice then take it for text, whether they evaluate formulas of a
// file or not (="0138" is a text for those alone that do). The writer puts it in quotes, so that no tab parts two
// cells.
func asText(cell string) string {
	read := typed.Line(norm.NFKC.String(cell)) // a spreadsheet passes over wide forms and blanks
	first, _ := utf8.DecodeRuneInString(cell)
	switch {
	case cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) && !signed.MatchString(read):
		return "'" + cell
	case converted.MatchString(read):
		return "\t" + cell
	}
	return cell
}
