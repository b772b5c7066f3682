package user

import "strings"

// The rules for a new account. The web layer checks them too and explains them in the visitor's
// language; these checks hold for every caller.

func checkPhone(phone string) error {
	if len(phone) != 11 || phone[0] != '1' || phone[1] < '3' || !maybePhone(phone) {
		return InvalidError{"phone", "form"}
	}
	return nil
}

func checkPassword(password string) error {
	if len(password) < 8 || len(password) > 72 {
		return InvalidError{"password", "length"}
	}
	return nil
}

// maybePhone reports whether a row of users can have this phone: [+]?[0-9]{3,20}, as the schema
// says. Other text needs no query, and Postgres refuses some of it (a zero byte).
func maybePhone(phone string) bool {
	digits := strings.TrimPrefix(phone, "+")
	return len(digits) >= 3 && len(digits) <= 20 && strings.Trim(digits, "0123456789") == ""
}
