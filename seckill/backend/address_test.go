package backend

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

const longSecret = "a secret of thirty-two bytes, at least"

// refused opens stores with a spoilt address and returns the error.
func refused(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Secret, cfg.Pools, cfg.ReadMaxLag = longSecret, Pools{1, 1, 1, 1, 1, 1}, time.Second
	s, err := Open(t.Context(), cfg, "", slog.New(slog.DiscardHandler))
	if err == nil {
		s.Close()
		return ""
	}
	return err.Error()
}

// However an address with a password is spoilt, the error names the setting, is one line and has no part of the password.
func TestNoPartOfAPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	const password = "S3cr#t%@/?x"
	escaped := url.QueryEscape(password)
	good := map[string]string{"--database-url (DATABASE_URL)": sandboxtest.DatabaseURL(t), "--redis-url (REDIS_URL)": sandboxtest.RedisURL(t)}
	for setting, wrong := range map[string]func(*Config, string){
		"--database-url (DATABASE_URL)":           func(c *Config, at string) { c.DatabaseURL = at },
		"--read-database-url (READ_DATABASE_URL)": func(c *Config, at string) { c.ReadDatabaseURL = at },
		"--redis-url (REDIS_URL)":                 func(c *Config, at string) { c.RedisURL = at },
		"--session-redis-url (SESSION_REDIS_URL)": func(c *Config, at string) { c.SessionRedisURL = at },
	} {
		scheme, reached := "postgres", good["--database-url (DATABASE_URL)"]
		if strings.Contains(setting, "REDIS") {
			scheme, reached = "redis", good["--redis-url (REDIS_URL)"]
		}
		u, err := url.Parse(reached)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, host := range []string{u.Host, "127.0.0.1:1", "nowhere.invalid:5", ""} {
			for _, p := range []string{password, escaped, "12#" + password, "12?" + password, "12/" + password, "12,x" + password, "a@" + password, "%zz" + escaped, password[:4], "S3cr,t%23"} {
				for _, form := range []string{"me:P@H/0", ":P@H/0", "P@H/0", "P", "P/0", "P:1/0", "me:P", "H/P", "H/0?P", "H/0?x=P", "H/0?password=P", "H/0#P", "me:P@", "@P", "[P]:1/0", "me:P@H:P/0", "me:P@H/0,S://P"} {
					at := strings.NewReplacer("P", p, "H", host, "S", scheme).Replace(form)
					all = append(all, scheme+"://"+at, at, "http://"+at, scheme+":/"+at, scheme+"s://"+at, "P"+"://"+at)
				}
			}
		}
		n := 0
		for _, at := range all {
			cfg := Config{DatabaseURL: good["--database-url (DATABASE_URL)"], RedisURL: good["--redis-url (REDIS_URL)"]}
			// Each would be dialed: so only the form is looked at, and what a server or a resolver would say of it.
			wrong(&cfg, at)
			var text string
			if scheme == "redis" {
				if _, err := redisOptions(at); err != nil {
					text = err.Error()
				}
			} else if _, err := parsePostgres(at); err != nil {
				text = err.Error()
			}
			if text == "" {
				text = hide(`lookup S3cr#t%@/?x: no such host; password authentication failed for user "`+password+`" `+escaped, at)
				if !strings.Contains(at, escaped) || !strings.Contains(at, "@") {
					continue // a password that is none
				}
			} else {
				n++
			}
			for i := range len(password) - 2 {
				if part := password[i : i+3]; strings.Contains(text, part) {
					t.Errorf("%s=%q: the error has %q of the password: %s", setting, at, part, text)
					break
				}
			}
			if strings.ContainsAny(text, "\r\n") {
				t.Errorf("%q: more than one line: %q", at, text)
			}
		}
		if n < 100 {
			t.Errorf("%s: only %d addresses are malformed", setting, n)
		}
		// Some of them through the whole of it.
		for _, at := range []string{scheme + "://me:" + escaped + "@" + u.Host + "/0", scheme + "://" + escaped + "@127.0.0.1:1/0", scheme + "://me:" + password + "@" + u.Host,
			scheme + "://me:12#" + password + "@" + u.Host} {
			cfg := Config{DatabaseURL: good["--database-url (DATABASE_URL)"], RedisURL: good["--redis-url (REDIS_URL)"]}
			wrong(&cfg, at)
			text := refused(t, cfg)
			if text == "" && strings.Contains(setting, "READ_") {
				continue // a standby that is down is no error
			}
			if !strings.HasPrefix(text, setting+": ") || strings.Contains(text, "S3c") || strings.ContainsAny(text, "\r\n") {
				t.Errorf("%q: %q", at, text)
			}
		}
	}
}

// certificate returns a TLS configuration of a server whose certificate no one has signed.
func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
}

