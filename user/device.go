package user

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"miaosha/seckill/purpose"
)

// DeviceFor is how long a device is known after a log-in.
var DeviceFor = purpose.Device.Life

const (
	devicesTried  = 10_000 // buckets kept at once; one that was dropped starts full
	deviceIDBytes = 16
	deviceBytes   = deviceIDBytes + 8 + sha256.Size + sha256.Size
)

// devices recognizes browsers from which the owner of an account has logged in, by a cookie that only
// the shop can make. A stranger who tries passwords, from however many addresses, takes nothing
// from them: a device has places of its own at the door, and its tries are counted here, and not
// with those of its address or of strangers.
//
// A cookie is valid for one account, until its password changes. It is no session: the password
// is still needed.
type devices struct {
	key   []byte      // of purpose.Device
	tries interface { // an otter.Cache; goods/cache.go says why its type is not named
		ComputeIfAbsent([deviceIDBytes]byte, func() (*rate.Limiter, bool)) (*rate.Limiter, bool)
	}
}

// device is what a cookie says.
type device struct {
	id       [deviceIDBytes]byte
	password []byte // mac of the hash of the password with which the device logged in
}

func newDevices(secret []byte) *devices {
	return &devices{purpose.Device.Key(secret), otter.Must(
		&otter.Options[[deviceIDBytes]byte, *rate.Limiter]{MaximumSize: devicesTried})}
}

// issue returns the cookie of a new device of an account, as of a time:
// base64url of id, time in Unix seconds, mac of the password's hash, and mac of all these and the phone.
func (d *devices) issue(phone, passwordHash string, at time.Time) string {
	raw := make([]byte, deviceIDBytes, deviceBytes)
	rand.Read(raw) // never returns an error
	raw = binary.BigEndian.AppendUint64(raw, uint64(at.Unix()))
	raw = append(raw, d.mac("device password", passwordHash)...)
	raw = append(raw, d.mac("device", phone, string(raw))...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// read returns the device of a cookie, if it was issued for an account with this phone. It calls no
// store, so the account's password may have changed since: matches reports whether it has not.
func (d *devices) read(phone, cookie string, now time.Time) (device, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(raw) != deviceBytes {
		return device{}, false
	}
	said, mac := raw[:deviceBytes-sha256.Size], raw[deviceBytes-sha256.Size:]
	if !hmac.Equal(mac, d.mac("device", phone, string(said))) {
		return device{}, false
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(said[deviceIDBytes:])), 0))
	return device{[deviceIDBytes]byte(said), said[deviceIDBytes+8:]}, age < DeviceFor
}

func (d *devices) matches(known device, a account) bool {
	return hmac.Equal(known.password, d.mac("device password", a.PasswordHash))
}

// try counts a log-in from a device.
func (d *devices) try(known device) error {
	bucket, _ := d.tries.ComputeIfAbsent(known.id, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Every(TriesPerDevice.Refill()), TriesPerDevice.Burst), false
	})
	if !bucket.Allow() {
		return TooManyError{TriesPerDevice.Refill()}
	}
	return nil
}

func (d *devices) mac(parts ...string) []byte {
	h := hmac.New(sha256.New, d.key)
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}
