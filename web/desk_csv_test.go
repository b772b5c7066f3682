package web

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var csvHeader = []string{"id", "title"} // one for all downloads, as the shop's

// serveCSV returns the URL of a server that sends these rows, the first cell of each as a value, and then fails with
// err if it is not nil.
func serveCSV(t *testing.T, raw bool, rows [][]string, err error) (url string) {
	t.Helper()
	s := &Server{desk: &desk{log: slog.New(slog.DiscardHandler), closing: make(chan struct{})}}
	var all iter.Seq2[[]any, error] = func(yield func([]any, error) bool) {
		for _, row := range rows {
			if !yield([]any{value(row[0]), row[1]}, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
	server := httptest.NewServer(s.recoverer(s.desk.handle(func(w http.ResponseWriter, _ *http.Request) error {
		return s.desk.sendCSV(w, "订单.csv", raw, csvHeader, all)
	})))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCSVIsTextForSpreadsheets(t *testing.T) {
	t.Parallel()
	formulas := []string{"=1+1", "+1+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋A1", "－A1", "＠x"}
	// Excel shows these as 1.38E+10, 138, 4.2E+27, 90000000000, a day, an hour, a share, a sum.
	numbers := []string{"13800000000", "0138", "4200001234567890123456789012", "9E10", "1-2", "2026/11/26", "3月5日", "MAR1", "1 Sep", "SEPT-2", "10:30", "7 pm", "50%", "1,234", "¥5",
		"(12)", "TRUE", " 007", "0001-0002-0003",
		"May 5, 2026", "Nov 11 2026", "11 Nov 2026 20:00", "11-Nov-2026 8:00", "5/Mar/2026", "true ", "#N/A", "€12", "£12", "123\u00a0456", "０１３８", "\u200b0138", "下午 3:00",
		"+442079460958", "+44 20-7946-0958", "+8613800000000", "-1", "－1", "06EX-3K2P-41ZD", "3 层抽屉柜", "May"}
	plain := []string{"", "茶", "a=b", "a\"b,c\nd", " =1", "Mary 1", "一号楼 0138", "😀", "SF1234567890", "Section 3", "Truelove"}
	var rows, want [][]string
	want = append(want, csvHeader)
	for _, cell := range formulas {
		// The writer drops a \r by itself.
		rows, want = append(rows, []string{"1", cell}), append(want, []string{"1", "'" + strings.TrimPrefix(cell, "\r")})
	}
	for _, cell := range numbers {
		rows, want = append(rows, []string{"1", cell}), append(want, []string{"1", "\t" + cell})
	}
	for _, cell := range plain {
		rows, want = append(rows, []string{"1", cell}), append(want, []string{"1", cell})
	}
	resp, err := http.Get(serveCSV(t, false, rows, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.HasPrefix(raw, []byte("\xef\xbb\xbfid,title\r\n")) {
		t.Fatalf("%v, %q", err, raw[:min(len(raw), 40)])
	}
	if got := resp.Header.Get("Content-Disposition"); got != "attachment; filename*=utf-8''%E8%AE%A2%E5%8D%95.csv" {
		t.Errorf("Content-Disposition: %s", got)
	}
	// The reader takes \r\n for \n within a cell, too: the writer has made it of \n.
	got, err := csv.NewReader(bytes.NewReader(raw[3:])).ReadAll()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if !bytes.Contains(raw, []byte("1,\"\t13800000000\"\r\n")) { // LibreOffice also parts cells at a tab that is not in quotes
		t.Error("a long number is not in quotes")
	}
	rows = append(rows, []string{"13800000000", "0138"})
	resp, err = http.Get(serveCSV(t, true, rows, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(resp.Body)
	if err != nil || !bytes.HasPrefix(raw, []byte("id,title\r\n1,=1+1\r\n")) || !bytes.HasSuffix(raw, []byte("\r\n13800000000,0138\r\n")) {
		t.Errorf("the form for programs: %v, %q", err, raw)
	}
}

func TestABrokenCSVDoesNotEnd(t *testing.T) {
	t.Parallel()
	rows := make([][]string, 5000)
	for i := range rows {
		rows[i] = []string{"1", strings.Repeat("x", 20)}
	}
	resp, err := http.Get(serveCSV(t, false, rows, errors.New("Postgres went away")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err == nil || resp.StatusCode != 200 {
		t.Errorf("status %d, a broken file of %d bytes ends as a whole one", resp.StatusCode, len(raw))
	}
	resp, err = http.Get(serveCSV(t, false, nil, errBadRequest))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 400 || resp.Header.Get("Content-Disposition") != "" {
		t.Errorf("an error before the first row: %d, %v", resp.StatusCode, resp.Header)
	}
}

func TestAnEmptyCSVHasItsHeader(t *testing.T) {
	t.Parallel()
	resp, err := http.Get(serveCSV(t, false, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || string(raw) != "\ufeffid,title\r\n" {
		t.Errorf("%q, %v", raw, err)
	}
}
