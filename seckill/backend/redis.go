package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkLimit bounds the check of a Redis, and each call of a command, which may wait longer than a
// buyer.
const checkLimit = 10 * time.Second

// openRedis connects to a Redis, a Cluster, or the master that sentinels name. It refuses one that evicts keys: a gate
// that loses tickets when memory is short no longer knows which buyers it has admitted.
func openRedis(ctx context.Context, at string, conns int, patient bool) (redis.UniversalClient, error) {
	opts, err := redisOptions(at)
	if err != nil {
		return nil, err
	}
	opts.PoolSize = conns
	slow := *opts // a Redis that is slow for a moment may be opened; a purchase would not wait for it
	slow.ReadTimeout, slow.WriteTimeout, slow.PoolTimeout = checkLimit, checkLimit, checkLimit
	first := newClient(&slow)
	defer first.Close()
	if err := checkRedis(ctx, first, opts.TLSConfig != nil); err != nil {
		return nil, hidden(err, at)
	}
	if patient {
		opts = &slow
	}
	return newClient(opts), nil
}

// nodesEvery is how old a client's knowledge of a Cluster's nodes may be. The client looks again automatically when a
// node says MOVED, but not when it is dead: by default it would call a dead master for a minute after its replica has
// taken over.
const nodesEvery = 300 * time.Millisecond

func newClient(opts *redis.UniversalOptions) redis.UniversalClient {
	if opts.MasterName != "" || len(opts.Addrs) == 1 {
		return redis.NewUniversalClient(opts)
	}
	cluster := opts.Cluster()
	cluster.ClusterStateReloadInterval = nodesEvery
	return redis.NewClusterClient(cluster)
}

// redisOptions parses the address of a Redis, or several with commas between: the nodes of a Cluster, or sentinels. The
// first has the user, the password and the rest; another may repeat them. Nothing else reads an address of a Redis.
func redisOptions(list string) (*redis.UniversalOptions, error) {
	u := &redis.UniversalOptions{
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		DialerRetries:         1, // the breaker must notice at once that Redis is down
		ReadTimeout:           300 * time.Millisecond,
		WriteTimeout:          300 * time.Millisecond,
		PoolTimeout:           300 * time.Millisecond,
		MaxRetries:            1, // every script is safe to run twice
		MinRetryBackoff:       time.Millisecond,
		MaxRetryBackoff:       8 * time.Millisecond,
	}
	sentinels := 0
	all := strings.Split(strings.TrimSpace(list), ",")
	for i, one := range all {
		if why := malformed(strings.TrimSpace(one), "redis", "rediss", "unix", "redis+sentinel"); why != "" {
			return nil, errors.New(
				"not a redis://, rediss://, unix:// or redis+sentinel:// address, or several with commas between: " +
					why)
		}
		one, query, sentinel := cutSentinel(strings.TrimSpace(one))
		o, err := redis.ParseURL(one)
		if err != nil {
			return nil, errors.New("not a redis:// address: " + whyNotRedis(err))
		}
		if name := tuned(one); name != "" {
			return nil, fmt.Errorf("%s in it is no word of this shop, which has limits of its own: leave it out", name)
		}
		if sentinel {
			sentinels++
		}
		u.Addrs = append(u.Addrs, o.Addr)
		if i == 0 {
			u.Username, u.Password, u.DB = o.Username, o.Password, o.DB
			u.TLSConfig, u.Protocol, u.ClientName = o.TLSConfig, o.Protocol, o.ClientName
			u.MasterName, u.SentinelUsername, u.SentinelPassword = query.Get("master_name"), query.Get(
				"sentinel_username"), query.Get("sentinel_password")
		} else if o.Username+o.Password != "" && (o.Username != u.Username || o.Password != u.Password) ||
			o.DB != 0 && o.DB != u.DB ||
			(o.TLSConfig == nil) != (u.TLSConfig == nil) {
			return nil, errors.New(
				"its addresses differ in the user, the password, the database or in TLS: the first one counts, so leave them out in the others")
		}
	}
	if sentinels > 0 && (sentinels < len(u.Addrs) || u.MasterName == "") {
		return nil, errors.New("a redis+sentinel:// address needs ?master_name=, and sentinels beside it only")
	}
	if sentinels == 0 && len(u.Addrs) > 1 && u.DB != 0 {
		return nil, errors.New("a Cluster has no other database than 0")
	}
	u.Dialer = quickDialer(redis.NewDialer(&redis.Options{DialTimeout: u.DialTimeout, TLSConfig: u.TLSConfig}))
	return u, nil
}

