package operator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"miaosha/seckill/report"
)

// isSecret reports whether a setting is a secret, or a URL that may have a password.
func isSecret(name string) bool {
	return strings.HasSuffix(name, "secret") || strings.HasSuffix(name, "salt") || strings.HasSuffix(name, "-url")
}

// Environment returns a resolver that reads settings from the environment. A secret or a URL may be in a file: if there
// is NAME_FILE in place of NAME, the value is the text of that file. White space and invisible characters around a
// value do not count. A variable or a file that is empty is an error: such a value got lost on its way, and the default
// is not what was meant.
func Environment(environment func(name string) (value string, ok bool)) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if len(flag.Envs) == 0 {
			return nil, nil
		}
		name := flag.Envs[0]
		value, set := environment(name)
		file, inFile := environment(name + "_FILE")
		switch {
		case inFile && set && isSecret(flag.Name):
			return nil, fmt.Errorf("%s and %s_FILE: only one of them", name, name)
		case inFile && isSecret(flag.Name):
			text, err := readSecret(file)
			if err != nil {
				return nil, fmt.Errorf("%s_FILE: %w", name, err)
			}
			return text, nil
		case set && trim(value) == "":
			return nil, fmt.Errorf("%s is set, but empty: give it a value, or unset it", name)
		case set && trim(value) != value:
			return trim(value), nil
		}
		return nil, nil
	})
}

// maxSecret is more than any secret or URL has. A file that never ends is not read to its end.
const maxSecret = 64 << 10

// readSecret returns the secret or the URL in a file.
func readSecret(file string) (string, error) {
	if file == "" {
		return "", errors.New("it is set, but empty: name a file, or unset it")
	}
	f, err := os.Open(file)
	if path := new(fs.PathError); errors.As(err, &path) { // without the name: it may be the secret itself
		return "", fmt.Errorf("%w: it has to name a file that this account may read", path.Err)
	}
	if err != nil {
		return "", fmt.Errorf("it has to name a file that this account may read: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch text := trim(string(raw)); {
	case err != nil:
		return "", fmt.Errorf("%w: it has to be a file with the value", err)
	case len(raw) > maxSecret:
		return "", fmt.Errorf("%s has more than %d KB: it has to have the value alone", file, maxSecret>>10)
	case bytes.HasPrefix(raw, []byte("\xff\xfe")) && raw[len(raw)-1] == 0, bytes.HasPrefix(raw, []byte("\xfe\xff\x00")):
		return "", fmt.Errorf("%s is in UTF-16: save it as UTF-8", file)
	case text == "":
		return "", fmt.Errorf("%s is empty: write the value into it, or unset the variable", file)
	default:
		return text, nil
	}
}

// trim removes white space and what no editor shows, such as a byte order mark, from both ends.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
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
