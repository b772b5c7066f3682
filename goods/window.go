package goods

import (
	"fmt"
	"time"
)

// ParseWindow parses the start and the end of a sale. start is "now", or a time after now; end is a
// time after the start. The zone of now is the shop's. An error is an InvalidError that names the field.
func ParseWindow(start, end string, now time.Time) (from, to time.Time, err error) {
	if from, err = ParseStart(start, now); err != nil {
		return from, to, err
	}
	to, err = ParseEnd(end, from.In(now.Location()))
	return from, to, err
}

// ParseStart parses the start of a sale: "now", or a time after now.
func ParseStart(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	at, err := parseTime(text, now)
	if err != nil {
		return at, InvalidError{"start", "form", err.Error() + ", or now"}
	}
	return at, nil
}

// ParseEnd parses the end of a sale that starts at from, whose zone is the shop's.
func ParseEnd(text string, from time.Time) (time.Time, error) {
	at, err := parseTime(text, from)
	if err != nil {
		return at, InvalidError{"end", "form", err.Error()}
	}
	return at, nil
}

// parseTime parses a duration after base, a time of day, which is the next one after base, or a date and a time. Those
// without a zone are in the zone of base.
func parseTime(text string, base time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return base.Add(d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation("2006-01-02 15:04", text, base.Location()); err == nil {
		return at, nil
	}
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return time.Time{},
			fmt.Errorf("%q is not valid: write a duration (10m, +10m, 1h30m), the next time of a day (20:00), "+
				"a date and a time (2026-11-11 20:00), the same with a zone (2026-11-11T20:00:00+08:00)", text)
	}
	for days := 0; ; days++ {
		y, m, d := base.Date()
		at := time.Date(y, m, d+days, clock.Hour(), clock.Minute(), 0, 0, base.Location())
		if at.After(base) {
			return at, nil
		}
	}
}
