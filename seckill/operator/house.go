package operator

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"miaosha/seckill/sandbox"
)

// PrintSettings prints every setting as it is in force, one a line. Secrets, and passwords in addresses, are masked.
func (d Desk) PrintSettings(parsed *kong.Context) error {
	own := d.Backend.Sandbox()
	own.Postgres = true // for its folder, also where both stores are given
	if err := own.Validate(); err != nil {
		return err
	}
	sandboxed := map[string]string{"data-dir": own.DataDir, "redis-url": "(the sandbox's)"}
	if d.Backend.Sandboxed() {
		sandboxed["database-url"], sandboxed["secret"] = "(the sandbox's)", "(the sandbox's)"
	}
	for _, flag := range parsed.Flags() {
		if flag.Name == "help" {
			continue
		}
		value := fmt.Sprint(parsed.FlagValue(flag))
		switch {
		case value == "" && sandboxed[flag.Name] != "":
			value = sandboxed[flag.Name]
		case value == "", value == "[]":
			value = "(not set)"
		case strings.HasSuffix(flag.Name, "secret"), strings.HasSuffix(flag.Name, "salt"):
			value = "****"
		case strings.HasSuffix(flag.Name, "-url"):
			value = maskURLs(value)
		}
		if _, err := fmt.Fprintf(d.Out, "%-18s %s\n", flag.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// maskURLs hides the passwords in addresses; what can't be read is hidden whole.
func maskURLs(list string) string {
	urls := strings.Split(list, ",")
	for i, one := range urls {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme == "" {
			urls[i] = "****"
			continue
		}
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "****")
		}
		q := u.Query()
		for name := range q {
			if strings.Contains(name, "password") {
				q.Set(name, "****")
			}
		}
		u.RawQuery = q.Encode()
		urls[i] = strings.ReplaceAll(u.String(), "%2A%2A%2A%2A", "****")
	}
	return strings.Join(urls, ",")
}

// Reset empties the sandbox.
type Reset struct {
	Yes bool `short:"y" help:"Don't ask."`
}

// Run asks first, unless told not to.
func (r Reset) Run(ctx context.Context, d Desk) error {
	cfg := d.Backend.Sandbox()
	cfg.Log = d.Log
	if err := cfg.Validate(); err != nil {
		return err
	}
	if !r.Yes {
		fmt.Fprintf(d.Out, "This deletes every user, sale and order of the sandbox in %s. Type yes: ", cfg.DataDir)
		line, _ := bufio.NewReader(d.In).ReadString('\n')
		if strings.TrimSpace(line) != "yes" {
			return fmt.Errorf("nothing was deleted")
		}
	}
	if err := sandbox.Reset(ctx, cfg); err != nil {
		return err
	}
	_, err := fmt.Fprintf(d.Out, "the sandbox in %s is empty\n", cfg.DataDir)
	return err
}

// Version tells what this program is.
type Version struct{}

// Run prints version, commit and Go.
func (Version) Run(d Desk, version string) error {
	commit := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	_, err := fmt.Fprintf(d.Out, "miaosha %s\ncommit  %s\ngo      %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
