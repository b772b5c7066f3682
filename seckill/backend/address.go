package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const encoded = "a character of the user or the password has to be percent-encoded: # as %23, % as %25, " +
	"@ as %40, / as %2F, ? as %3F, : as %3A, a comma as %2C"

var (
	// keywordPassword matches the passwords of an address in the form of libpq: host=... password=...
	keywordPassword = regexp.MustCompile(`password\s*=\s*('(?:[^'\\]|\\.)*'|\S+)`)

	plainWord = regexp.MustCompile(`^[a-z_]+$`)

	// foreign are the schemes that people confuse with ours. No other is printed: it may be a part of a password.
	foreign = []string{"http", "https", "tcp", "mysql", "mariadb", "mongodb", "sqlite", "amqp", "memcached",
		"valkey", "valkeys",
		"postgres", "postgresql", "redis", "rediss", "unix"}
)

// malformed says what is wrong with the form of an address, "" if nothing is. It returns no part of the address: one
// that is cut at the wrong place has a part of the password for its host or port. It also finds addresses that parse
// and that no one can mean, such as redis://me:12#3@host.
func malformed(at string, schemes ...string) string {
	scheme, rest, found := strings.Cut(at, "://")
	switch {
	case strings.HasPrefix(at, "\ufeff"):
		return "it begins with a byte order mark, which editors of text add: save it without"
	case strings.TrimSpace(at) != at:
		return "it begins or ends with a blank or a new line"
	case !found && strings.Contains(at, "@"): // the second part of a password with a comma, perhaps
		return "it does not begin with " + schemes[0] + "://, or " + encoded
	case !found:
		return "it does not begin with " + schemes[0] + "://"
	case !slices.Contains(schemes, scheme) && slices.Contains(foreign, scheme):
		return "it begins with " + scheme + "://"
	case !slices.Contains(schemes, scheme):
		return "it begins with another word than " + schemes[0] + "://"
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user := authority[:i]
		if _, err := url.PathUnescape(user); err != nil || strings.ContainsAny(user, "@[] \"<>\\^`{|}") {
			return encoded
		}
	}
	path, query, _ := strings.Cut(tail, "?")
	if strings.ContainsAny(tail, "#") || strings.Contains(path, "@") {
		return encoded
	}
	for _, part := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		withAt := strings.Contains(part, "@") && name != "user" && !strings.HasSuffix(name, "password") &&
			name != "sentinel_username"
		if _, err := url.QueryUnescape(part); err != nil || withAt || name != "" && !plainWord.MatchString(name) &&
			!strings.Contains(authority, "@") {
			return encoded
		}
	}
	if scheme == "unix" {
		return ""
	}
	for _, host := range strings.Split(authority[strings.LastIndex(authority, "@")+1:], ",") {
		u, err := url.Parse("x://" + host)
		if err != nil && strings.Contains(err.Error(), "invalid port") {
			return "its port is not a number, or " + encoded
		} else if err != nil || u.Port() != "" && len(u.Port()) > 5 {
			return "its host or port is malformed, or " + encoded
		}
	}
	return ""
}

// cause returns why a server could not be reached, on one line: the innermost errors, each once.
func cause(err error) string {
	var all []string
	var walk func(error)
	walk = func(err error) {
		text := ""
		switch e := err.(type) {
		case nil:
			return
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				walk(one)
			}
			return
		case *net.OpError:
			text = strings.TrimPrefix(e.Error(), "dial tcp: ")
		case *net.DNSError, *tls.CertificateVerificationError, x509.UnknownAuthorityError, x509.HostnameError:
			text = e.Error()
		default:
			if inner := errors.Unwrap(err); inner != nil {
				walk(inner)
				return
			}
			text = e.Error()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			text = "no reply in time"
		}
		if text = strings.Join(strings.Fields(text), " "); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	walk(err)
	return strings.Join(all, "; ")
}

// redisHint returns the way out of a connection to a Redis that failed, after a colon.
func redisHint(err error, secured bool) string {
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record), secured && (errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "connection reset by peer")):
		return ": if it speaks no TLS there, use redis:// instead of rediss://"
	case errors.As(err, &verify):
		return ": add the authority to those of the system (SSL_CERT_FILE names a file of them), " +
			"or add ?skip_verify=true to trust any certificate"
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "connection reset by peer"):
		return ": if it wants TLS, use rediss:// instead of redis://"
	}
	return ""
}

// postgresHint is redisHint for Postgres.
func postgresHint(err error) string {
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &verify):
		return ": name its authority with sslrootcert, or trust any certificate with sslmode=require"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return ": set sslmode=disable, or ssl = on in Postgres"
	}
	return ""
}

// whyNotPostgres returns what pgx says of an address with a good form, without any part of it except the names of
// files.
func whyNotPostgres(err error) string {
	var file *fs.PathError
	if errors.As(err, &file) {
		return file.Error()
	}
	for _, known := range []string{"sslmode is invalid", "invalid port", "invalid connect_timeout",
		"unknown target_session_attrs value", "invalid default_query_exec_mode",
		"invalid statement_cache_capacity", "invalid description_cache_capacity", "unable to add CA to cert pool",
		"unable to read sslkey", "unable to load cert",
		`both "sslcert" and "sslkey" are required`, "failed to read passfile", "failed to read service", "invalid min_protocol_version", "invalid pool_"} {
		if strings.Contains(err.Error(), known) {
			return known
		}
	}
	return "its form is wrong, or " + encoded
}

// hidden returns err without what may be a part of the password of an address: an error that a server or a resolver has
// sent may repeat what it was given, and a password may stand where it does not belong.
func hidden(err error, at string) error {
	text := hide(err.Error(), at)
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

func hide(text, at string) string {
	for _, part := range secrets(at) {
		text = strings.ReplaceAll(text, part, "***")
	}
	return text
}

// secrets returns the passwords of an address as they are written and as they are meant. Of a user without a password
// the name may be one.
func secrets(at string) (all []string) {
	add := func(raw string) {
		meant, err := url.PathUnescape(raw)
		for _, one := range []string{raw, meant} {
			if err == nil && len(one) >= 3 && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	for _, m := range keywordPassword.FindAllStringSubmatch(at, -1) {
		add(url.PathEscape(strings.Trim(m[1], "'")))
	}
	for _, one := range strings.Split(at, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			u = &url.URL{}
			if _, rest, found := strings.Cut(one, "://"); found {
				user, _, _ := strings.Cut(rest, "@")
				_, password, _ := strings.Cut(user, ":")
				add(password)
			}
		}
		if u.User != nil {
			raw := u.User.String()
			if _, password, has := strings.Cut(raw, ":"); has {
				add(password)
				password, _ := u.User.Password()
				add(url.PathEscape(password))
			} else if u.Query().Get("password") == "" &&
				!slices.Contains([]string{"postgres", "default"}, u.User.Username()) {
				add(raw)
			}
		}
		for name, values := range u.Query() {
			for _, v := range values {
				if strings.HasSuffix(name, "password") {
					add(url.PathEscape(v))
				}
			}
		}
	}
	return all
}
