package operator

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"miaosha/seckill/sandbox/sandboxtest"
)

// longestStop is how long a process of the shop may take to end: web's proxyLimit and stopLimit, then the engine's drainLimit
// and stopLimit.
const longestStop = 20 * time.Second

// openFiles is what a process needs by default: --max-conns and as many as it keeps for itself.
const openFiles = 20_000 + 1024

func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	helpVariable   = regexp.MustCompile(`\$([A-Z_]+)`)
	deployVariable = regexp.MustCompile(`\b(?:MIAOSHA_[A-Z_]+|[A-Z_]*(?:DATABASE|REDIS)_URL[A-Z_]*)\b`)
)

// The files of deploy/ set no variable that the shop does not read.
func TestDeployFilesNameRealSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, args := range [][]string{{"--help"}, {"archive", "--help"}} {
		for _, m := range helpVariable.FindAllStringSubmatch(sandboxtest.MustCommand(t, os.Environ(), args...), -1) {
			known[m[1]] = true
		}
	}
	if !known["MIAOSHA_ADDR"] || !known["DATABASE_URL"] {
		t.Fatalf("the help names the variables %v", known)
	}
	for _, file := range []string{"Dockerfile", "compose.yaml", "miaosha.service", "README.md"} {
		names := deployVariable.FindAllString(deployFile(t, file), -1)
		if len(names) == 0 {
			t.Errorf("%s names no setting", file)
		}
		for _, name := range names {
			if !known[strings.TrimSuffix(name, "_FILE")] {
				t.Errorf("%s has %s, which is no setting", file, name)
			}
		}
	}
}

