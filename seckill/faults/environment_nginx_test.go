//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"miaosha/seckill/sandbox"
)

// behindNginx has three shops behind nginx.
func behindNginx() setup {
	return setup{shops: 3, nginx: true, env: []string{"MIAOSHA_TRUSTED_PROXIES=127.0.0.1/32", "MIAOSHA_CASHIER=sandbox"}}
}

// Nginx is an nginx with the configuration of deploy/nginx.conf: only its addresses and paths are others.
type Nginx struct {
	addr, dir string
	*process
}

// newNginx starts nginx in front of servers, with its files in dir.
func newNginx(dir string, servers []string) (*Nginx, error) {
	port, err := sandbox.FreePort()
	if err != nil {
		return nil, err
	}
	n := &Nginx{addr: fmt.Sprintf("127.0.0.1:%d", port), dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sample, err := os.ReadFile("../../deploy/nginx.conf")
	if err != nil {
		return nil, err
	}
	conf, err := n.place(string(sample), servers)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		return nil, err
	}
	return n, n.Start()
}

var serverLine = regexp.MustCompile(`(?m)^ +server 10\.0\.0\.\d+:8080( .+;)\n`)

// place returns the sample with the addresses and paths of this nginx.
func (n *Nginx) place(conf string, servers []string) (string, error) {
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "\n    %s_temp_path %s/%s;", kind, n.dir, kind)
	}
	conf = strings.ReplaceAll(conf, "error_log /var/log/nginx/", "error_log "+n.dir+"/")
	for _, r := range [][2]string{
		{"pid /run/", "pid " + n.dir + "/"},
		{"access_log /var/log/nginx/", "access_log " + n.dir + "/"},
		{"http {", "http {" + temp.String()},
		{"listen 80;", "listen " + n.addr + ";"},
	} {
		if strings.Count(conf, r[0]) != 1 {
			return "", fmt.Errorf("deploy/nginx.conf has %q %d times", r[0], strings.Count(conf, r[0]))
		}
		conf = strings.Replace(conf, r[0], r[1], 1)
	}
	lines := serverLine.FindAllStringSubmatch(conf, -1)
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

// Start starts nginx and waits until it accepts connections.
func (n *Nginx) Start() (err error) {
	program, err := findProgram("nginx")
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", filepath.Join(n.dir, "error.log"), "-g", "daemon off;")
	// After a SIGKILL the workers would go on: they have no parent's death signal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if n.process, err = startProcess(cmd); err != nil {
		return err
	}
	err = waitReady(n.process, "nginx", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, n.errors())
	}
	return nil
}

// Kill sends SIGKILL to nginx and its workers, and waits for the exit of all: the workers are the suite's own then
// (ownOrphans).
func (n *Nginx) Kill() {
	group := -n.cmd.Process.Pid
	syscall.Kill(group, syscall.SIGKILL)
	<-n.done
	for {
		if _, err := syscall.Wait4(group, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

func (n *Nginx) URL() string { return "http://" + n.addr }

// errors returns the error log.
func (n *Nginx) errors() string {
	log, err := os.ReadFile(filepath.Join(n.dir, "error.log"))
	if err != nil {
		return err.Error()
	}
	return string(log)
}

var clientAddresses atomic.Uint32

// manyAddresses lets each new connection come from another address, as those of a crowd do: nginx has limits per address.
func manyAddresses() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 2000, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		i := clientAddresses.Add(1)
		d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}}
		return d.DialContext(ctx, network, addr)
	}}
}

// openNginx starts nginx in front of all shops.
func (env *Environment) openNginx() (err error) {
	var servers []string
	for _, s := range env.Shops {
		servers = append(servers, s.addr)
	}
	env.Nginx, err = newNginx(filepath.Join(env.dir, "nginx"), servers)
	return err
}
