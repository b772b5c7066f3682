package alive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(p *Presence) (names []string) {
	for dead := range p.Dead() {
		names = append(names, dead.Name)
		dead.Release(false)
	}
	return names
}

func TestPresence(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	secret := []byte("one shop")
	a, b, other := NewPresence(secret, ""), NewPresence(secret, ""), NewPresence([]byte("another shop"), "")
	if a.kernel == "" {
		t.Skip("this system does not name its boot and its pid namespace")
	}
	elsewhere := NewPresence(secret, "")
	elsewhere.kernel, elsewhere.Name = "0123456789abcdef", "0123456789abcdef-host-1-a"
	for _, p := range []*Presence{a, b, other, elsewhere} {
		if err := p.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	defer b.Leave()
	if got := names(b); got != nil {
		t.Errorf("%v are dead, and all live", got)
	}
	for _, p := range []*Presence{a, other, elsewhere} {
		p.Leave()
	}
	for range 2 { // until it is done
		if got := names(b); !slices.Equal(got, []string{a.Name}) {
			t.Errorf("%v are dead, want %s", got, a.Name)
		}
	}
	for dead := range b.Dead() {
		if got := names(NewPresence(secret, "")); got != nil {
			t.Errorf("two processes look after %v", got)
		}
		dead.Release(true)
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
	p := NewPresence([]byte("one shop"), "")
	if err := p.Enter(); p.kernel != "" && err == nil {
		t.Error("no error")
	}
	if got := names(p); got != nil {
		t.Errorf("%v are dead", got)
	}
	p.Leave()
}
