package user

import (
	"errors"
	"fmt"
	"testing"
)

func TestPhoneTakenIsShownToItsHolderOnly(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	if _, err := s.Register(t.Context(), phone, "000000", "battery staple", "x", from); !errors.Is(err, ErrWrongCode) {
		t.Errorf("without a code: %v, want ErrWrongCode", err)
	}
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), phone, code, "battery staple", "x", from); !errors.Is(err, ErrPhoneTaken) {
		t.Errorf("with a code: %v, want ErrPhoneTaken", err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", from); err != nil {
		t.Errorf("the first password: %v", err)
	}
}

func TestOneOfConcurrentRegistrationsWins(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	errs := together(8, func(i int) error {
		_, err := s.Register(t.Context(), phone, code, "correct horse", fmt.Sprint("racer ", i), from)
		return err
	})
	if ok, refused, other := count(errs, ErrWrongCode); ok != 1 || refused != 7 {
		t.Errorf("%d registered, %d had a wrong code, other: %v; want 1, 7, none", ok, refused, other)
	}
}

func TestABusyMachineUsesUpNoCode(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	queue := s.hashes.queue
	s.hashes.queue = 0
	for range cap(s.hashes.slots) {
		s.hashes.slots <- struct{}{}
	}
	if _, err := s.Register(t.Context(), phone, code, "correct horse", "x", from); !errors.Is(err, ErrBusy) {
		t.Fatalf("Register: %v, want ErrBusy", err)
	}
	s.hashes.queue = queue
	s.hashes.freeSlot()
	if _, err := s.Register(t.Context(), phone, code, "correct horse", "x", from); err != nil {
		t.Errorf("the same code when there is room: %v", err)
	}
}
