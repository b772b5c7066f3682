package user

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	long := strings.Repeat("x", 73)
	for _, c := range []struct{ phone, password, nickname, field, reason string }{
		{"1380000000", "12345678", "x", "phone", "form"},
		{"12800000000", "12345678", "x", "phone", "form"},
		{"1380000000a", "12345678", "x", "phone", "form"},
		{"+1380000000", "12345678", "x", "phone", "form"},
		{"13800000000", "1234567", "x", "password", "length"},
		{"13800000000", long, "x", "password", "length"},
		{"13800000000", "12345678", "", "nickname", "length"},
		{"13800000000", "12345678", strings.Repeat("名", 33), "nickname", "length"},
		{"13800000000", "12345678", "a\x00b", "nickname", "form"},
		{"13800000000", "12345678", "a\xffb", "nickname", "form"},
	} {
		t.Run(fmt.Sprintf("%.12q", c.phone+c.password+c.nickname), func(t *testing.T) {
			var invalid InvalidError
			_, err := new(Store).Register(t.Context(), c.phone, "000000", c.password, c.nickname, from)
			if !errors.As(err, &invalid) || invalid != (InvalidError{c.field, c.reason}) {
				t.Errorf("%+v: %v, want InvalidError of %s, reason %s", c, err, c.field, c.reason)
			}
		})
	}
	if err := checkNickname(strings.Repeat("名", 32)); err != nil {
		t.Errorf("a nickname of 32 characters: %v", err)
	}
}
