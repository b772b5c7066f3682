package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Nginx runs an nginx with the configuration conf, that of deploy/nginx.conf, in front of servers. It returns the
// addresses at which it listens: one of IPv4 and, where the machine has IPv6, one of that. It ends with the test.
func Nginx(t testing.TB, conf string, servers ...string) (addrs []string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no nginx")
		}
		t.Skip("there is no nginx")
	}
	at, reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reserved.Close() })
	addrs = []string{at}
	_, port, _ := net.SplitHostPort(at)
	if l, err := net.Listen("tcp", "[::1]:"+port); err == nil {
		l.Close()
		addrs = append(addrs, "[::1]:"+port)
	}
	// its workers have an account of their own, which cannot enter t.TempDir
	dir, err := os.MkdirTemp("", "miaosha-nginx-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if conf, err = PlaceNginx(conf, dir, addrs, servers); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	var log SyncBuffer
	cmd := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e",
		filepath.Join(dir, "error.log"), "-g", "daemon off;")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // after a SIGKILL its workers would go on
		cmd.Wait()
		if errors, _ := os.ReadFile(filepath.Join(dir, "error.log")); t.Failed() {
			t.Logf("log of nginx:\n%s%s", &log, errors)
		}
	})
	Until(t, "nginx accepts connections", func() bool {
		conn, err := net.Dial("tcp", addrs[0])
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return addrs
}

var nginxServer = regexp.MustCompile(`(?m)^ +server 10\.0\.0\.\d+:8080( .+;)\n`)

// PlaceNginx returns the configuration with its files in dir, at these addresses, one of IPv4 and perhaps one of
// IPv6, and in front of these servers. All else stays.
func PlaceNginx(conf, dir string, addrs, servers []string) (string, error) {
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "\n    %s_temp_path %s/%s;", kind, dir, kind)
	}
	ipv6 := ""
	if len(addrs) > 1 {
		ipv6 = "listen " + addrs[1] + ";"
	}
	conf = strings.ReplaceAll(conf, "error_log /var/log/nginx/", "error_log "+dir+"/")
	for _, r := range [][2]string{
		{"pid /run/", "pid " + dir + "/"},
		{"access_log /var/log/nginx/", "access_log " + dir + "/"},
		{"http {", "http {" + temp.String()},
		{"listen 80;", "listen " + addrs[0] + ";"},
		{"listen [::]:80;", ipv6},
	} {
		if strings.Count(conf, r[0]) != 1 {
			return "", fmt.Errorf("deploy/nginx.conf has %q %d times", r[0], strings.Count(conf, r[0]))
		}
		conf = strings.Replace(conf, r[0], r[1], 1)
	}
	lines := nginxServer.FindAllStringSubmatch(conf, -1)
	if len(lines) != 4 || lines[0][1] != lines[1][1] || lines[2][1] != lines[3][1] {
		return "", fmt.Errorf("deploy/nginx.conf does not have two servers, and the same as backup: %q", lines)
	}
	for i, line := range lines {
		ours := ""
		if i%2 == 0 { // in place of both
			for _, at := range servers {
				ours += "        server " + at + line[1] + "\n"
			}
		}
		conf = strings.Replace(conf, line[0], ours, 1)
	}
	return conf, nil
}
