package goods

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseWindow(t *testing.T) {
	shanghai := zone(t, "Asia/Shanghai")
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC).In(shanghai) // 20:00 in the shop
	local := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, shanghai) }
	at := time.Date(2026, 11, 11, 20, 0, 0, 0, time.FixedZone("", 8*3600)) // the same instant
	for _, test := range []struct {
		start, end string
		from, to   time.Time
		field      string
	}{
		{"now", "1h", now, now.Add(time.Hour), ""},
		{"30s", "1h30m", now.Add(30 * time.Second), now.Add(time.Hour + 30*time.Minute + 30*time.Second), ""},
		{"-1m", "5m", now.Add(-time.Minute), now.Add(4 * time.Minute), ""},
		{"2026-11-11T20:00:00+08:00", "10m", at, at.Add(10 * time.Minute), ""},
		{"now", "2026-11-11T13:00:00Z", now, now.Add(time.Hour), ""},
		{"2026-11-12T00:00:00Z", "2026-11-13T00:00:00Z", now.Add(12 * time.Hour), now.Add(36 * time.Hour), ""},
		{"+10m", "+1h", now.Add(10 * time.Minute), now.Add(70 * time.Minute), ""},
		{"20:01", "20:30", local(11, 20, 1), local(11, 20, 30), ""},
		{"20:00", "19:59", local(12, 20, 0), local(13, 19, 59), ""}, // not this very moment, but the next one
		{"now", "20:00", now, local(12, 20, 0), ""},
		{"7:05", "07:06", local(12, 7, 5), local(12, 7, 6), ""},
		{"2026-11-22 10:00", "2h", local(22, 10, 0), local(22, 12, 0), ""},
		{"2026-11-22 10:00", "10:30", local(22, 10, 0), local(22, 10, 30), ""},
		{"2026-11-22T10:00:00Z", "19:00", local(22, 18, 0), local(22, 19, 0), ""}, // the end is in the shop's zone again
		{"now", "2026-11-22 10:00", now, local(22, 10, 0), ""},
		{"24:00", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-31 10:00", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-22 10:00:00 UTC", "1h", time.Time{}, time.Time{}, "start"},
		{"", "1h", time.Time{}, time.Time{}, "start"},
		{"tomorrow", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-11", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-11T20:00:00", "1h", time.Time{}, time.Time{}, "start"}, // no time zone
		{"5", "1h", time.Time{}, time.Time{}, "start"},                   // no unit
		{"now", "", time.Time{}, time.Time{}, "end"},
		{"now", "now", time.Time{}, time.Time{}, "end"},
		{"now", "60", time.Time{}, time.Time{}, "end"},
	} {
		t.Run(test.start+" to "+test.end, func(t *testing.T) {
			from, to, err := ParseWindow(test.start, test.end, now)
			invalid := InvalidError{}
			if errors.As(err, &invalid); invalid.Field != test.field || (err == nil) != (test.field == "") {
				t.Fatalf("got %v, want an InvalidError of field %q", err, test.field)
			}
			if err == nil && !(from.Equal(test.from) && to.Equal(test.to)) {
				t.Errorf("got %v to %v, want %v to %v", from, to, test.from, test.to)
			}
		})
	}
}

// An error says what may be written instead.
func TestAWrongTimeIsToldAllForms(t *testing.T) {
	_, _, start := ParseWindow("soon", "1h", time.Now())
	_, _, end := ParseWindow("now", "soon", time.Now())
	for _, form := range []string{`"soon"`, "+10m", "1h30m", "20:00", "2026-11-11 20:00", "2026-11-11T20:00:00+08:00"} {
		if !strings.Contains(start.Error(), form) || !strings.Contains(end.Error(), form) {
			t.Errorf("%s is missing in %q or %q", form, start, end)
		}
	}
	if !strings.HasSuffix(start.Error(), ", or now") || strings.Contains(end.Error(), "or now") {
		t.Errorf("only a start may be now: %q, %q", start, end)
	}
}

// A time of day is the next one, also where the clocks are changed.
func TestATimeOfDayIsTheNextOne(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for _, now := range []time.Time{time.Date(2026, 3, 29, 1, 59, 0, 0, berlin), time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(berlin)} {
		for minute := range 24 * 60 {
			at, _, err := ParseWindow(fmt.Sprintf("%02d:%02d", minute/60, minute%60), "1h", now)
			if wait := at.Sub(now); err != nil || wait <= 0 || wait > 25*time.Hour {
				t.Fatalf("%02d:%02d after %v is %v, %v", minute/60, minute%60, now, at, err)
			}
		}
	}
}
