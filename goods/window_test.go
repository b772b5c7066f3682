package goods

import (
	"errors"
	"testing"
	"time"
)

func TestParseWindow(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
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
