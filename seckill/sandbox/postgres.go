package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresName is the name of the superuser and of the database.
const postgresName = "miaosha"

// readyLimit bounds the wait for a server's first reply. It is long because a server may first have
// to recover from a crash or to read a large journal.
const readyLimit = time.Minute

// startPostgres runs the Postgres of the data folder and returns its URL and version when it
// answers. It listens on TCP on loopback, on a free port and with a password. psql and other
// processes can use that URL unchanged, and it works on every system. The path of a Unix socket may
// be 107 bytes long at most.
func (o *owner) startPostgres(ctx context.Context) (dsn, version string, err error) {
	if os.Geteuid() == 0 && !o.place.account.set {
		return "", "", errors.New(
			"start Postgres: it refuses to run as root, and there is no user postgres or nobody that could run it: run as another user, or set DATABASE_URL")
	}
	bin, err := o.findPostgres(ctx)
	if err != nil {
		return "", "", err
	}
	data := o.dataOf(bin)
	if !initialised(data) {
		if err := o.initdb(ctx, bin, data); err != nil {
			return "", "", err
		}
	}
	more := ""
	if o.cfg.Throwaway {
		more = throwaway
	}
	if err := o.configure(data, more); err != nil {
		return "", "", fmt.Errorf("configure Postgres: %w", err)
	}
	dsn, err = o.onFreePort("postgres", func(port int, log *serverLog) (string, error) {
		return o.runPostgres(ctx, bin, data, port, log)
	})
	if err != nil {
		return "", "", fmt.Errorf("start Postgres %s: %w", bin.version, err)
	}
	return dsn, bin.version, nil
}

var errPortTaken = errors.New("could not bind a port")

// onFreePort runs the server of this name on a free port and returns its URL. Another process may
// take the port after freePort and before the server binds it. Then another port is tried.
func (o *owner) onFreePort(name string, run func(port int, log *serverLog) (string, error)) (string, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return "", err
		}
		log, err := openLog(filepath.Join(o.cfg.DataDir, name+logSuffix))
		if err != nil {
			return "", err
		}
		at, err := run(port, log)
		if try == 5 || !errors.Is(err, errPortTaken) {
			return at, err
		}
	}
}

func (o *owner) runPostgres(ctx context.Context, bin programs, data string, port int, log *serverLog) (string, error) {
	c, err := launch(program{
		name: "postgres",
		command: func() *exec.Cmd {
			cmd := exec.Command(bin.path("postgres"), "-D", data, "-p", strconv.Itoa(port))
			cmd.Dir, cmd.Env = o.place.home, serverEnv()
			return cmd
		},
		account:     o.place.account,
		serversLock: o.serversLock,
		stopSteps:   postgresStopSteps(bin.dir, data),
		deathSignal: postgresDeathSignal,
		output:      log.file,
		log:         o.cfg.Log,
	})
	if err != nil {
		return "", err
	}
	at := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(postgresName, derive(o.secret, "postgres")),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	err = ready(ctx, c, func(ctx context.Context) error { return pingPostgres(ctx, at.String()) })
	if err == nil {
		err = createDatabase(ctx, at.String())
	}
	if err != nil {
		c.close()
		return "", log.explain(err, "FATAL:", "could not bind")
	}
	c.keep()
	o.postgres = c
	at.Path = "/" + postgresName
	return at.String(), nil
}

// ready waits until ping succeeds. It gives up when the child ends, on a wrong password, on an environment
// that makes our address invalid, or at readyLimit.
func ready(ctx context.Context, c *child, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("no answer for %v", readyLimit))
	defer cancel()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if failed, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(failed.Code, "28") {
			return errors.New("its password is not the one in the data folder: run `miaosha reset`")
		}
		if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok { // our own address is right
			return fmt.Errorf(
				"a variable of the environment that begins with PG, or a file in ~/.postgresql, is in the way: %w", err)
		}
		select {
		case <-c.done:
			return errors.New("it ended at once")
		default:
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pingPostgres connects once and disconnects.
func pingPostgres(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

// createDatabase creates the shop's database if it does not exist.
func createDatabase(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "create database "+postgresName)
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok && failed.Code == "42P04" { // duplicate_database
		return nil
	}
	return err
}

// The ports that freePort tries lie below those that systems use for outgoing connections: one of
// those could take the port while its server is being started again.
const lowestPort, ports = 15000, 17000

var (
	beginAt    = rand.Uint32N(ports) // two processes seldom try the same ports
	portsTried atomic.Uint32
)

// freePort returns a port of 127.0.0.1 that is free at this moment. In one process it returns each
// port once before it returns one again: the server of the former call may not have bound its port yet.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := lowestPort + int((beginAt+portsTried.Add(1))%ports)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
