package web

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/user"
)

// adminHandler is a handler for the staff. by goes into the log.
type adminHandler = func(w http.ResponseWriter, r *http.Request, by admin.By) error

// staffWith are the logged-in users with one of the roles.
func staffWith(name string, roles ...string) audience[adminHandler] {
	return audience[adminHandler]{name, func(d *desk, l ruleBuckets, h adminHandler) openHandler {
		return anyUser.door(d, l, func(w http.ResponseWriter, r *http.Request, session user.Session) error {
			if session.Role == user.RoleDue {
				return errNewPassword
			}
			if !slices.Contains(roles, session.Role) {
				return errForbidden
			}
			return h(w, r, admin.By{UserID: session.UserID, From: d.clientIP(r), Whole: session.Role == user.RoleAdmin,
				At: time.Now()})
		})
	}}
}

var (
	theStaff = staffWith("staff", user.RoleViewer, user.RoleAdmin)
	admins   = staffWith("admin", user.RoleAdmin)
)

// keyedAdmins are admins whose change is made once for each key.
func keyedAdmins(store *admin.Store) audience[adminHandler] {
	return audience[adminHandler]{admins.name, func(d *desk, l ruleBuckets, h adminHandler) openHandler {
		return admins.door(d, l, keyed(store, h))
	}}
}

// keyHeader has the key that a form of the staff keeps until it has an answer. Programs may leave it out.
const keyHeader = "Idempotency-Key"

// keyed adds the key of a request to the change of the staff that it asks for: a repetition receives the first answer,
// and another request with the same key is an admin.DoneOtherwiseError. A sale or an item in an answer is always as it
// is now.
func keyed(store *admin.Store, h adminHandler) adminHandler {
	return func(w http.ResponseWriter, r *http.Request, by admin.By) error {
		if len(r.Header.Values(keyHeader)) == 0 {
			return h(w, r, by)
		}
		raw, err := rawBody(w, r, maxBody)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if by, err = withKey(store, r, by, raw); err != nil {
			return err
		}
		return h(w, r, by)
	}
}

// readKey returns the key of a request; uuid.Nil for none. It returns errBadKey.
func readKey(r *http.Request) (uuid.UUID, error) {
	keys := r.Header.Values(keyHeader)
	if len(keys) == 0 {
		return uuid.Nil, nil
	}
	key, err := uuid.Parse(keys[0])
	if err != nil || len(keys) > 1 || len(keys[0]) != 36 || key == uuid.Nil {
		return uuid.Nil, errBadKey
	}
	return key, nil
}

// withKey returns by with the key of a request, and with the time when the request came first. It returns errBadKey and
// admin.DoneOtherwiseError.
func withKey(store *admin.Store, r *http.Request, by admin.By, body []byte) (admin.By, error) {
	key, err := readKey(r)
	if err != nil || key == uuid.Nil {
		return by, err
	}
	by.Key = key
	by.Digest = sha256.Sum256(append([]byte(r.URL.Path+"\n"), body...))
	return store.Came(r.Context(), by)
}
