package web

import "testing"

func TestInputTimes(t *testing.T) {
	for text, good := range map[string]bool{
		"2026-11-11T20:00:00+08:00": true, "9998-12-31T23:59:59Z": true,
		"9999-12-31T23:59:59-10:00": false, "0000-01-01T00:00:00+14:00": false, "+010000-01-01T00:00:00Z": false, "20:00": false, "": false,
	} {
		f := inputs{}
		if f.time("at", text); (f.err() == nil) != good {
			t.Errorf("%q: %v", text, f.err())
		}
	}
}