// Why an address is not right is said, with the way out.
func TestTheCauseIsSaid(t *testing.T) {
	t.Parallel()
	database, plain := sandboxtest.DatabaseURL(t), miniredis.RunT(t)
	secured, err := miniredis.RunTLS(certificate(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secured.Close)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	me := "postgres://" + u.User.String() + "@"
	real, node := sandboxtest.StartRedis(t), sandboxtest.StartRedis(t, "--cluster-enabled", "yes")
	root := redis.NewClient(&redis.Options{Addr: real})
	defer root.Close()
	if err := root.Do(t.Context(), "ACL", "SETUSER", "noselect", "on", ">x", "~*", "+@all", "-select").Err(); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "none.crt")
	const db, rdb = "--database-url (DATABASE_URL): ", "--redis-url (REDIS_URL): "
	for _, test := range []struct{ database, redis, want, also string }{
		{"postgres://me:pa#ss@h/db", "", db + "not a postgres:// address: a character of the user or the password has to be percent-encoded", "# as %23"},
		{"postgres://me:pa%ss@h/db", "", db + "not a postgres:// address: a character of the user or the password", "% as %25"},
		{"postgres://me:pa@ss@h/db", "", db + "not a postgres:// address: a character of the user or the password", "@ as %40"},
		{"postgres://me:12?ss@h/db", "", db + "not a postgres:// address: a character of the user or the password", ""},
		{"postgres://me:12/ss@h/db", "", db + "not a postgres:// address: a character of the user or the password", ""},
		{"\ufeffpostgres://me:x@h/db", "", db + "not a postgres:// address: it begins with a byte order mark", ""},
		{"postgres://me:x@h/db\n", "", db + "not a postgres:// address: it begins or ends with a blank", ""},
		{"mysql://me:x@h/db", "", db + "not a postgres:// address: it begins with mysql://", ""},
		{me + "127.0.0.1:1/db", "", db + "can't reach Postgres at 127.0.0.1:1: ", "connection refused"},
		{me + "nowhere.invalid/db", "", db + "can't reach Postgres at nowhere.invalid:5432: ", "lookup nowhere.invalid"},
		{me + u.Host + u.Path + "?sslmode=require", "", db + "can't reach Postgres at ", "server refused TLS connection: set sslmode=disable"},
		{me + u.Host + u.Path + "?sslmode=verify-full&sslrootcert=" + missing, "", db + "not a postgres:// address: open " + missing, "no such file"},
		{me + u.Host + u.Path + "?sslmode=yes", "", db + "not a postgres:// address: sslmode is invalid", ""},
		{me + u.Host + u.Path + "?connect_timeout=x", "", db + "not a postgres:// address: invalid connect_timeout", ""},
		{database, "redis://:pa#ss@h", rdb + "not a redis://", "percent-encoded"},
		{database, "redis://me:12#ss@h", rdb + "not a redis://", "percent-encoded"},
		{database, "redis://me:pa,ss@h", rdb + "not a redis://", "a comma as %2C"},
		{database, "\ufeffredis://h", rdb + "not a redis://", "a byte order mark"},
		{database, "http://h", rdb + "not a redis://", "it begins with http://"},
		{database, "redis://h/one", rdb + "not a redis://", "its database is not a number"},
		{database, "redis://h:port", rdb + "not a redis://", "its port is not a number"},
		{database, "redis://h?read_timeout=5s", rdb + "read_timeout in it is no word of this shop", ""},
		{database, "redis://h?skip_verify=true", rdb + "not a redis:// address: skip_verify is for rediss:// alone", ""},
		{database, "redis://a/1,redis://b/1", rdb + "a Cluster has no other database than 0", ""},
		{database, "redis://:x@a,redis://:y@b", rdb + "its addresses differ", ""},
		{database, "redis://" + real + "/77", rdb + "this Redis has no database of this number", ""},
		{database, "redis://noselect:x@" + real + "/1", rdb + "the user in it may not run SELECT", "deploy/README.md"},
		{database, "redis://" + node, rdb + "this Redis is a node of a Cluster", "commas"},
		{database, "redis://" + node + "/1", rdb + "this Redis is a node of a Cluster", "no other database than 0"},
		{database, "redis://127.0.0.1:1", rdb + "can't reach Redis: ", "connection refused"},
		{database, "redis://nowhere.invalid", rdb + "can't reach Redis: ", "lookup nowhere.invalid"},
		{database, "rediss://" + plain.Addr(), rdb + "can't reach Redis: ", "use redis:// instead of rediss://"},
		{database, "rediss://" + secured.Addr(), rdb + "can't reach Redis: ", "SSL_CERT_FILE"},
		{database, "redis://" + secured.Addr(), rdb + "can't reach Redis: ", "use rediss:// instead of redis://"},
		{database, "unix:///nowhere/redis.sock", rdb + "can't reach Redis: ", "no such file"},
	} {
		cfg := Config{DatabaseURL: test.database, RedisURL: test.redis}
		if test.redis == "" {
			cfg.SandboxRuns = "redis" // which does not start before the address is checked
		}
		got := refused(t, cfg)
		if !strings.HasPrefix(got, test.want) || !strings.Contains(got, test.also) || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%s %s: %q, want %q and %q", test.database, test.redis, got, test.want, test.also)
		}
	}
}

// Sessions are where the address says, for every form of it that go-redis knows.
func TestOneReadingOfAnAddress(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	for at, want := range map[string]struct {
		addr, user, password string
		db                   int
		tls, skip            bool
	}{
		"redis://h?db=3":                        {"h:6379", "", "", 3, false, false},
		"redis://h/3":                           {"h:6379", "", "", 3, false, false},
		" redis://h/3\n":                        {"h:6379", "", "", 3, false, false},
		"redis://me:p%23%25%40@h:1":             {"h:1", "me", "p#%@", 0, false, false},
		"rediss://h:1/2?skip_verify=true":       {"h:1", "", "", 2, true, true},
		"unix://me:x@" + socket + "?db=4":       {socket, "me", "x", 4, false, false},
		"redis://[::1]":                         {"[::1]:6379", "", "", 0, false, false},
		"redis+sentinel://h?master_name=m&db=5": {"h:26379", "", "", 5, false, false},
	} {
		o, err := redisOptions(at)
		if err != nil {
			t.Errorf("%q: %v", at, err)
			continue
		}
		if len(o.Addrs) != 1 || o.Addrs[0] != want.addr || o.Username != want.user || o.Password != want.password || o.DB != want.db || (o.TLSConfig != nil) != want.tls ||
			want.tls && o.TLSConfig.InsecureSkipVerify != want.skip {
			t.Errorf("%q: %+v", at, o)
		}
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("a socket was made")
	}
}
