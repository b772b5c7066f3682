package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/report"
)

func sampleReport() Report {
	all := newTally()
	all.Counts = Counts{Offered: 10, Requests: 11, Accepted: 4, Refused: 5, Failed: 1, Known: 4}
	all.refused["sold_out"], all.refused["busy"], all.failed["timeout"], all.outcomes["ordered"] = 3, 2, 1, 4
	for i := range 200 {
		record(all.accept, time.Duration(i)*time.Millisecond)
	}
	turn := turnReport(plan{name: "<capacity>", conns: 2}, all, 2*time.Second, 2*time.Second)
	turn.Sold, turn.Committed = 4, 2
	for i := range 20 {
		turn.Samples = append(turn.Samples, Sample{At: float64(i+1) / 10, Sold: i / 5, Counts: Counts{Accepted: int64(i) / 4}})
	}
	orders := 4
	return Report{Shape: "capacity", Origin: report.Origin{Command: "miaosha bench -n 10", Version: "v1.2", Commit: "abc123"}, Turns: []Turn{turn}, Orders: &orders, Audit: &Audit{Clean: true, Said: "every invariant holds"},
		Baseline: &Baseline{Before: 8, After: 12, Ratio: 0.2}}
}

func TestReportAsText(t *testing.T) {
	var out bytes.Buffer
	sampleReport().Write(&out)
	for _, want := range []string{"refused    5 (sold_out 3, busy 2)", "failed     1 (timeout 1)", "results    4 (ordered 4)", "committed  4, 2/s",
		"8/s before, 12/s after; 2 purchases a second are 0.20 of it", "orders in Postgres: 4", "every invariant holds"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The parts that only some turns have are in the text and in the page.
func TestReportOfOtherShapes(t *testing.T) {
	polls := newTally()
	polls.Counts = Counts{Offered: 200, Requests: 200, Known: 200}
	polls.outcomes["ordered"] = 200
	pages := newTally()
	pages.Counts = Counts{Offered: 300, Requests: 300, Pages: 300}
	record(pages.page, time.Millisecond)
	slow := newTally()
	slow.Counts = Counts{Offered: 90, Requests: 90, Accepted: 50, Refused: 40}
	slow.refused["busy"], slow.failed["500 internal"], slow.failed["500 "] = 40, 2, 1
	record(slow.lag, time.Second)
	record(slow.refusal, 1500*time.Millisecond)
	record(slow.sent, 500*time.Millisecond)
	turn := func(name string, all *tally) Turn {
		return turnReport(plan{name: name, conns: 2}, all, 2*time.Second, 2*time.Second)
	}
	list, idle, cold, top := turn("list", pages), turn("conns", newTally()), turn("capacity", newTally()), turn("100x", slow)
	list.List = &List{Sales: 9, Encoding: "gzip", Bytes: 500, Plain: 5000}
	idle.Memory = &Memory{Conns: 1000, Before: 10e6, Open: 30e6, After: 12e6, Seconds: 10}
	cold.Cold = &Cold{Sales: 200, Counts: Counts{Offered: 7, Accepted: 6, Refused: 1}, RefusedBy: map[string]int64{"busy": 1}, Accept: Latency{Count: 6, P99: 77}}
	top.Planned, top.Goodput, top.OfPeak = 60000, 24, 96
	for _, c := range []struct {
		r    Report
		want []string // in the text and in the page
	}{
		{Report{Shape: "polls", Turns: []Turn{turn("polls", polls)}}, []string{"100 results a second", "ordered 200"}},
		{Report{Shape: "list", Turns: []Turn{list}}, []string{"150 lists a second", "9 sales, 500 bytes of gzip, 5000 plain"}},
		{Report{Shape: "conns", Turns: []Turn{idle}}, []string{"20 kB for each connection", "30.0 MB with 1000 connections", "12.0 MB 10 s after closing them"}},
		{Report{Shape: "capacity", Turns: []Turn{cold}, Filled: 5000, Captcha: true}, []string{"7 buyers at 200 other sales, 6 accepted, 1 refused (busy 1)",
			"accept p99 77.0 ms", "accept, cold", "beside 5000 old orders", "with captcha"}},
		{Report{Shape: "ramp", Turns: []Turn{top}}, []string{"60000/s", "45/s", "24/s", "96.0 %", "1507.3 ms", "501.8 ms", "LAG", "by 1004 ms at p99"}},
	} {
		var text, page bytes.Buffer
		c.r.Write(&text)
		if err := c.r.HTML(&page); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, &text)
			}
			if !strings.Contains(strings.ReplaceAll(page.String(), "</span>", ""), want) { // the headline figure is in a span
				t.Errorf("no %q in\n%s", want, &page)
			}
		}
	}
	if top.Faults() != 3 {
		t.Errorf("%d answers of 500, want 3", top.Faults())
	}
}
