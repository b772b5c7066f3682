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
	"sync/atomic"
	"syscall"
	"time"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
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
	conf, err := sandboxtest.PlaceNginx(string(sample), dir, []string{n.addr}, servers)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		return nil, err
	}
	return n, n.Start()
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
