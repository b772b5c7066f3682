package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"miaosha/seckill/sandbox/sandboxtest"
)

// promtool runs promtool with text as its input. Without promtool it skips the test; in CI it fails the test.
func promtool(t *testing.T, text string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has no promtool, which Debian's package prometheus has")
		}
		t.Skip("this machine has no promtool")
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readAlerts(t *testing.T) (rules alertRules) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(deployFile(t, "alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

// Prometheus reads the alerts and its settings, and each alert fires in its case and is quiet in the other.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var cases struct {
		Tests []struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(deployFile(t, "alerts_test.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	for _, group := range readAlerts(t).Groups {
		for _, rule := range group.Rules {
			for _, says := range []string{" fires: ", " is quiet: "} {
				if !slices.ContainsFunc(cases.Tests, func(c struct{ Name string }) bool { return strings.HasPrefix(c.Name, rule.Alert+says) }) {
					t.Errorf("alerts_test.yaml has no case %s%s", rule.Alert, says)
				}
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary, description or severity", rule.Alert)
			}
		}
	}
	promtool(t, "", "check", "rules", "--lint-fatal", "../../deploy/alerts.yaml")
	promtool(t, "", "check", "config", "../../deploy/prometheus.yml")
	promtool(t, "", "test", "rules", "../../deploy/alerts_test.yaml")
}

// dashboardExprs returns the expressions of the dashboard, as Grafana sends them.
func dashboardExprs(t *testing.T) (exprs []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployFile(t, "grafana-dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs = append(exprs, strings.NewReplacer("$__rate_interval", "1m", "$job", "miaosha").Replace(target.Expr))
		}
	}
	return exprs
}

// metricFamily is a metric of a running shop.
type metricFamily struct {
	help, kind string
	labels     []string
}

var (
	helpLine    = regexp.MustCompile(`(?m)^# HELP (\S+) (.*)$`)
	typeLine    = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	metricLabel = regexp.MustCompile(`(\w+)="`)
	metricName  = regexp.MustCompile(`\b(?:miaosha|go|process)_\w+`)
	partOf      = regexp.MustCompile(`_(?:bucket|count|sum)$`)
	inQuotes    = regexp.MustCompile(`"[^"]*"`)
)

func readMetrics(text string) map[string]metricFamily {
	families := map[string]metricFamily{}
	for _, m := range helpLine.FindAllStringSubmatch(text, -1) {
		families[m[1]] = metricFamily{help: m[2]}
	}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		f := families[m[1]]
		f.kind = m[2]
		for _, sample := range regexp.MustCompile(`(?m)^`+m[1]+`(?:_bucket|_count)?\{(.*)\} `).FindAllStringSubmatch(text, -1) {
			for _, label := range metricLabel.FindAllStringSubmatch(sample[1], -1) {
				if label[1] != "le" && !slices.Contains(f.labels, label[1]) {
					f.labels = append(f.labels, label[1])
				}
			}
		}
		slices.Sort(f.labels)
		families[m[1]] = f
	}
	return families
}

// metricsAfterAPurchase returns what /metrics of a shop says that has sold a unit.
func metricsAfterAPurchase(t *testing.T) (text string) {
	t.Helper()
	env := append(sandboxtest.Stores(t), "MIAOSHA_OPS_ADDR=127.0.0.1:0", "MIAOSHA_CAPTCHA=off")
	s := sandboxtest.Open(t, env)
	sandboxtest.Buyers(t, env, 1, sandboxtest.Sale(t, env, 1))[0].At(func() string { return s.URL }).Order(t)
	ops := regexp.MustCompile(`metrics, health +(\S+)`).FindStringSubmatch(s.Say.String())
	if ops == nil {
		t.Fatalf("the shop does not say where its metrics are: %s", s.Say)
	}
	sandboxtest.Until(t, "the gauges of both stores are read", func() bool {
		text = string(sandboxtest.Call("GET", ops[1]+"/metrics", "", "").Raw)
		return strings.Count(text, "\nmiaosha_store_read_timestamp_seconds{") == 2
	})
	return text
}

// METRICS.md lists exactly the metrics of a running shop, and the alerts and the dashboard name no other.
func TestMetricsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	text := metricsAfterAPurchase(t)
	families := readMetrics(text)
	for where, exprs := range map[string][]string{"alerts.yaml": alertExprs(t), "grafana-dashboard.json": dashboardExprs(t)} {
		if len(exprs) < 10 {
			t.Errorf("%s has %d expressions", where, len(exprs))
		}
		for _, expr := range exprs {
			for _, name := range metricName.FindAllString(inQuotes.ReplaceAllString(expr, ""), -1) {
				if _, known := families[name]; !known && families[partOf.ReplaceAllString(name, "")].kind != "histogram" {
					t.Errorf("%s names %s, which the shop does not have", where, name)
				}
			}
		}
	}
	always, sometimes, _ := strings.Cut(deployFile(t, "METRICS.md"), "## Only at times")
	var want []string
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if f := families[name]; strings.HasPrefix(name, "miaosha_") {
			want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", name, f.kind, strings.Join(f.labels, ", "), f.help))
		}
	}
	row := regexp.MustCompile("(?m)^[|] `miaosha_.*$")
	if got := row.FindAllString(always, -1); !cmp.Equal(got, want) {
		t.Errorf("METRICS.md has other rows than the shop has metrics; these are right:\n%s\n\n%s", strings.Join(want, "\n"), cmp.Diff(want, got))
	}
	for _, line := range row.FindAllString(sometimes, -1) {
		name := strings.Split(line, "`")[1]
		if _, there := families[name]; there {
			t.Errorf("METRICS.md says that %s is there only at times, and it always is", name)
		}
		if exec.Command("git", "-C", "../..", "grep", "-q", `"`+name+`"`, "--", "*.go", ":!*_test.go").Run() != nil {
			t.Errorf("METRICS.md has %s, which no source has", name)
		}
	}
	promtool(t, text, "check", "metrics")
}

func alertExprs(t *testing.T) (exprs []string) {
	for _, group := range readAlerts(t).Groups {
		for _, rule := range group.Rules {
			exprs = append(exprs, rule.Expr)
		}
	}
	return exprs
}

// Prometheus understands every expression of the dashboard.
func TestDashboardExpressions(t *testing.T) {
	t.Parallel()
	type rule struct{ Record, Expr string }
	var rules []rule
	for i, expr := range dashboardExprs(t) {
		rules = append(rules, rule{fmt.Sprintf("panel:%d", i), expr})
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", "--lint-fatal", file)
}