// The image is built of pinned versions by a command that go accepts, and runs as no root.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := deployFile(t, "Dockerfile")
	images := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(images) != 2 {
		t.Fatalf("%d stages, want 2", len(images))
	}
	for _, m := range images {
		if !pinned.MatchString(m[1]) {
			t.Errorf("%s has no version", m[1])
		}
	}
	needs := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(deployFile(t, "../go.mod"))
	if needs == nil || !strings.HasPrefix(images[0][1], "golang:"+needs[1]+".") {
		t.Errorf("%s builds it, go.mod needs %v", images[0][1], needs)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindStringSubmatch(text)
	if user == nil || user[1] == "0" {
		t.Errorf("it runs as %v", user)
	}
	ops := regexp.MustCompile(`MIAOSHA_OPS_ADDR=(\S+)`).FindStringSubmatch(text)
	if ops == nil || !regexp.MustCompile(`(?m)^HEALTHCHECK .*"http://`+ops[1]+`/readyz"\]$`).MatchString(text) {
		t.Errorf("its health is not asked at %v", ops)
	}
	build := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 go build (.*) \.$`).FindStringSubmatch(text)
	if build == nil {
		t.Fatal("it has no command that builds a static program")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "VERSION=test CGO_ENABLED=0 go build -n "+strings.ReplaceAll(build[1], "-o /miaosha", "-o "+dir+"/miaosha")+" .")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go build: %v: %s", err, out[max(0, len(out)-500):])
	}
}

var pinned = regexp.MustCompile(`^[a-z/.-]+:\d+\.\d+`)

type composeFile struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
		Secrets     []string
		Command     []string
		Healthcheck struct{ Test []string }
		Networks    []string
		Restart     string
		MemLimit    string        `yaml:"mem_limit"`
		StopGrace   time.Duration `yaml:"stop_grace_period"`
		ReadOnly    bool          `yaml:"read_only"`
		Ulimits     struct{ NoFile int }
	}
	Secrets  map[string]struct{ File string }
	Networks map[string]struct {
		Internal bool
		IPAM     yaml.Node
	}
}

// namedServers returns what the command of the container makes of nginx.conf.
func namedServers(t *testing.T, command []string) string {
	t.Helper()
	if len(command) != 3 || command[0] != "sh" || command[1] != "-c" {
		t.Fatalf("nginx runs %q", command)
	}
	edit, start, found := strings.Cut(command[2], " && exec ")
	if !found || start != "nginx -g 'daemon off;'" {
		t.Fatalf("nginx runs %q", command)
	}
	from, to := "../../deploy/nginx.conf", filepath.Join(t.TempDir(), "nginx.conf")
	edit = strings.NewReplacer("/etc/nginx/shop.conf", from, "/etc/nginx/nginx.conf", to).Replace(edit)
	if out, err := exec.Command("sh", "-c", edit).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", edit, err, out)
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var c composeFile
	if err := yaml.Unmarshal([]byte(deployFile(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	// nginx reaches the shop in a network that no store, and nothing outside, is in. What its addresses are is Docker's
	// choice.
	if c.Networks["front"].Internal != true || c.Networks["front"].IPAM.Kind != 0 || c.Networks["back"].IPAM.Kind != 0 || c.Networks["edge"].IPAM.Kind != 0 {
		t.Errorf("the networks are %+v", c.Networks)
	}
	for name, want := range map[string][]string{"nginx": {"edge", "front"}, "shop-1": {"front", "back"}, "shop-2": {"front", "back"}, "postgres": {"back"}, "redis": {"back"}} {
		if got := c.Services[name].Networks; !slices.Equal(got, want) {
			t.Errorf("%s is in the networks %v, want %v", name, got, want)
		}
	}
	nginx := namedServers(t, c.Services["nginx"].Command)
	for _, name := range []string{"shop-1", "shop-2"} {
		s := c.Services[name]
		if strings.Count(nginx, "server "+name+":8080 resolve ") != 2 || strings.Contains(nginx, "10.0.0.") || !strings.Contains(nginx, "http { resolver 127.0.0.11 ") {
			t.Errorf("the configuration of nginx has no server at %s that it asks for again:\n%s", name, nginx)
		}
		if s.Environment["MIAOSHA_TRUSTED_PROXIES"] != "attached" {
			t.Errorf("%s trusts %s", name, s.Environment["MIAOSHA_TRUSTED_PROXIES"])
		}
		if s.StopGrace <= longestStop || s.Ulimits.NoFile < openFiles || !s.ReadOnly {
			t.Errorf("%s has %v to stop, %d files, read_only is %v", name, s.StopGrace, s.Ulimits.NoFile, s.ReadOnly)
		}
		for _, variable := range []string{"DATABASE_URL_FILE", "REDIS_URL_FILE", "MIAOSHA_SECRET_FILE", "MIAOSHA_NOTIFY_SECRET_FILE"} {
			file, found := strings.CutPrefix(s.Environment[variable], "/run/secrets/")
			if !found || !slices.Contains(s.Secrets, file) {
				t.Errorf("%s: %s is %q, and its secrets are %v", name, variable, s.Environment[variable], s.Secrets)
			}
		}
	}
	for name, s := range c.Services {
		if s.Restart == "" || s.MemLimit == "" || name != "shop-1" && name != "shop-2" && !pinned.MatchString(s.Image) {
			t.Errorf("%s: restart %q, mem_limit %q, image %s", name, s.Restart, s.MemLimit, s.Image)
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s has the secret %s, which has no file", name, secret)
			}
		}
	}
	if len(c.Services["postgres"].Healthcheck.Test) == 0 || len(c.Services["redis"].Healthcheck.Test) == 0 {
		t.Error("a store has no check of its health")
	}
	checkRedisCommand(t, c.Services["redis"].Command)
}

// checkRedisCommand runs a Redis with the options of a command, and asks it for them.
func checkRedisCommand(t *testing.T, command []string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	if len(command) < 2 || command[1] != "/run/secrets/redis_conf" {
		t.Fatalf("redis runs %v", command)
	}
	dir := t.TempDir()
	socket, conf := filepath.Join(dir, "s"), filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("requirepass sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{conf}, append(command[2:], "--port", "0", "--unixsocket", socket, "--dir", dir)...)...)
	var log sandboxtest.SyncBuffer
	cmd.Stdout = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	ask := func(args ...string) string {
		out, _ := exec.Command("redis-cli", append([]string{"-s", socket, "--no-auth-warning", "-a", "sesame"}, args...)...).Output()
		return strings.Join(strings.Fields(string(out)), " ")
	}
	if !sandboxtest.Poll(func() bool { return ask("ping") == "PONG" }) {
		t.Fatalf("redis does not start with %v: %s", command, &log)
	}
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "maxmemory": "536870912"} {
		if got := ask("config", "get", name); got != name+" "+want {
			t.Errorf("redis has %s, want %s %s", got, name, want)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text := deployFile(t, "miaosha.service")
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s", key)
		}
		return m[1]
	}
	if d, err := time.ParseDuration(value("TimeoutStopSec")); err != nil || d <= longestStop {
		t.Errorf("TimeoutStopSec is %v, %v; the shop needs %v", d, err, longestStop)
	}
	if n, err := strconv.Atoi(value("LimitNOFILE")); err != nil || n < openFiles {
		t.Errorf("LimitNOFILE is %d, %v; want %d", n, err, openFiles)
	}
	if value("Restart") != "always" || value("NoNewPrivileges") != "yes" || value("ExecStart") != "/usr/local/bin/miaosha serve" {
		t.Error("Restart, NoNewPrivileges or ExecStart is another")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit := filepath.Join(t.TempDir(), "miaosha.service")
	if err := os.WriteFile(unit, []byte(strings.Replace(text, "/usr/local/bin/miaosha", sandboxtest.Binary(t), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
