package user

import (
	"strings"
	"unicode/utf8"
)

// The bounds of what a user chooses, in characters (Unicode code points, not bytes).
const (
	PasswordMin = 8
	PasswordMax = 72
	NicknameMax = 32
)

// The rules for a new account. The pages have no rules of their own: they show what these checks refuse.

// CheckPhone checks the telephone of a new account: a mobile number of China.
func CheckPhone(phone string) error {
	if err := required("phone", phone); err != nil {
		return err
	}
	if len(phone) != 11 || phone[0] != '1' || phone[1] < '3' || !maybePhone(phone) {
		return InvalidError{"phone", "form"}
	}
	return nil
}

// CheckCode checks the form of a one-time code.
func CheckCode(code string) error {
	if err := required("code", code); err != nil {
		return err
	}
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return InvalidError{"code", "form"}
	}
	return nil
}

// CheckPassword checks a new password, in a field of this name.
func CheckPassword(field, password string) error {
	if err := required(field, password); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(password); n < PasswordMin || n > PasswordMax {
		return InvalidError{field, "length"}
	}
	return nil
}

func required(field, value string) error {
	if value == "" {
		return InvalidError{field, "required"}
	}
	return nil
}

// maybePhone reports whether a row of users can have this phone: [+]?[0-9]{3,20}, as the schema
// says. Other text needs no query, and Postgres refuses some of it (a zero byte).
func maybePhone(phone string) bool {
	digits := strings.TrimPrefix(phone, "+")
	return len(digits) >= 3 && len(digits) <= 20 && strings.Trim(digits, "0123456789") == ""
}
