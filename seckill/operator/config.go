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
	"github.com/prometheus/client_golang/prometheus"

	"miaosha/seckill/sandbox"
)

// PrintSettings prints the effective settings, one on each line, with secrets and passwords masked.
func (env Env) PrintSettings(parsed *kong.Context) error {
	if err := env.Backend.RequireStores(); err != nil { // no shop has these
		return err
	}
	cfg := env.Backend.Sandbox()
	cfg.Postgres = true // so that Validate sets the folder even if both stores are given
	if err := cfg.Validate(); err != nil {
		return err
	}
	defaults := map[string]string{"data-dir": cfg.DataDir, "redis-url": "(the sandbox's)"}
	if env.Backend.Sandboxed() {
		defaults["database-url"], defaults["secret"] = "(the sandbox's)", "(the sandbox's)"
	}
	for _, flag := range parsed.Flags() {
		if flag.Name == "help" {
			continue
		}
		value := fmt.Sprint(parsed.FlagValue(flag))
		switch {
		case value == "" && defaults[flag.Name] != "":
			value = defaults[flag.Name]
		case value == "", value == "[]":
			value = "(not set)"
		case strings.HasSuffix(flag.Name, "-url"):
			value = maskURLs(value)
		case isSecret(flag.Name):
			value = "****"
		}
		if _, err := fmt.Fprintf(env.Out, "%-18s %s\n", flag.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// maskURLs masks the passwords in a list of URLs. It masks a URL that it cannot parse completely.
func maskURLs(list string) string {
	urls := strings.Split(list, ",")
	for i, raw := range urls {
		u, err := url.Parse(strings.TrimSpace(raw))
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

// Reset deletes the data of the sandbox.
type Reset struct {
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

// Run asks for confirmation unless Yes is set.
func (r Reset) Run(ctx context.Context, env Env) error {
	cfg := env.Backend.Sandbox()
	cfg.Log = env.Log
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := sandbox.CheckReset(cfg); err != nil {
		return err
	}
	if !r.Yes {
		fmt.Fprintf(env.Out, "This deletes every user, sale and order of the sandbox in %s. Type yes: ", cfg.DataDir)
		line, _ := bufio.NewReader(env.In).ReadString('\n')
		if strings.TrimSpace(line) != "yes" {
			return fmt.Errorf("nothing was deleted")
		}
	}
	if err := sandbox.Reset(ctx, cfg); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Out, "the sandbox in %s is empty\n", cfg.DataDir)
	return err
}

// Version prints the version of this program.
type Version struct{}

// Run prints the version, the commit and the Go version.
func (Version) Run(env Env, version string) error {
	_, err := fmt.Fprintf(env.Out, "miaosha %s\ncommit  %s\ngo      %s %s/%s\n", version, commit(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
	return err
}

// commit returns the commit that this program was built of.
func commit() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// BuildInfo returns the metric that names the version of this program.
func BuildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_build_info",
		Help:        "Always 1; its labels are the version, the commit and the Go of this process.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit(), "go": runtime.Version()}},
		func() float64 { return 1 })
}
