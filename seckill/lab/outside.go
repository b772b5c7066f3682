package lab

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Process is a running process of a shop that is a program of its own. Package outside has one.
type Process interface {
	// Buy sends one click and returns the reply. After an error the buyer knows nothing and clicks again.
	Buy(ctx context.Context, user int64) (yes bool, err error)
	// Kill ends the process at once, in the middle of its work, and returns when it is gone.
	Kill()
	// Stop lets the process finish the work that it has accepted, and ends it; at once if ctx has ended.
	Stop(ctx context.Context) error
}

// StartProcess starts a process of a shop with these variables in its environment, and waits until it can sell.
type StartProcess func(ctx context.Context, env []string) (Process, error)

// RunOutside sends the crowd of a plan to a shop that is a program of its own, counts the outcome in Postgres, and returns
// one Result, of the strategy Mine. It starts the processes one after the other. Of the faults only Kill reaches such a
// shop: right after half of the promises it kills a process and starts another one in its place. Result has no SQLPerOrder
// and no RedisPerOrder.
//
// The environment of a process is
//
//   - DATABASE_URL: a log-in role of the run. Its search_path is the schema of the run, the tables are its own, and it has
//     no rights elsewhere;
//   - DATABASE_CONNECTIONS: how many connections the process may have;
//   - REDIS_URL, and KEY_PREFIX, with which the names of its keys have to begin.
//
// An error comes from the stores, from start or from ctx. Nothing is left behind.
func RunOutside(ctx context.Context, s Stores, p Plan, start StartProcess, report func(Progress)) (result Result, err error) {
	if err := p.Validate(nil); err != nil {
		return result, err
	}
	for _, fault := range p.Faults {
		if fault != Kill {
			return result, InvalidError{"faults", fmt.Sprintf("%s does not reach a shop of your own, which has its own connections; only %s does", fault, Kill)}
		}
	}
	o := &outside{stores: s, start: start}
	spec := &spec{name: Mine, open: func(n *node) Strategy { return &outsideShop{node: n, outside: o, running: ctx} }}
	return runOne(ctx, s, p, spec, report)
}

// outside is what the processes of a shop have in common.
type outside struct {
	stores Stores
	start  StartProcess
	env    []string
}

// outsideShop is a node that is a process of its own.
type outsideShop struct {
	*node
	*outside
	running context.Context // of the run: when it ends, no process may finish anything
	process Process         // nil until it has started
}

// Prepare creates the role of the run and the environment of its processes.
func (s *outsideShop) Prepare(ctx context.Context) error {
	perProcess := max(1, pgConns/s.plan.Nodes)
	databaseURL, err := s.openRole(ctx, s.outside.stores.DatabaseURL, 2*pgConns+perProcess) // a killed process' connections end a little later
	if err != nil {
		return err
	}
	redisURL, err := redisURL(s.outside.stores.Redis)
	if err != nil {
		return err
	}
	s.env = []string{"DATABASE_URL=" + databaseURL, "DATABASE_CONNECTIONS=" + strconv.Itoa(perProcess), "REDIS_URL=" + redisURL, "KEY_PREFIX=" + s.key("")}
	return nil
}

func (s *outsideShop) startProcess(ctx context.Context) (err error) {
	s.process, err = s.start(ctx, s.env)
	return err
}

func (s *outsideShop) killProcess() { s.process.Kill() }

// Ready does nothing: startProcess has waited.
func (s *outsideShop) Ready(context.Context) error { return nil }

// Run ends the process when ctx ends.
func (s *outsideShop) Run(ctx context.Context) error {
	<-ctx.Done()
	if s.alive() != nil {
		return nil
	}
	return s.process.Stop(s.running)
}

func (s *outsideShop) Buy(ctx context.Context, user int64) (bool, error) {
	return s.process.Buy(ctx, user)
}

// redisURL returns the address of a client's server; of a Cluster the addresses, separated by commas.
func redisURL(c redis.UniversalClient) (string, error) {
	at := func(addr, user, password string, db int, tls bool) string {
		u := url.URL{Scheme: "redis", Host: addr}
		if tls {
			u.Scheme = "rediss"
		}
		if password != "" {
			u.User = url.UserPassword(user, password)
		}
		if db > 0 {
			u.Path = "/" + strconv.Itoa(db)
		}
		return u.String()
	}
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		if !strings.Contains(o.Addr, ":") { // go-redis calls a client behind sentinels FailoverClient
			return "", fmt.Errorf("the lab's Redis has no address of its own (%s): a shop of your own needs one", o.Addr)
		}
		return at(o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil), nil
	case *redis.ClusterClient:
		o, all := c.Options(), []string(nil)
		for _, addr := range o.Addrs {
			all = append(all, at(addr, o.Username, o.Password, 0, o.TLSConfig != nil))
		}
		slices.Sort(all)
		return strings.Join(all, ","), nil
	}
	return "", fmt.Errorf("the lab's Redis: a client of type %T", c)
}
