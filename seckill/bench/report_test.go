package bench

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	all, other := newTally(), newTally()
	for i := 1; i <= 1000; i++ { // 1 ms to 1 s
		record([]*tally{all, other}[i%2].accept, time.Duration(i)*time.Millisecond)
	}
	all.merge(other)
	l := latency(all.accept)
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"p50", l.P50, 500}, {"p90", l.P90, 900}, {"p99", l.P99, 990}, {"p99.9", l.P999, 999}, {"max", l.Max, 1000}} {
		if math.Abs(c.got-c.want) > c.want/100 {
			t.Errorf("%s is %.1f ms, want %.0f", c.name, c.got, c.want)
		}
	}
	if l.Count != 1000 || l.Curve[len(l.Curve)-1].Percent != 99.9 {
		t.Errorf("%d values, the curve ends at %v: beyond 99.9 %% of 1,000 there is nobody", l.Count, l.Curve[len(l.Curve)-1])
	}
	record(all.accept, time.Hour)
	if max := latency(all.accept).Max; max < 119_000 {
		t.Errorf("an hour counts as %v ms, want the end of the range", max)
	}
}

func sampleReport() Report {
	all := newTally()
	all.counts = counts{Offered: 10, Requests: 11, Accepted: 4, Refused: 5, Failed: 1, Known: 4}
	all.refused["sold_out"], all.refused["busy"], all.failed["timeout"], all.outcomes["ordered"] = 3, 2, 1, 4
	for i := range 200 {
		record(all.accept, time.Duration(i)*time.Millisecond)
	}
	turn := report(plan{name: "<capacity>", conns: 2}, all, 2*time.Second, 2*time.Second)
	turn.Sold, turn.Committed = 4, 2
	for i := range 20 {
		turn.Samples = append(turn.Samples, Sample{At: float64(i+1) / 10, Sold: i / 5, counts: counts{Accepted: int64(i) / 4}})
	}
	orders := 4
	return Report{Shape: "capacity", Turns: []Turn{turn}, Orders: &orders, Audit: &Audit{Clean: true, Said: "every invariant holds"},
		Yardstick: &Yardstick{Before: 8, After: 12, Ratio: 0.2}}
}

func TestReportForPeople(t *testing.T) {
	var out bytes.Buffer
	sampleReport().Write(&out)
	for _, want := range []string{"refused    5 (sold_out 3, busy 2)", "failed     1 (timeout 1)", "know       4 (ordered 4)", "committed  4, 2/s",
		"8/s before, 12/s after; 2 purchases a second are 0.20 of it", "orders in Postgres: 4", "every invariant holds"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// What only some turns have is in both reports.
func TestReportOfOtherShapes(t *testing.T) {
	polls := newTally()
	polls.counts = counts{Offered: 200, Requests: 200, Known: 200}
	polls.outcomes["ordered"] = 200
	front := newTally()
	front.counts = counts{Offered: 300, Requests: 300, Pages: 300}
	record(front.page, time.Millisecond)
	late := newTally()
	late.counts = counts{Offered: 90, Requests: 90, Accepted: 50, Refused: 40}
	late.refused["busy"], late.failed["500 internal"], late.failed["500 "] = 40, 2, 1
	record(late.lag, time.Second)
	record(late.refusal, 1500*time.Millisecond)
	record(late.sent, 500*time.Millisecond)
	turn := func(name string, all *tally) Turn {
		return report(plan{name: name, conns: 2}, all, 2*time.Second, 2*time.Second)
	}
	list, idle, cold, top := turn("list", front), turn("conns", newTally()), turn("capacity", newTally()), turn("100x", late)
	list.Page = &Page{Sales: 9, Encoding: "gzip", Bytes: 500, Plain: 5000}
	idle.Held = &Held{Conns: 1000, Before: 10e6, Open: 30e6, After: 12e6, Seconds: 10}
	cold.Cold = &Cold{Sales: 200, counts: counts{Offered: 7, Accepted: 6, Refused: 1}, RefusedBy: map[string]int64{"busy": 1}, Accept: Latency{Count: 6, P99: 77}}
	top.Planned, top.Goodput, top.OfPeak = 60000, 24, 96
	for _, c := range []struct {
		r    Report
		want []string // in the text, in the page
	}{
		{Report{Shape: "polls", Turns: []Turn{turn("polls", polls)}}, []string{"100 results a second", "ordered 200"}},
		{Report{Shape: "list", Turns: []Turn{list}}, []string{"150 lists a second", "9 sales, 500 bytes of gzip, 5000 plain"}},
		{Report{Shape: "conns", Turns: []Turn{idle}}, []string{"20 kB for each connection", "30.0 MB with 1000 connections", "12.0 MB 10 s after"}},
		{Report{Shape: "capacity", Turns: []Turn{cold}, Filled: 5000, Captcha: true}, []string{"7 buyers at 200 other sales, 6 accepted, 1 refused (busy 1)",
			"accept p99 77.0 ms", "accept, cold", "beside 5000 old users and orders", "after a sum"}},
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
			if !strings.Contains(strings.ReplaceAll(page.String(), "</span>", ""), want) { // the headline's figure is in one
				t.Errorf("no %q in\n%s", want, &page)
			}
		}
	}
	if top.Faults() != 3 {
		t.Errorf("%d answers of 500, want 3", top.Faults())
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().HTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if bad := regexp.MustCompile(`(?i)(src|href)=|@import|url\(|<script|NaN|Inf\b`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	if strings.Contains(page, "<capacity>") || strings.Count(page, "<polyline") != 3 {
		t.Errorf("a name is not escaped, or not 3 curves (accept; accepted, committed):\n%s", page)
	}
}

func TestValidate(t *testing.T) {
	good := Config{URL: "http://127.0.0.1:8080", Shape: "capacity", Seconds: 1, Conns: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*Config){
		"--url":     func(c *Config) { c.URL = "http://192.0.2.1:8080" },
		"--url: \"": func(c *Config) { c.URL = "ftp://127.0.0.1" },
		"--shape":   func(c *Config) { c.Shape = "round" },
		"--seconds": func(c *Config) { c.Seconds = 601 },
		"--conns":   func(c *Config) { c.Conns = 0 },
		"--rate":    func(c *Config) { c.Shape = "open" },
		"--poll":    func(c *Config) { c.Poll = 101 },
		"--pay":     func(c *Config) { c.Pay = -1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%v, want one that begins with %s", err, flag)
		}
	}
	remote := good
	remote.URL, remote.AllowRemote = "https://shop.example", true
	if err := remote.Validate(); err != nil {
		t.Error(err)
	}
}
