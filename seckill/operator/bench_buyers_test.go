package operator

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"miaosha/seckill/bench"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestReadBuyers(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []bench.Buyer // nil: refused
	}{
		{"as the command users writes it", "user_id,phone,token\n1,19900000001,abc-_9\n", []bench.Buyer{{Token: "abc-_9"}}},
		{"with addresses", "user_id,phone,token,path\n1,1,a,b\n2,2,c,d\n", []bench.Buyer{{Token: "a", Path: "b"}, {Token: "c", Path: "d"}}},
		{"an address is missing", "token,path\na,\n", []bench.Buyer{{Token: "a"}}},
		{"nothing", "", nil},
		{"no column token", "user_id,phone\n1,1\n", nil},
		{"no token", "token,path\n,b\n", nil},
		{"a short row", "user_id,token\n1\n", nil},
		{"a line break in a token", "token\n\"a\r\nX-Evil: 1\"\n", nil},
		{"a space", "token\na b\n", nil},
		{"a slash", "token,path\na,../../x\n", nil},
		{"a zero byte", "token\na\x00b\n", nil},
		{"another alphabet", "token\nａ\n", nil},
	} {
		got, err := readBuyers(strings.NewReader(c.text))
		if (err == nil) != (c.want != nil) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.want)
			continue
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Tokens and addresses read from any file are safe in a request without escaping.
func FuzzReadBuyers(f *testing.F) {
	f.Add("user_id,phone,token\n1,19900000001,abc\n")
	f.Add("user_id,phone,token,path\n1,19900000001,abc,def\n2,19900000002,ghi,jkl\n")
	f.Add("path,token\r\nx,y\r\n")
	f.Add("token\n\"a\nb\"\n")
	f.Add("token\n\"\"\n")
	f.Add("token,token\na,b\n")
	f.Add("\ufefftoken\na\n")
	f.Add("token\n=cmd()\n")
	f.Add("token\n\"a")
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, text string) {
		defer slowest(text)()
		buyers, err := readBuyers(strings.NewReader(text))
		if err != nil && buyers != nil {
			t.Errorf("%q: %d buyers and %v", text, len(buyers), err)
		}
		if lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1; len(buyers) > lines {
			t.Errorf("%q: %d buyers", text, len(buyers))
		}
		for _, b := range buyers {
			for _, word := range []string{b.Token, b.Path} {
				// A text of base64 letters, four times over, has a valid length. The decoder
				// ignores line breaks.
				if _, err := base64.RawURLEncoding.DecodeString(strings.Repeat(word, 4)); err != nil || strings.ContainsAny(word, "\r\n") {
					t.Errorf("%q: %q goes into a request", text, word)
				}
			}
			if b.Token == "" {
				t.Errorf("%q: a buyer without a token", text)
			}
		}
	})
}
