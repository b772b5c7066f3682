package outside

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
)

// process is a Process, or one of a test.
type process interface {
	// Buy sends one click and returns the reply. After an error the buyer knows nothing and clicks again.
	Buy(ctx context.Context, user int64) (yes bool, err error)
	// Kill ends the process at once, in the middle of its work, and returns when it is gone.
	Kill()
	// Stop lets the process finish the work that it has accepted, and ends it; at once if ctx has ended.
	Stop(ctx context.Context) error
}

// startProcess starts a process of a shop with these variables in its environment, and waits until it can sell.
type startProcess func(ctx context.Context, env []string) (process, error)

// Run sends the crowd of a plan to an outside shop, counts the outcome in Postgres, and returns one Result, of the
// strategy lab.Student. It starts the processes one after the other. Of the faults only Kill reaches such a shop: right
// after half of the promises it kills a process and starts another one in its place. Result has no SQLPerOrder and no
// RedisPerOrder.
//
// The environment of a process is
//
//   - DATABASE_URL: a log-in role of the run. Its search_path is the schema of the run, the tables are its own, and it
//     has no rights elsewhere;
//   - DATABASE_CONNECTIONS: how many connections the process may have;
//   - REDIS_URL, and KEY_PREFIX, with which the names of its keys have to begin.
//
// An error comes from the stores, from the start of a process or from ctx. Nothing is left behind.
func Run(ctx context.Context, s lab.Stores, p lab.Plan, shop *Shop, report func(lab.Progress)) (lab.Result, error) {
	return run(ctx, s, p, func(ctx context.Context, env []string) (process, error) {
		p, err := shop.Start(ctx, env)
		if err != nil { // a nil *Process is not a nil process
			return nil, err
		}
		return p, nil
	}, report)
}

func run(
	ctx context.Context, s lab.Stores, p lab.Plan, start startProcess, report func(lab.Progress),
) (result lab.Result, err error) {
	if err := p.Validate(nil); err != nil {
		return result, err
	}
	for _, fault := range p.Faults {
		if fault != lab.Kill {
			return result, lab.InvalidError{Field: "faults", Reason: fmt.Sprintf(
				"%s does not reach an outside shop, which has its own connections; only %s does", fault, lab.Kill)}
		}
	}
	o := &shared{stores: s, start: start}
	spec := &lab.Spec{Name: lab.Student, Open: func(n *lab.Node) lab.Strategy {
		return &node{Node: n, shared: o, running: ctx}
	}}
	return lab.Run(ctx, s, p, spec, report)
}

// shared is what the processes of a shop have in common.
type shared struct {
	stores lab.Stores
	start  startProcess
	env    []string
}

// node is a node that is a process of its own.
type node struct {
	*lab.Node
	*shared
	running context.Context // of the run: when it ends, no process may finish anything
	process process         // nil until it has started
}

// Prepare creates the role of the run and the environment of its processes.
func (s *node) Prepare(ctx context.Context) error {
	perProcess := max(1, lab.PGConns/s.Plan.Nodes)
	// a killed process' connections end a little later
	databaseURL, err := s.OpenRole(ctx, s.shared.stores.DatabaseURL, 2*lab.PGConns+perProcess)
	if err != nil {
		return err
	}
	redisURL, err := redisURL(s.shared.stores.Redis)
	if err != nil {
		return err
	}
	s.env = []string{"DATABASE_URL=" + databaseURL, "DATABASE_CONNECTIONS=" + strconv.Itoa(perProcess),
		"REDIS_URL=" + redisURL, "KEY_PREFIX=" + s.Key("")}
	return nil
}

func (s *node) StartProcess(ctx context.Context) (err error) {
	s.process, err = s.start(ctx, s.env)
	return err
}

func (s *node) KillProcess() { s.process.Kill() }

// Ready does nothing: StartProcess has waited.
func (s *node) Ready(context.Context) error { return nil }

// Run ends the process when ctx ends.
func (s *node) Run(ctx context.Context) error {
	<-ctx.Done()
	if s.Alive() != nil {
		return nil
	}
	return s.process.Stop(s.running)
}

func (s *node) Buy(ctx context.Context, user int64) (bool, error) {
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
			return "", fmt.Errorf("the lab's Redis has no address of its own (%s): an outside shop needs one", o.Addr)
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
