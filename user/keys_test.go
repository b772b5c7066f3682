package user

import (
	"strings"
	"testing"
)

// A phone is input: any string may come, and no string makes a long key.
func TestKeysAreShort(t *testing.T) {
	long := strings.Repeat("1", 4000)
	for _, key := range []string{codeKey(long), knownKey(long, address)} {
		if len(key) > 50 {
			t.Errorf("a key of %d characters, want at most 50", len(key))
		}
	}
	if got, want := codeKey(phone), "ms:otp:"+phone; got != want {
		t.Errorf("the key of a code is %q, want %q", got, want)
	}
}
