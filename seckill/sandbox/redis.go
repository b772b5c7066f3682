package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const redisPID = "redis.pid"

// redisConf is the configuration of Redis. Every write is kept in the journal, and no key is
// evicted. Redis listens on TCP on loopback with a password, not on a Unix socket: one kind of URL
// works for every client and system (the session store's client knows no unix://), and a path would
// be limited to 107 bytes.
const redisConf = `bind 127.0.0.1
port %d
requirepass %s
protected-mode yes
daemonize no
dir %s
pidfile %s
databases %d
appendonly yes
appendfsync %s
save ""
maxmemory-policy noeviction
`

// startRedis runs the Redis of the data folder and returns its URL and kind when it answers.
func (o *owner) startRedis(ctx context.Context) (at, kind string, err error) {
	if o.cfg.RedisKind != Embedded {
		program, err := findRedis(ctx)
		switch {
		case err == nil:
			if err = o.checkData(ctx, program); err == nil {
				at, err = o.onFreePort("redis", func(port int, log *serverLog) (string, error) {
					return o.runRedis(ctx, program, port, log)
				})
			}
			if err != nil {
				return "", "", fmt.Errorf("start Redis: %w", err)
			}
			return at, Server, nil
		case o.cfg.RedisKind == Server:
			return "", "", fmt.Errorf(
				"start Redis: %w: install one (Debian: apt install redis-server, macOS: brew install redis), or set REDIS_URL",
				err)
		}
		if ctx.Err() != nil {
			// Postgres has failed meanwhile: err says nothing about Redis
			return "", "", fmt.Errorf("start Redis: %w", ctx.Err())
		}
		o.cfg.Log.Info("Redis runs inside this process: its data is lost when the process ends", "because", err)
	}
	at, o.stop, err = runEmbedded(derive(o.secret, "redis"))
	if err != nil {
		return "", "", fmt.Errorf("start the embedded Redis: %w", err)
	}
	return at, Embedded, nil
}

var redisVersion = regexp.MustCompile(`v=(\d+)\.(\d+)`)

// findRedis returns the path of a redis-server or valkey-server on PATH that is new enough for
// GETDEL.
func findRedis(ctx context.Context) (string, error) {
	none := errors.New("there is no redis-server or valkey-server on PATH")
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		major, minor, err := versionOfRedis(ctx, path)
		if err != nil {
			none = err
			continue
		}
		if major < 6 || major == 6 && minor < 2 {
			none = fmt.Errorf("%s is older than 6.2", path)
			continue
		}
		return path, nil
	}
	return "", none
}

func versionOfRedis(ctx context.Context, path string) (major, minor int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = serverEnv()
	text, err := cmd.Output()
	match := redisVersion.FindSubmatch(text)
	if err != nil || match == nil {
		return 0, 0, fmt.Errorf("%s does not print its version", path)
	}
	major, _ = strconv.Atoi(string(match[1]))
	minor, _ = strconv.Atoi(string(match[2]))
	return major, minor, nil
}

// checkData returns an error if a server is too old for the journal in the data folder. It would not see it, and
// start empty beside the Postgres that knows the rest.
func (o *owner) checkData(ctx context.Context, program string) error {
	journal := filepath.Join(o.cfg.DataDir, redisDir, "appendonlydir") // since Redis 7; before, a single file
	if _, err := os.Stat(journal); err != nil {
		return nil
	}
	if major, _, err := versionOfRedis(ctx, program); err != nil || major >= 7 {
		return err
	}
	return fmt.Errorf(
		"%s is older than the data in %s, which is of Redis 7 or newer: install a newer one, use another --data-dir, or delete the data (miaosha reset)",
		program, journal)
}

func (o *owner) runRedis(ctx context.Context, path string, port int, log *serverLog) (string, error) {
	dir := filepath.Join(o.cfg.DataDir, redisDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", errors.Join(err, log.file.Close())
	}
	databases, sync := 16, "everysec"
	if o.cfg.Throwaway {
		databases, sync = 4096, "no" // one for each test
	}
	password := derive(o.secret, "redis")
	text := fmt.Sprintf(redisConf, port, password, quote(dir), quote(filepath.Join(dir, redisPID)), databases, sync)
	c, err := launch(program{
		name: "redis",
		command: func() *exec.Cmd {
			// The configuration comes by standard input. Every user can read a command line. Redis
			// takes the path of a file for a pattern, and if no file matches, it starts with its
			// default settings.
			cmd := exec.Command(path, "-")
			cmd.Dir, cmd.Env, cmd.Stdin = dir, serverEnv(), strings.NewReader(text)
			return cmd
		},
		serversLock: o.serversLock,
		stopSteps:   redisStopSteps(),
		deathSignal: redisDeathSignal,
		output:      log.file,
		log:         o.cfg.Log,
	})
	if err != nil {
		return "", err
	}
	at := redisURL(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), password)
	if err := ready(ctx, c, func(ctx context.Context) error { return pingRedis(ctx, at) }); err != nil {
		c.close()
		return "", log.explain(err, "# ", "bind: ")
	}
	c.keep()
	o.redis = c
	return at, nil
}

func redisURL(addr, password string) string {
	return (&url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: addr, Path: "/0"}).String()
}

// quote writes a path as a Redis setting.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// pingRedis connects once and disconnects. It returns an error while the server reads its journal.
// It does not use the client library, which dials again and again and then writes to standard
// error.
func pingRedis(ctx context.Context, at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	password, _ := u.User.Password()
	if _, err := fmt.Fprintf(conn, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n*1\r\n$4\r\nPING\r\n", len(password),
		password); err != nil {
		return err
	}
	replies := bufio.NewReader(conn)
	for _, want := range []string{"+OK\r\n", "+PONG\r\n"} {
		if got, err := replies.ReadString('\n'); err != nil {
			return err
		} else if got != want {
			return fmt.Errorf("ping Redis: the reply is %q", got)
		}
	}
	return nil
}
