package sandbox

import (
	"os"
	"strings"
)

// passedOn are the variables of our environment that a server receives: where programs, libraries and
// temporary files lie, and those without which Windows starts no program. Others may be secrets, and every process
// of the account that runs the server can read them.
var passedOn = []string{
	"PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "TEMP", "TMP",
}

// serverEnv returns the environment of a server: the variables that are passed on, and a locale that
// is the same everywhere.
func serverEnv() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range passedOn {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// npmEnv returns the environment of npm: that of a server, and where npm finds its own settings.
func npmEnv() []string {
	env := serverEnv()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "HOME" || name == "USERPROFILE" || name == "APPDATA" ||
			strings.HasPrefix(strings.ToLower(name), "npm_config_") {
			env = append(env, v)
		}
	}
	return env
}
