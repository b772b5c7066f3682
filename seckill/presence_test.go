package seckill

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(p *presence) (names []string) {
	for dead := range p.dead() {
		names = append(names, dead.name)
		dead.release(false)
	}
	return names
}

func TestPresence(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	secret := []byte("one shop")
	a, b, other := newPresence(secret, ""), newPresence(secret, ""), newPresence([]byte("another shop"), "")
	if a.kernel == "" {
		t.Skip("this system does not name its boot and its pid namespace")
	}
	elsewhere := newPresence(secret, "")
	elsewhere.kernel, elsewhere.name = "0123456789abcdef", "0123456789abcdef-host-1-a"
	for _, p := range []*presence{a, b, other, elsewhere} {
		if err := p.enter(); err != nil {
			t.Fatal(err)
		}
	}
	defer b.leave()
	if got := names(b); got != nil {
		t.Errorf("%v are dead, and all live", got)
	}
	for _, p := range []*presence{a, other, elsewhere} {
		p.leave()
	}
	for range 2 { // until it is done
		if got := names(b); !slices.Equal(got, []string{a.name}) {
			t.Errorf("%v are dead, want %s", got, a.name)
		}
	}
	for dead := range b.dead() {
		if got := names(newPresence(secret, "")); got != nil {
			t.Errorf("two processes look after %v", got)
		}
		dead.release(true)
	}
	if got := names(b); got != nil {
		t.Errorf("%v are dead, and were looked after", got)
	}
	if got := names(elsewhere); got != nil {
		t.Errorf("from another kernel %v look dead", got)
	}
}

func TestPresenceWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", file)
	p := newPresence([]byte("one shop"), "")
	if err := p.enter(); p.kernel != "" && err == nil {
		t.Error("no error")
	}
	if got := names(p); got != nil {
		t.Errorf("%v are dead", got)
	}
	p.leave()
}
