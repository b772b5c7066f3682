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
	env = append(env, "MIAOSHA_TIME_ZONE=\ufeffAsia/Shanghai\r", "MIAOSHA_POOL_WEB= 3 ", "MIAOSHA_ALLOW_LAN=\ufefftrue") // as files from Windows have them
	out := sandboxtest.MustCommand(t, env, "config", "--rate", "7")
	if strings.Contains(out, "sesame") {
		t.Errorf("a secret is printed:\n%s", out)
	}
	for _, want := range []string{"rate               7", "me:****@h/db", "time-zone          Asia/Shanghai\n", "pool-web           3\n", "allow-lan          true\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
