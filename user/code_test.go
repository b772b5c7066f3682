package user

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const phone = "13800000001"

func TestSendCode(t *testing.T) {
	s := newShop(t)
	code, ttl, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	if len(code) != 6 || strings.Trim(code, "0123456789") != "" {
		t.Errorf("code %q, want six digits", code)
	}
	if ttl != 5*time.Minute {
		t.Errorf("the code is valid for %v, want 5m", ttl)
	}
	if out := s.console.String(); !strings.Contains(out, code) || !strings.Contains(out, phone) {
		t.Errorf("the console has %q, want the phone and the code", out)
	}
	if strings.Contains(s.logged.String(), code) {
		t.Error("the log has the code")
	}
	kept := s.rdb.HGetAll(t.Context(), codeKey(phone)).Val()
	if strings.Contains(fmt.Sprint(kept), code) || len(kept["mac"]) != 64 {
		t.Errorf("Redis keeps %v, want a hash of the code", kept)
	}
	if s.codes.mac(phone, code) == s.codes.mac("13800000002", code) {
		t.Error("the hash of a code is not bound to its phone")
	}
	if life := s.rdb.PTTL(t.Context(), codeKey(phone)).Val(); life <= 4*time.Minute || life > 5*time.Minute {
		t.Errorf("the code lives %v, want 5m", life)
	}
}

func TestSMSOff(t *testing.T) {
	s := newShop(t)
	s.cfg.SMS = "off"
	if _, _, err := s.SendCode(t.Context(), phone, from); !errors.Is(err, ErrSMSOff) {
		t.Errorf("SendCode: %v, want ErrSMSOff", err)
	}
}

func TestACodeHasOneUse(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), "13800000002", code, "correct horse", "x", from); !errors.Is(err, ErrWrongCode) {
		t.Errorf("with the code of another phone: %v, want ErrWrongCode", err)
	}
	if _, err := s.Register(t.Context(), phone, code, "correct horse", "x", from); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), phone, code, "correct horse", "x", from); !errors.Is(err, ErrWrongCode) {
		t.Errorf("with a used code: %v, want ErrWrongCode", err)
	}
}

func TestFiveWrongTriesUseUpACode(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := s.codes.use(t.Context(), phone, wrong(code), from.Browser); !errors.Is(err, ErrWrongCode) {
			t.Fatalf("wrong try %d: %v, want ErrWrongCode", i+1, err)
		}
		if i == 3 { // the fifth try may be right
			giveBack, err := s.codes.use(t.Context(), phone, code, from.Browser)
			if err != nil {
				t.Fatalf("the right code after four wrong tries: %v", err)
			}
			if err := giveBack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.codes.use(t.Context(), phone, code, from.Browser); !errors.Is(err, ErrWrongCode) {
		t.Errorf("the right code after five wrong tries: %v, want ErrWrongCode", err)
	}
	if code, _, err = s.SendCode(t.Context(), phone, from); err != nil {
		t.Fatal(err)
	}
	if _, err := s.codes.use(t.Context(), phone, code, from.Browser); err != nil {
		t.Errorf("a new code: %v", err)
	}
}

// A code is good in the browser that asked for it alone, and strangers do not use up its tries.
func TestACodeIsGoodInItsBrowserAlone(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	for _, browser := range []string{"", "another secret", from.Browser + " "} {
		for range 2 * codeTries {
			if _, err := s.codes.use(t.Context(), phone, wrong(code), browser); !errors.Is(err, ErrWrongCode) {
				t.Fatal(err)
			}
		}
		if _, err := s.codes.use(t.Context(), phone, code, browser); !errors.Is(err, ErrWrongCode) {
			t.Errorf("the right code from browser %q: %v, want ErrWrongCode", browser, err)
		}
	}
	for range codeTries - 1 {
		if _, err := s.codes.use(t.Context(), phone, wrong(code), from.Browser); !errors.Is(err, ErrWrongCode) {
			t.Fatal(err)
		}
	}
	if _, err := s.codes.use(t.Context(), phone, code, from.Browser); err != nil {
		t.Errorf("the fifth try of the browser that asked: %v", err)
	}
}

// A code that was asked for without a browser's secret is good nowhere.
func TestACodeWithoutABrowserIsGoodNowhere(t *testing.T) {
	s := newShop(t)
	code, err := s.codes.make(t.Context(), phone, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.codes.use(t.Context(), phone, code, ""); !errors.Is(err, ErrWrongCode) {
		t.Errorf("%v, want ErrWrongCode", err)
	}
}

func TestANewCodeReplacesTheOld(t *testing.T) {
	s := newShop(t)
	first, err := s.codes.make(t.Context(), phone, from.Browser)
	if err != nil {
		t.Fatal(err)
	}
	second := first
	for second == first {
		if second, err = s.codes.make(t.Context(), phone, from.Browser); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.codes.use(t.Context(), phone, first, from.Browser); !errors.Is(err, ErrWrongCode) {
		t.Errorf("the old code: %v, want ErrWrongCode", err)
	}
	if _, err := s.codes.use(t.Context(), phone, second, from.Browser); err != nil {
		t.Errorf("the new code: %v", err)
	}
}

func TestAUseOfACodeCanBeRepeated(t *testing.T) {
	s := newShop(t)
	code, err := s.codes.make(t.Context(), phone, from.Browser)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		got, err := codeUse.Run(t.Context(), s.rdb, []string{codeKey(phone)}, s.codes.mac(phone, code), "nonce", 5, s.codes.mac(phone, from.Browser)).Text()
		if err != nil || got != "RIGHT" {
			t.Errorf("run %d: %s, %v; want RIGHT", i+1, got, err)
		}
	}
	if _, err := s.codes.use(t.Context(), phone, code, from.Browser); !errors.Is(err, ErrWrongCode) {
		t.Errorf("another use: %v, want ErrWrongCode", err)
	}
}

func wrong(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}
