package user

import (
	"context"
	"crypto/md5"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The older course systems kept md5 twice. The first, made in the browser of a password and a salt that
// all accounts share, was the real password; the second was of its lower-case hex and the account's own
// salt. Here the server does both steps. They differ in where the salts stand, which a pattern says for
// each step: {password} is the password, or the first MD5 in the second step; {fixed} is the salt of the
// first step and {salt} that of the second, {salt[2]} its third character, and all else is itself.

// legacyParts are what a pattern may have in braces, by the name of its salt.
var legacyParts = map[string]*regexp.Regexp{
	"fixed": regexp.MustCompile(`\{password\}|\{fixed(?:\[(\d{1,2})\])?\}`),
	"salt":  regexp.MustCompile(`\{password\}|\{salt(?:\[(\d{1,2})\])?\}`),
}

// checkLegacyPattern checks a pattern for a salt with this name and length, -1 if the length is not known.
func checkLegacyPattern(pattern, name string, saltBytes int) error {
	if strings.Count(pattern, "{password}") != 1 ||
		strings.ContainsAny(legacyParts[name].ReplaceAllString(pattern, ""), "{}[]") {
		return fmt.Errorf(
			"%q has to have {password} once, and beside it {%[2]s}, characters of it such as {%[2]s[2]}, or plain text",
			pattern, name)
	}
	if _, ok := legacyText(pattern, name, "", strings.Repeat("x", saltBytes+1)[:max(saltBytes, 0)]); !ok &&
		saltBytes >= 0 {
		return fmt.Errorf("%q names a character that the salt of %d does not have", pattern, saltBytes)
	}
	return nil
}

// legacyText puts a password and a salt with this name into a pattern. It reports false if the salt is too short for
// it.
func legacyText(pattern, name, password, salt string) (text string, ok bool) {
	ok = true
	text = legacyParts[name].ReplaceAllStringFunc(pattern, func(part string) string {
		at := legacyParts[name].FindStringSubmatch(part)[1]
		switch {
		case part == "{password}":
			return password
		case at == "":
			return salt
		}
		n, _ := strconv.Atoi(at) // one or two digits
		if n >= len(salt) {
			ok = false
			return ""
		}
		return salt[n : n+1]
	})
	return text, ok
}

// legacyMatches reports whether the password has the old hash of an account with this salt.
func (c Config) legacyMatches(password, salt, hash string) bool {
	first, _ := legacyText(c.LegacyPattern, "fixed", password, c.LegacySalt) // Validate has compared the two
	inner := md5.Sum([]byte(first))
	second, ok := legacyText(c.LegacyRowPattern, "salt", hex.EncodeToString(inner[:]), salt)
	outer := md5.Sum([]byte(second))
	return ok && subtle.ConstantTimeCompare([]byte(hex.EncodeToString(outer[:])), []byte(hash)) == 1
}

// upgrade replaces the old hash of an account by a new one, unless it has changed since it was
// checked. Then another log-in at the same moment has replaced it, and nothing is left to do.
func (s *Store) upgrade(ctx context.Context, a account, newHash string) error {
	_, err := s.db.Exec(ctx, `
		update users
		set    password_hash = $3, legacy_hash = null, legacy_salt = null
		where  id = $1 and legacy_hash = $2`, a.ID, a.LegacyHash, newHash)
	if err != nil {
		return fault(err, "upgrade the password of user %d", a.ID)
	}
	s.log.InfoContext(ctx, "password of an older system replaced", "user", a.ID)
	return nil
}
