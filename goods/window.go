package goods

import (
	"fmt"
	"time"
)

// ParseWindow parses the start and the end of a sale. start is "now", a duration from now (30s) or
// an RFC 3339 time; end is a duration after the start or an RFC 3339 time. An error is an
// InvalidError that names the field.
func ParseWindow(start, end string, now time.Time) (from, to time.Time, err error) {
	if start == "now" {
		from = now
	} else if from, err = parseTime(start, now); err != nil {
		return from, to, InvalidError{"start", err.Error()}
	}
	if to, err = parseTime(end, from); err != nil {
		return from, to, InvalidError{"end", err.Error()}
	}
	return from, to, nil
}

func parseTime(text string, base time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return base.Add(d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration such as 30s nor a time such as 2026-11-11T20:00:00+08:00", text)
}
