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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Name of the superuser and of the database.
const postgresName = "miaosha"

// readyLimit bounds the wait for a server's first answer. It is long because recovery after a crash, or the reading of a
// large journal, is part of it.
const readyLimit = time.Minute

// startPostgres runs the Postgres of the data folder and returns its URL and version when it answers. The way in is TCP on
// loopback, on a free port and with a password: psql and other processes can use the URL as it is, it works on every
// system, and a Unix socket's path may be 107 bytes long at most.
func (o *owner) startPostgres(ctx context.Context) (dsn, version string, err error) {
	if os.Geteuid() == 0 && !o.place.as.set {
		return "", "", errors.New("start Postgres: it refuses to run as root, and there is no user postgres or nobody to lend it: run as another user, or set DATABASE_URL")
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
	if err := o.configure(data); err != nil {
		return "", "", fmt.Errorf("configure Postgres: %w", err)
	}
	// Somebody else may take the port between our look and Postgres's bind: then another one.
	for range 5 {
		dsn, err = o.runPostgres(ctx, bin, data)
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("start Postgres %s: %w", bin.version, err)
	}
	return dsn, bin.version, nil
}

var errPortTaken = errors.New("could not bind a port")

func (o *owner) runPostgres(ctx context.Context, bin programs, data string) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	log, err := openLog(filepath.Join(o.cfg.DataDir, "postgres"+logSuffix))
	if err != nil {
		return "", err
	}
	c, err := launch(program{
		name: "postgres",
		command: func() *exec.Cmd {
			cmd := exec.Command(bin.path("postgres"), "-D", data, "-p", strconv.Itoa(port))
			cmd.Dir, cmd.Env = o.place.home, cleanEnv()
			return cmd
		},
		as:     o.place.as,
		bond:   o.bond,
		stops:  postgresStops(bin.dir, data),
		dies:   postgresDies,
		output: log.file,
		log:    o.cfg.Log,
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

// ready waits until ping succeeds. It gives up when the child ends, at an error that waiting doesn't mend, or at the limit.
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

// pingPostgres connects once and leaves.
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

// createDatabase makes the shop's database if it isn't there yet.
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

// freePort returns a port of 127.0.0.1 that nobody listens on, just now. It lies below those that systems give to outgoing
// connections: one of them could sit on the port while its server is started again.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + rand.IntN(17000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
