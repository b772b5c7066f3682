package user

import (
	"context"
	"crypto/md5"
	"crypto/subtle"
	"encoding/hex"
)

// The older course systems kept md5(md5(password + fixed salt) + the account's salt) in lower-case
// hex. The inner MD5, made in the browser, was the real password. Here the server does both steps.

// legacyMatches reports whether the password has the old hash.
func legacyMatches(password, fixedSalt, salt, hash string) bool {
	inner := md5.Sum([]byte(password + fixedSalt))
	outer := md5.Sum([]byte(hex.EncodeToString(inner[:]) + salt))
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(outer[:])), []byte(hash)) == 1
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
