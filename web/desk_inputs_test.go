package web

import (
	"encoding/json"
	"testing"
)

func TestNumbersOfABody(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-5": "-5", "999999999": "999999999", "9223372036854775807": "9223372036854775807", "9223372036854775808": "9223372036854775807",
		"-9223372036854775809": "-9223372036854775808", "1e+30": "9223372036854775807", "-1e400": "-9223372036854775808", "null": "0",
		"1.5": "whole", "0.001": "whole", "1e3": "whole", `"5"`: "type", "true": "type", "[]": "type", "{}": "type",
	} {
		var in struct {
			N number `json:"n"`
		}
		err := decode([]byte(`{"n":`+text+`}`), &in)
		b, _ := json.Marshal(in.N)
		got := string(b)
		if wrong := wrongFields(err); len(wrong) > 0 {
			got = wrong[0].of().reason
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

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
