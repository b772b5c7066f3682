package operator

import (
	"os"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The command config prints the effective settings, without secrets and passwords.
func TestSettingsAreMasked(t *testing.T) {
	t.Parallel()
	env := append(os.Environ(), "DATABASE_URL=postgres://me:sesame@h/db", "REDIS_URL=redis://:sesame@h:1,redis://:sesame@i:2",
		"MIAOSHA_SECRET=sesame-sesame-sesame-sesame-sesame", "MIAOSHA_NOTIFY_SECRET=sesame-sesame-sesame-sesame-sesame", "MIAOSHA_LEGACY_SALT=sesame")
	out := sandboxtest.MustCommand(t, env, "config", "--rate", "7")
	if strings.Contains(out, "sesame") {
		t.Errorf("a secret is printed:\n%s", out)
	}
	for _, want := range []string{"rate               7", "me:****@h/db"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
