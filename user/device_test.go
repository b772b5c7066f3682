package user

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"miaosha/seckill/purpose"
)

func TestADeviceIsKnownForItsAccountAlone(t *testing.T) {
	now := time.Now()
	d := newDevices(secret)
	cookie := d.issue(phone, "a hash", now)
	known, ok := d.read(phone, cookie, now)
	if !ok || !d.matches(known, account{PasswordHash: "a hash"}) {
		t.Fatal("the device is not known")
	}
	if d.matches(known, account{PasswordHash: "another hash"}) || d.matches(known, account{}) {
		t.Error("the device is known after the password changed")
	}
	if d.issue(phone, "a hash", now) == cookie {
		t.Error("two devices have the same cookie")
	}
	if _, ok := d.read(phone, cookie, now.Add(DeviceFor-time.Minute)); !ok {
		t.Error("the device is not known shortly before its end")
	}
	refused := func(what, phone, cookie string, d *devices, at time.Time) {
		t.Helper()
		if _, ok := d.read(phone, cookie, at); ok {
			t.Errorf("%s: the device is known", what)
		}
	}
	refused("another account", "13800000002", cookie, d, now)
	refused("no account", "", cookie, d, now)
	refused("after its end", phone, cookie, d, now.Add(DeviceFor+time.Second))
	refused("another shop", phone, cookie, newDevices([]byte("another secret of thirty-two byte")), now)
	for _, cookie := range []string{"", "x", cookie[1:], cookie + "A", "!" + cookie[1:]} {
		refused("a malformed cookie", phone, cookie, d, now)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(cookie)
	for i := range raw {
		raw[i] ^= 1
		refused(fmt.Sprint("byte ", i, " changed"), phone, base64.RawURLEncoding.EncodeToString(raw), d, now)
		raw[i] ^= 1
	}
}

// A cookie or a code that is signed with the key of another purpose, or with the secret itself, is none.
func TestDevicesAndCodesHaveTheKeysOfTheirPurposes(t *testing.T) {
	keys, now := map[string][]byte{"secret": secret}, time.Now()
	for _, p := range purpose.All {
		keys[p.Name] = p.Key(secret)
	}
	s := newShop(t)
	for name, key := range keys {
		cookie := (&devices{key: key}).issue(phone, "a hash", now)
		if _, known := newDevices(secret).read(phone, cookie, now); known != (name == purpose.Device.Name) {
			t.Errorf("a device with the key of %s is known: %v", name, known)
		}
		made := codes{rdb: s.codes.rdb, key: key}
		code, err := made.make(t.Context(), phone, "browser")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.codes.use(t.Context(), phone, code, "browser"); (err == nil) != (name == purpose.OneTimeCode.Name) {
			t.Errorf("a code with the key of %s: %v", name, err)
		}
	}
}

// A device has its own bucket: strangers and neighbours behind its address take nothing from it.
func TestAKnownDeviceIsNotLockedOut(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	in, err := s.Login(t.Context(), phone, "correct horse", from)
	if err != nil {
		t.Fatal(err)
	}
	owner := From{Addr: address, Device: in.Device}
	// A neighbour behind the same address guesses, and strangers fill the door.
	if allowed, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), phone, address) }); allowed == 30 {
		t.Fatal("the neighbour is not limited")
	}
	s.useUp(t, limitLoginAddress+address, TriesPerAddress)
	fill(t, s.door)
	if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrSolveFirst) {
		t.Errorf("without the cookie: %v, want ErrSolveFirst", err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", owner); err != nil {
		t.Errorf("the owner's device: %v", err)
	}
	if _, err := s.Login(t.Context(), "13800000002", "correct horse", owner); !errors.Is(err, ErrSolveFirst) {
		t.Errorf("the device at another account: %v, want ErrSolveFirst", err)
	}
	// The device has ten tries a minute, and another device of the owner has its own.
	began := time.Now()
	allowed, wait := tries(t, 30, func(int) error {
		_, err := s.Login(t.Context(), phone, "battery staple", owner)
		if errors.Is(err, ErrWrongPassword) {
			return nil
		}
		return err
	})
	if most := TriesPerDevice.Burst + refilled(TriesPerDevice.Refill(), began); allowed < TriesPerDevice.Burst-1 || allowed > most || allowed < 30 && wait <= 0 {
		t.Errorf("%d more tries from the device, the next in %v; want %d and a wait", allowed, wait, TriesPerDevice.Burst-1)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", From{Addr: address, Device: s.devices.issue(phone, s.hashOf(t, phone), time.Now())}); err != nil {
		t.Errorf("another device: %v", err)
	}
}

// A new password ends the devices that knew the old one, except the one that changed it.
func TestANewPasswordEndsDevices(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	in, err := s.Login(t.Context(), phone, "correct horse", from)
	if err != nil {
		t.Fatal(err)
	}
	device, err := s.ChangePassword(t.Context(), s.sessions(t), u.ID, "", "correct horse", "battery staple")
	if err != nil {
		t.Fatal(err)
	}
	s.useUp(t, limitLoginAddress+address, TriesPerAddress)
	if _, err := s.Login(t.Context(), phone, "battery staple", From{Addr: address, Device: in.Device}); !errors.As(err, &TooManyError{}) {
		t.Errorf("the device of the old password: %v, want TooManyError, as for a stranger", err)
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", From{Addr: address, Device: device}); err != nil {
		t.Errorf("the device that changed the password: %v", err)
	}
}

// hashOf returns the hash of an account's password.
func (s testShop) hashOf(t *testing.T, phone string) string {
	t.Helper()
	a, err := s.byPhone(t.Context(), phone)
	if err != nil {
		t.Fatal(err)
	}
	return a.PasswordHash
}