// cutSentinel reports whether an address is that of a sentinel. It returns the address as that of a Redis, and the
// query.
func cutSentinel(at string) (redisAt string, query url.Values, sentinel bool) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "redis+sentinel" {
		return at, nil, false
	}
	if u.Port() == "" {
		u.Host += ":26379"
	}
	query = u.Query()
	rest := u.Query()
	for _, name := range []string{"master_name", "sentinel_username", "sentinel_password"} {
		rest.Del(name)
	}
	u.Scheme, u.RawQuery = "redis", rest.Encode()
	return u.String(), query, true
}

// tuned returns the first word of an address that would change the limits which a purchase depends on, "" if there is
// none.
func tuned(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	for _, part := range strings.Split(u.RawQuery, "&") {
		switch name, _, _ := strings.Cut(part, "="); name {
		case "", "db", "skip_verify", "protocol", "client_name":
		default:
			return name
		}
	}
	return ""
}

// whyNotRedis returns what go-redis says of an address with a good form.
func whyNotRedis(err error) string {
	text := strings.TrimPrefix(err.Error(), "redis: ")
	switch {
	case strings.HasPrefix(text, "unexpected option: skip_verify"):
		return "skip_verify is for rediss:// alone"
	case strings.HasPrefix(text, "unexpected option"):
		return text // a name of [a-z_]: see malformed
	case strings.HasPrefix(text, "invalid database number"):
		return "its database is not a number"
	case strings.HasPrefix(text, "invalid URL path"):
		return "its path is more than the number of a database"
	case strings.HasPrefix(text, "empty unix socket path"):
		return "it has no path of a socket"
	case strings.HasPrefix(text, "invalid skip_verify"):
		return "skip_verify is true or false"
	case strings.HasPrefix(text, "invalid protocol"):
		return "protocol is 2 or 3"
	}
	return "its form is wrong"
}

func checkRedis(ctx context.Context, rdb redis.UniversalClient, secured bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		switch text := err.Error(); {
		case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"),
			strings.Contains(text, "invalid password"),
			strings.Contains(text, "invalid username-password"),
			strings.Contains(text, "without any password configured"):
			return errors.New(
				"the user or the password in it is refused by Redis (in an address #, %, @, /, ? and : of a password are percent-encoded)")
		}
		if reply := redis.Error(nil); errors.As(err, &reply) && !errors.Is(err, redis.Nil) {
			// of no master, a sentinel says nil
			return unable(err, nil)
		}
		return fmt.Errorf("can't reach Redis: %s%s", cause(err), redisHint(err, secured))
	}
	// A Redis may forbid INFO. Then its policy and its role are unknown, and it is accepted.
	for _, line := range strings.Split(rdb.Info(ctx).Val(), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "maxmemory_policy" && value != "noeviction":
			return fmt.Errorf("this Redis evicts keys (maxmemory-policy %s): set maxmemory-policy noeviction", value)
		case name == "cluster_enabled" && value == "1" && !isCluster(rdb):
			return errors.New(
				"this Redis is a node of a Cluster: give several of its nodes with commas between, or this one twice")
		case name == "role" && value == "slave": // one that takes writes would lose them
			return errors.New(
				"this Redis is a replica: give the address of its master, or sentinels that name it (redis+sentinel://)")
		}
	}
	return nil
}

func isCluster(rdb redis.UniversalClient) bool {
	_, is := rdb.(*redis.ClusterClient)
	return is
}

// quiet receives the messages that the Redis client would print. Its calls return the same as
// errors, which are logged once.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, fmt.Sprintf(format, v...))
}
