package operator

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"miaosha/seckill/report"
)

// isSecret reports whether a setting is a secret, or a URL that may have a password.
func isSecret(name string) bool {
	return strings.HasSuffix(name, "secret") || strings.HasSuffix(name, "salt") || strings.HasSuffix(name, "-url")
}

// SecretFiles returns a resolver that reads secrets from files: if the environment has NAME_FILE in
// place of NAME, the value is the text of that file, without white space around it.
func SecretFiles(environment func(name string) (value string, ok bool)) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if !isSecret(flag.Name) || len(flag.Envs) == 0 {
			return nil, nil
		}
		name := flag.Envs[0] + "_FILE"
		file, _ := environment(name)
		if file == "" {
			return nil, nil
		}
		if value, _ := environment(flag.Envs[0]); value != "" {
			return nil, fmt.Errorf("%s and %s: only one of them", flag.Envs[0], name)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return strings.TrimSpace(string(raw)), nil
	})
}

// WarnOfSecrets logs each secret that came by argument, which every user of the machine can read.
func (env Env) WarnOfSecrets(parsed *kong.Context) {
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Resolved || !isSecret(p.Flag.Name) || len(p.Flag.Envs) == 0 {
			continue
		}
		value := fmt.Sprint(parsed.FlagValue(p.Flag))
		if strings.HasSuffix(p.Flag.Name, "-url") && maskURLs(value) == value {
			continue // it has no password
		}
		name := p.Flag.Envs[0]
		env.Log.Warn("the list of processes shows a secret that is an argument: set it in the environment or in a file",
			"flag", "--"+p.Flag.Name, "environment", name, "file", name+"_FILE")
	}
}

// Origin returns what makes a report: the command line, with its secrets masked, and the version of this program.
func Origin(args []string, version string) report.Origin {
	words, hide := []string{"miaosha"}, ""
	for _, arg := range args {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case hide != "":
			arg, hide = mask(hide, arg), ""
		case strings.HasPrefix(arg, "--") && isSecret(name) && joined:
			arg = "--" + name + "=" + mask(name, value)
		case strings.HasPrefix(arg, "--") && isSecret(name):
			hide = name
		}
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"$&|;<>()*?`\\#~") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return report.Origin{Command: strings.Join(words, " "), Version: version, Commit: commit()}
}

// mask masks the value of a setting that is a secret, or the password in it.
func mask(name, value string) string {
	if strings.HasSuffix(name, "-url") {
		return maskURLs(value)
	}
	return "****"
}
