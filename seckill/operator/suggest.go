package operator

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// What kong says of a command line.
var (
	unexpectedArgument = regexp.MustCompile(`^unexpected argument ([^,]+)`)
	unknownFlag        = regexp.MustCompile(`^unknown flag (--?[^,]+)$`)
	notOneOf           = regexp.MustCompile(`^(.+) must be one of (.+) but got "(.*)"$`)
)

// Explain returns kong's error about a command line as one that names what is possible, with the exit code for wrong
// usage.
func Explain(app *kong.Application, args []string, err error) error {
	return exitError{exitUsage, explain(app.Node, args, err)}
}

func explain(app *kong.Node, args []string, err error) error {
	if m := unexpectedArgument.FindStringSubmatch(err.Error()); m != nil {
		node := commandOf(app, args, m[1])
		names := commandNames(node)
		if len(names) == 0 {
			return fmt.Errorf("unexpected argument %s: see %s --help", m[1], node.FullPath())
		}
		return fmt.Errorf("there is no command %q%s The commands are %s", m[1], didYouMean(m[1], names),
			strings.Join(names, ", "))
	}
	if m := notOneOf.FindStringSubmatch(err.Error()); m != nil {
		names := strings.Split(strings.ReplaceAll(m[2], `"`, ""), ",")
		return fmt.Errorf("%s: %w", m[1], notKnown(m[3], names))
	}
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		for _, child := range app.Children {
			for _, node := range append([]*kong.Node{child}, child.Children...) {
				for _, flag := range node.Flags {
					if "--"+flag.Name == m[1] && !child.Hidden {
						return fmt.Errorf("%w: it belongs to %s %s", err, app.Name, child.Name)
					}
				}
			}
		}
		node := commandOf(app, args, m[1])
		return fmt.Errorf("%w: %s --help lists those that there are", err, node.FullPath())
	}
	if text, ok := strings.CutPrefix(err.Error(), "expected "); ok {
		return fmt.Errorf("%s is missing: see %s --help", text, commandOf(app, args, "").FullPath())
	}
	return err
}

// CheckVariables returns an error for a variable of the environment whose name is nearly that of a setting: what it was
// to set is not set. It also returns the other names that begin with MIAOSHA_ and are not settings of the shop, such as
// those that Kubernetes makes for a service miaosha.
func CheckVariables(app *kong.Application, environ []string) (unknown []string, err error) {
	known, there := map[string]bool{"MIAOSHA_FAILPOINTS": true}, map[string]bool{} // failpoints are in no release
	for _, flag := range allFlags(app.Node) {
		known[flag.Envs[0]] = true
		if isSecret(flag.Name) {
			known[flag.Envs[0]+"_FILE"] = true
		}
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		there[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if known[name] || runtime.GOOS == "windows" && known[strings.ToUpper(name)] {
			// there the case of a name does not count
			continue
		}
		meant := ""
		if !serviceLink.MatchString(name) {
			meant = nearestSetting(name, known)
		}
		if plain := strings.TrimSuffix(meant, "_FILE"); !known[meant] && known[plain] {
			return nil, exitError{exitUsage, fmt.Errorf(
				"%s: only a secret or a URL may be in a file: set %s", name, plain)}
		}
		switch ours := strings.HasPrefix(name, prefix); {
		case meant != "" && (ours || strings.HasPrefix(meant, prefix) || !there[meant] && !there[meant+"_FILE"]):
			return nil, exitError{exitUsage, fmt.Errorf(
				"the variable %s is no setting, did you mean %s? The settings are in miaosha --help", name, meant)}
		case ours:
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

const prefix = "MIAOSHA_"

// serviceLink matches the variables that Kubernetes and Docker make for a service, such as miaosha-redis. No setting
// ends so.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// nearestSetting returns the setting that a name of a variable probably means, "" for none. What does not begin as ours
// do has to be very near: it may be another program's.
func nearestSetting(name string, known map[string]bool) (meant string) {
	// a byte order mark may stand before the first name of a file
	word := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(trim(name)))
	if known[word] {
		return word
	}
	own, ours := strings.CutPrefix(word, prefix)
	if ours && known[strings.TrimSuffix(word, "_FILE")] {
		return word
	}
	least := 2
	if ours {
		least = min(3, len(own)/3) + 1
	}
	for _, setting := range slices.Sorted(maps.Keys(known)) {
		d := distance(word, setting)
		if bare := strings.TrimPrefix(setting, prefix); ours {
			d = distance(own, bare)
			if len(own) > 2 && strings.HasPrefix(bare, own) {
				d = min(d, 1)
			}
		} else if bare != setting { // MIOASHA_RATE, MIAOSHARATE
			d--
		}
		if d < least {
			meant, least = setting, d
		}
	}
	return meant
}

// commandOf returns the command that the arguments before word name.
func commandOf(app *kong.Node, args []string, word string) *kong.Node {
	node := app
	for _, arg := range args {
		if arg == word {
			break
		}
		for _, child := range node.Children {
			if child.Name == arg {
				node = child
				break
			}
		}
	}
	return node
}

func commandNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// checkNames returns an error for the first of the names that is not in all.
func checkNames(flag string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("--%s: %w", flag, notKnown(name, all))
		}
	}
	return nil
}

func notKnown(name string, all []string) error {
	return fmt.Errorf("there is no %q%s The valid ones are %s", name, didYouMean(name, all), strings.Join(all, ", "))
}

// didYouMean ends a clause about a wrong name, with the name that was probably meant.
func didYouMean(word string, names []string) string {
	if name := closest(word, names); name != "" {
		return fmt.Sprintf(", did you mean %q?", name)
	}
	return "."
}

// closest returns the name that differs least from word, "" if all differ much.
func closest(word string, names []string) (best string) {
	least := min(2, len(word)/2) + 1
	for _, name := range names {
		d := distance(word, name)
		if len(word) > 1 && strings.HasPrefix(name, word) {
			d = min(d, 1)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters have to be added, removed or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
