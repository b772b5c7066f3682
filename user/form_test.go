package user

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForms(t *testing.T) {
	long := strings.Repeat("长", PasswordMax+1)
	for _, c := range []struct{ phone, password, nickname, field, reason string }{
		{"", "12345678", "x", "phone", "required"},
		{"1380000000", "12345678", "x", "phone", "form"},
		{"12800000000", "12345678", "x", "phone", "form"},
		{"11012345678", "12345678", "x", "phone", "form"},
		{"1380000000a", "12345678", "x", "phone", "form"},
		{"+1380000000", "12345678", "x", "phone", "form"},
		{"13800000000", "", "x", "password", "required"},
		{"13800000000", "1234567", "x", "password", "length"},
		{"13800000000", "口令口令口令七", "x", "password", "length"},
		{"13800000000", long, "x", "password", "length"},
		{"13800000000", "12345678", "", "nickname", "required"},
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
	for _, code := range []string{"12345", "1234567", "12345x", "１２３４５６", " 12345"} {
		if err := CheckCode(code); err != (InvalidError{"code", "form"}) {
			t.Errorf("the code %q: %v", code, err)
		}
	}
	if err := CheckNickname(strings.Repeat("名", 32)); err != nil {
		t.Errorf("a nickname of 32 characters: %v", err)
	}
	for _, password := range []string{"口令口令口令八字", strings.Repeat("长", PasswordMax), strings.Repeat("💩", 30)} {
		if err := CheckPassword("password", password); err != nil {
			t.Errorf("the password %s: %v", password, err)
		}
	}
}

// A form is refused with every wrong field, not with the first one.
func TestAFormIsRefusedWithEveryWrongField(t *testing.T) {
	for what, c := range map[string]struct {
		err  func() error
		want []error
	}{
		"register": {func() error {
			_, err := new(Store).Register(t.Context(), "11012345678", "", "short", "admin", from)
			return err
		}, []error{InvalidError{"phone", "form"}, InvalidError{"code", "required"}, InvalidError{"password", "length"}, InvalidError{"nickname", "reserved"}}},
		"log in": {func() error {
			_, err := new(Store).Login(t.Context(), "", "", from)
			return err
		}, []error{InvalidError{"phone", "required"}, InvalidError{"password", "required"}}},
		"a new password": {func() error {
			_, err := new(Store).ChangePassword(t.Context(), nil, 1, "", "", "short")
			return err
		}, []error{InvalidError{"old", "required"}, InvalidError{"new", "length"}}},
	} {
		if diff := cmp.Diff(errors.Join(c.want...).Error(), c.err().Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
