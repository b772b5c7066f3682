package user

import (
	"context"
	"crypto/md5"
	"crypto/subtle"
	"encoding/hex"
)

// The older course systems kept md5(md5(password + fixed salt) + the account's salt), hex in lower case. In them the
// browser did the first step, which made its result the password. Here both are done from the password sent.

// legacyMatches reports whether the password is the one behind an old hash.
func legacyMatches(password, fixedSalt, salt, hash string) bool {
	inner := md5.Sum([]byte(password + fixedSalt))
	outer := md5.Sum([]byte(hex.EncodeToString(inner[:]) + salt))
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(outer[:])), []byte(hash)) == 1
}

// upgrade replaces the old hash of an account by a new one, if it still is the one that was checked. When it is not,
// another log-in of the same moment has done it: nothing is left to do.
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
