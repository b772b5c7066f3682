// Command miaosha is a flash-sale shop in one binary: see README.md, or miaosha --help.
package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/captcha"
	"miaosha/seckill/hot"
	"miaosha/seckill/lineage"
	"miaosha/seckill/live"
	"miaosha/seckill/operator"
	"miaosha/seckill/payment"
	"miaosha/seckill/trace"
	"miaosha/seckill/warm"
	"miaosha/user"
	"miaosha/web"
)

//go:embed schema.sql
var schema string

// source is the code that the timeline of a ticket shows.
//
//go:embed seckill/captcha/captcha.go seckill/big_gate.go seckill/address/address.go seckill/lane.go seckill/queue/queue.go seckill/reclaim.go seckill/settle.go seckill/acks.go
//go:embed seckill/news/news.go seckill/gate/scripts/reserve.lua order/place.go order/pay.go order/expire.go goods/stock.go
var source embed.FS

// version is set by the release build: -ldflags "-X main.version=...".
var version = "dev"

// sessionLife is the life of a session, however often it is used. One that is not used ends earlier: see
// package user.
const sessionLife = 3 * 24 * time.Hour

// settings are the flags and environment of the shop itself.
type settings struct {
	Listen  web.Listen     `embed:"" group:"The shop's addresses:"`
	Web     web.Config     `embed:"" group:"The shop:"`
	Captcha captcha.Config `embed:"" group:"The rush:"`
	Seckill seckill.Config `embed:"" group:"The rush:"`
	Hot     hot.Config     `embed:"" group:"The rush:"`
	Goods   goods.Config   `embed:"" group:"The shop:"`
	Order   order.Config   `embed:"" group:"The shop:"`
	Payment payment.Config `embed:"" group:"The shop:"`
	User    user.Config    `embed:"" group:"The shop:"`
	Bans    user.BanConfig `embed:"" group:"The shop:"`
}

type commands struct {
	Backend   backend.Config `embed:"" group:"Stores:"`
	LogLevel  logLevel       `name:"log-level" env:"MIAOSHA_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string         `name:"log-format" env:"MIAOSHA_LOG_FORMAT" enum:"auto,text,json" default:"auto" help:"text, json, or auto: text on a terminal, json otherwise."`

	Serve   settings         `cmd:"" default:"withargs" help:"Run the shop (the default command)."`
	Users   operator.Users   `cmd:"" help:"Create buyers with live sessions, as CSV: user_id,phone,token. For load tools."`
	Sale    operator.Sale    `cmd:"" help:"Create, list and change sales. Without a verb it creates and publishes one, and prints only its id (sale new --help)."`
	Admin   operator.Admin   `cmd:"" help:"Create an administrator or a viewer, or make a user one. Asks for the password, or creates one and prints it once."`
	Ticket  operator.Ticket  `cmd:"" help:"Follow one ticket: all its steps, with the process, time and wait of each."`
	Ban     operator.Ban     `cmd:"" help:"Show and end the bans of users who were refused too often."`
	Bench   operator.Bench   `cmd:"" help:"Load-test a running shop, or one started for it, with thousands of buyers over HTTP, and report."`
	Lab     operator.Lab     `cmd:"" help:"Sell the same stock to the same buyers with every strategy the courses teach, right and wrong, and compare."`
	Audit   operator.Audit   `cmd:"" help:"Check the invariants on the live data; exit code 1 and the rows if one is broken."`
	Archive operator.Archive `cmd:"" help:"Move old rows of sales that have ended to files, with a count and a checksum that an audit reads back."`
	Config  settings         `cmd:"" help:"Print the effective settings, secrets masked."`
	Reset   operator.Reset   `cmd:"" help:"Delete the data of the sandbox, so that a class can start again."`
	Version operator.Version `cmd:"" help:"Print version, commit and Go."`

	Baseline operator.Baseline `cmd:"" hidden:"" help:"The bare handler that bench compares with."`
	Resume   operator.Resume   `cmd:"" hidden:"" help:"Lets servers go on that the panel for teaching has stopped."`
}

// logLevel is a level whose errors name the levels.
type logLevel struct{ slog.Level }

func (l *logLevel) UnmarshalText(text []byte) error {
	if l.Level.UnmarshalText(text) != nil {
		return fmt.Errorf("%q is not debug, info, warn or error", text)
	}
	return nil
}

func main() {
	operator.RunProgram() // in a child process of the lab it does not return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, operator.Failure(err, coloured(os.Stderr)))
		os.Exit(operator.ExitCode(err))
	}
}

func coloured(f *os.File) bool {
	return operator.Coloured(f, os.Getenv("NO_COLOR"), os.Getenv("TERM"))
}

// run runs one command. Only main, run and serve read flags and the environment.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr *os.File) error {
	var c commands
	exited := false
	parser, err := kong.New(&c, kong.Name("miaosha"), kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }),
		kong.Resolvers(operator.Environment(os.LookupEnv)),
		kong.Description("A flash-sale (秒杀) shop in one binary. Without any setting of a real shop it runs its own Postgres and Redis. To read a secret or a URL from a file, add _FILE to its environment variable: MIAOSHA_SECRET_FILE=/path."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}), kong.Help(operator.Help))
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "help" { // miaosha help, miaosha help bench
		args = append(args[1:], "--help")
	}
	parsed, err := parser.Parse(args)
	if exited { // --help was printed
		return nil
	}
	if err != nil {
		return operator.Explain(parser.Model, args, err)
	}
	log := newLog(c.LogLevel.Level, c.LogFormat, stderr)
	unknown, err := operator.CheckVariables(parser.Model, os.Environ())
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		log.Warn("the environment has variables that look like settings of miaosha, and are none", "names", strings.Join(unknown, ", "))
	}
	command := parsed.Selected().Name
	if !slices.Contains([]string{"version", "baseline", "resume"}, command) { // these have no shop
		if err := operator.CheckSandbox(parsed, c.Backend, os.LookupEnv); err != nil {
			return err
		}
	}
	env := operator.Env{Backend: c.Backend, Schema: schema, Log: log, SessionLife: sessionLife, In: stdin, Out: stdout, Err: stderr,
		Colour: coloured(stdout), Origin: operator.Origin(args, version)}
	env.WarnOfSecrets(parsed)
	if ignored := ignoreLibpq(c.Backend.DatabaseURL); len(ignored) > 0 && c.Backend.DatabaseURL != "" {
		log.Warn("variables of the environment that DATABASE_URL does not need are not read: what they say belongs in DATABASE_URL", "variables", ignored)
	}
	switch command {
	case "serve":
		return serve(ctx, &c, log, stdout)
	case "config":
		return env.PrintSettings(parsed)
	}
	ctx, stop := stopOnHangup(ctx)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(env, version) // the Run method of the command
}

// libpq are the variables that complete an address of Postgres without changing what it says: how to log in, and whom
// to trust.
var libpq = []string{"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLPASSWORD"}

// ofLibpq matches the variables that are settings of libpq, which pgx reads, too. Others begin with PG as well.
var ofLibpq = regexp.MustCompile(`^PG(HOST|HOSTADDR|PORT|DATABASE|USER|PASSWORD|PASSFILE|SERVICE|SERVICEFILE|OPTIONS|APPNAME|REQUIRESSL|SSL[A-Z]+|REQUIREAUTH|CHANNELBINDING|REQUIREPEER|(MIN|MAX)PROTOCOLVERSION|GSSENCMODE|KRBSRVNAME|GSSLIB|GSSDELEGATION|CONNECT_TIMEOUT|CLIENTENCODING|TARGETSESSIONATTRS|LOADBALANCEHOSTS|DATESTYLE|TZ|GEQO|SYSCONFDIR|LOCALEDIR|REALM)$`)

// ignoreLibpq removes all other variables of libpq from the environment, which the client for Postgres reads with
// every address, and returns their names. The sandbox needs none of them, nor does an address without TLS those of
// TLS.
func ignoreLibpq(databaseURL string) (ignored []string) {
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		needed := databaseURL != "" && slices.Contains(libpq, name) && (!strings.HasPrefix(name, "PGSSL") || !strings.Contains(databaseURL, "sslmode=disable"))
		if ofLibpq.MatchString(name) && !needed {
			os.Unsetenv(name)
			if value != "" {
				ignored = append(ignored, name)
			}
		}
	}
	return ignored
}

// stopOnHangup returns a context that also ends on SIGHUP, as when a terminal is closed; not under nohup.
func stopOnHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// newLog returns a logger to w: text for people, JSON for machines.
func newLog(level slog.Level, format string, w *os.File) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && term.IsTerminal(int(w.Fd())) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// checkMeasuring returns an error that names a setting for measuring, if it is set and a store is the operator's own.
func (c *commands) checkMeasuring() error {
	if c.Backend.DatabaseURL == "" && c.Backend.RedisURL == "" && c.Backend.SessionRedisURL == "" {
		return nil
	}
	rush, all := c.Serve.Seckill, seckill.AllOptimisations()
	for _, setting := range []struct {
		flag string
		set  bool
	}{
		{"captcha-answers (MIAOSHA_CAPTCHA_ANSWERS)", c.Serve.Captcha.Answers},
		{"lane-batch", rush.LaneBatch != all.LaneBatch},
		{"settle-batch", rush.SettleBatch != all.SettleBatch},
		{"sold-out-mark", rush.SoldOutMark != all.SoldOutMark},
		{"catalogue-life", c.Serve.Goods.CatalogueLife != goods.CatalogueLife},
		{"session-copies", c.Serve.User.SessionCopies != user.SessionCopies},
	} {
		if setting.set {
			return fmt.Errorf("--%s: only with the sandbox's own stores", setting.flag)
		}
	}
	return nil
}

// serve opens the shop and runs it until ctx ends. It stops in the order in which work flows: the
// listeners, then the background work, then the stores.
func serve(ctx context.Context, c *commands, log *slog.Logger, stdout io.Writer) error {
	cfg, started := c.Serve, time.Now()
	signal.Ignore(syscall.SIGPIPE) // what reads the output may have been killed: the queue is drained and the stores are closed all the same
	if err := cmp.Or(c.Backend.RequireStores(), c.Backend.RequireSecret()); err != nil {
		return err
	}
	if err := c.checkMeasuring(); err != nil {
		return err
	}
	if workers, conns := cfg.Seckill.QueueWorkers, int(c.Backend.Pools.Settle); workers > conns {
		return fmt.Errorf("--queue-workers (MIAOSHA_QUEUE_WORKERS): %d workers, and --pool-settle (MIAOSHA_POOL_SETTLE) has %d connections: each needs one", workers, conns)
	}
	if err := cfg.Payment.Validate(); err != nil {
		return err
	}
	listeners, err := cfg.Listen.Open(c.Backend.Sandboxed())
	if err != nil {
		return err
	}
	defer listeners.Close()
	if listeners.TLS() { // SIGHUP means: there is a new certificate
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		listeners.ReloadOn(hangups)
	} else {
		var stop func()
		ctx, stop = stopOnHangup(ctx)
		defer stop()
	}
	for _, s := range operator.QuietSignals {
		signal.Notify(make(chan os.Signal, 1), s)
	}
	if err := cfg.Listen.CheckPayments(cfg.Web, c.Backend.Sandboxed()); err != nil {
		return err
	}
	if err := operator.LimitMemory(c.Backend.Sandboxed(), os.Getenv("GOGC") != ""); err != nil {
		log.Warn("cannot read the memory limit of this container", "err", err)
	}
	c.Backend.Say = func(what string) { fmt.Fprintln(stdout, what) }
	stores, err := backend.Open(ctx, c.Backend, schema, log)
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped before the shop was open; a database that is not finished is made again at the next start")
	}
	if err != nil {
		return err
	}
	defer stores.Close()
	if err := operator.ProvePast(ctx, stores); err != nil {
		return err
	}
	past, err := lineage.Open(ctx, stores.Lineage(log, func(what string) { fmt.Fprintln(stdout, what) }))
	if err != nil {
		return err
	}
	stores.OnConnect(past.Connected)
	sessions, err := user.NewSessions(stores.Sessions, sessionLife)
	if err != nil {
		return err
	}
	defer sessions.Close()
	sessions.SetCopyLife(cfg.User)
	if err := operator.Prove(ctx, stores, sessions, cfg.Seckill.Gate != "off"); err != nil {
		return err
	}
	clocks := backend.NewClocks(ctx, stores, log)
	sales, orders := goods.New(stores.Web), order.New(stores.Pay, cfg.Order)
	users, cache := user.New(stores.Users, stores.Redis, stores.Secret, cfg.User, log), goods.NewCache(sales)
	cache.SetLife(cfg.Goods)
	steps := trace.New()
	engine, err := seckill.New(cfg.Seckill, seckill.Deps{DB: stores.Settle, Redis: stores.Redis, Sales: sales, Cache: cache,
		Orders: order.New(stores.Web, cfg.Order), Secret: stores.Secret, Trace: steps, Log: log})
	if err != nil {
		return err
	}
	if err := engine.CheckJournals(ctx); err != nil {
		return err
	}
	sums := captcha.New(cfg.Captcha, cache, steps, engine.Shared())
	witness := trace.NewWitness(steps, engine.Shared(), stores.Secret, log)
	catalogue := cache
	collectors := slices.Concat([]prometheus.Collector{operator.BuildInfo(version)}, engine.Collectors(), stores.Collectors(), sessions.Collectors(), orders.Collectors(), []prometheus.Collector{clocks})
	if replica := stores.Replica; replica != nil { // what decides goes on reading at the primary
		catalogue = goods.NewCache(sales)
		catalogue.ReadFrom(goods.New(replica.Pool))
		collectors = append(collectors, replica.Collectors()...)
	}
	hotSales, err := hot.NewMonitor(cfg.Hot, engine, catalogue, log)
	if err != nil {
		return err
	}
	orders.OnUnitsReturned(engine.UnitsReturned)
	bans, err := user.NewBans(stores.Redis, cfg.Bans, log)
	if err != nil {
		return err
	}
	lab := web.NewLab(operator.LabStores(c.Backend, stores, schema), log)
	counts := live.NewCounts()
	figures := live.New(live.Deps{DB: stores.Web, Redis: stores.Redis, Engine: engine, Trace: steps, Counts: counts, Version: version, Log: log})
	staff := admin.New(stores.Staff, cfg.Order, engine.UnitsReturned)
	var demo *web.Demo
	var bots *operator.Bots
	var teacher *operator.Teacher
	if c.Backend.Sandboxed() {
		shopkeeper, err := demoAccounts(ctx, users)
		if err != nil {
			return err
		}
		env := operator.Env{Backend: c.Backend, Schema: schema, Log: log, SessionLife: sessionLife, Err: os.Stderr}
		bots = operator.NewBots(env, stores, listeners.URL())
		demo = firstSteps(cfg.Listen.Local(cfg.Web))
		demo.Bots, demo.Addresses, demo.Shopkeeper, demo.OpsURL = bots, listeners.NetworkURLs(), shopkeeper, listeners.OpsURL()
		if c.Backend.DataDir != "" && stores.Sandbox != nil {
			demo.DataDir = stores.Sandbox.DataDir
		}
		if demo.Local {
			teacher = operator.NewTeacher(env, stores, listeners.URL(), cfg.Seckill.Gate != "off")
			demo.Teacher = teacher
		}
	} else if public, err := users.StaffHas(ctx, demoAdmin, demoPassword); err != nil {
		log.Warn("cannot see whether an administrator has the password of the sandbox", "err", err)
	} else if public { // the data of a sandbox was copied into this database
		log.Warn("an administrator has the password of the sandbox, which everyone knows: set another one", "command", "miaosha admin --phone "+demoAdmin+" --by "+demoAdmin)
	}
	shop, err := web.New(cfg.Web, web.Deps{Users: users, Sessions: sessions, Cache: catalogue, Orders: orders, Rush: engine, Sums: sums, Bans: bans,
		Counts: counts, Live: figures, Admin: staff, Tickets: admin.NewTickets(stores.Staff, stores.Redis), Source: source, Provider: payment.New(cfg.Payment), Lab: lab, Log: log, Secret: stores.Secret, Sandbox: c.Backend.Sandboxed(), Demo: demo,
		PostgresAhead: clocks.PostgresAhead}, listeners.URL())
	if err != nil {
		return err
	}
	if err := witness.Join(ctx); err != nil {
		return err
	}
	gates := stores.Redis
	if cfg.Seckill.Gate == "off" {
		gates = nil // gates of an earlier shop mean nothing to this one
	}
	monitor, gauges := audit.NewMonitor(stores.Web, gates, log), audit.NewGauges(stores.Web, gates, log)
	gauges.InFlight = engine.InFlight
	staff.ReadGates(gates)
	report := func(err error) { log.Warn("failed, will retry", "err", err) }
	demoReady := make(chan struct{})
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	keeping, leave := context.WithCancel(context.WithoutCancel(ctx)) // until the queue is drained
	defer leave()
	kept := make(chan error, 1)
	go func() {
		err := past.Run(keeping)
		if err != nil {
			shop.Refuse()
		}
		stop()
		kept <- err
	}()
	group.Go(func() error { engine.Run(background); return nil })
	group.Go(func() error { return orders.Sweep(background, shop.Providers(), report) })
	group.Go(func() error { return staff.RunPlans(background, report) })
	group.Go(func() error { return monitor.Run(background) })
	group.Go(func() error { return gauges.Run(background) })
	group.Go(func() error { return hotSales.Run(background) })
	group.Go(func() error { return figures.Run(background) })
	group.Go(func() error { return lab.Run(background) })
	group.Go(func() error { return witness.Run(background) })
	group.Go(func() error { return bans.Run(background) })
	group.Go(func() error { return clocks.Run(background) })
	group.Go(func() error { return users.EndRevoked(background, sessions, report) })
	for _, c := range slices.Compact([]*goods.Cache{cache, catalogue}) {
		group.Go(func() error { return c.KeepWarm(background, cfg.Web.Zone(), engine.Now) })
	}
	if cfg.Seckill.Gate != "off" {
		connections := warm.Connections{Settle: stores.Settle, Workers: cfg.Seckill.QueueWorkers, Sales: sales, Orders: orders, Clock: engine.Now}
		group.Go(func() error { return connections.Run(background, report) })
	}
	group.Go(func() error { return operator.ReleaseMemory(background) })
	if stores.Replica != nil {
		group.Go(func() error { return stores.Replica.Run(background) })
	}
	if c.Backend.Sandboxed() {
		group.Go(func() error { return bots.Run(background) })
		if teacher != nil {
			group.Go(func() error { return teacher.Run(background) })
		}
		group.Go(func() error { return sales.Demo(background, cfg.Web.Zone(), func() { close(demoReady) }, report) })
		select {
		case <-demoReady:
		case <-background.Done():
		case <-ctx.Done():
		}
	}
	ops := web.Ops(slices.Concat(collectors, shop.Collectors(), monitor.Collectors(), gauges.Collectors(), hotSales.Collectors(), listeners.Collectors(), bans.Collectors()), []web.Check{{Name: "postgres", Ask: stores.PostgresReady},
		{Name: "redis", Ask: stores.RedisReady}, {Name: "sessions", Ask: func(ctx context.Context) error { return backend.SessionsReady(sessions.Ready(ctx)) }}}, func() any { return hotSales.Report() })
	welcome(stdout, c, listeners, stores, shop.PlayMoney(), time.Since(started))
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(stdout, "stopping: no more requests; the tickets in the queue are settled first (a few seconds)")
	})()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(background, cancel) // stop serving when background work fails
	err = listeners.Serve(serving, shop, ops, log)
	stop()
	if ended := past.Ended(); ended != nil { // what is in the queue is of another incarnation: it is not drained
		return ended
	}
	err = errors.Join(err, group.Wait())
	leave()
	err = errors.Join(err, <-kept)
	operator.Goodbye(stdout, stores, gates)
	return err
}

// The accounts of the sandbox are public, so it listens on loopback only, and the shopkeeper's is used there only.
const demoBuyer, demoAdmin, demoPassword = "13800000000", "13900000000", "miaosha-demo"

// demoAccounts makes the accounts of the sandbox, and returns the shopkeeper's id.
func demoAccounts(ctx context.Context, users *user.Store) (shopkeeper int64, err error) {
	if _, err = users.Seed(ctx, user.User{Phone: demoBuyer, Nickname: "小秒", Role: user.RoleBuyer}, demoPassword); err != nil {
		return 0, err
	}
	return users.Seed(ctx, user.User{Phone: demoAdmin, Nickname: "店主", Role: user.RoleAdmin}, demoPassword)
}

// firstSteps returns what a sandbox has for a person who is alone with it. Over a network no button makes one the shopkeeper.
func firstSteps(local bool) *web.Demo {
	demo := &web.Demo{Local: local, Accounts: map[string]web.DemoAccount{"buyer": {Phone: demoBuyer, Password: demoPassword}}}
	if local {
		demo.Accounts["admin"] = web.DemoAccount{Phone: demoAdmin, Password: demoPassword}
	}
	return demo
}

func welcome(w io.Writer, c *commands, listeners *web.Listeners, s *backend.Stores, playMoney bool, took time.Duration) {
	fmt.Fprintf(w, "miaosha is open at %s  (ready in %.1f s)\n", listeners.URL(), took.Seconds())
	if c.Backend.Sandboxed() {
		fmt.Fprintf(w, "  demo buyer          %s / %s\n  demo administrator  %s / %s  (at this machine only)\n", demoBuyer, demoPassword, demoAdmin, demoPassword)
		fmt.Fprintf(w, "  lab                 %s/lab.html\n", listeners.URL())
		fmt.Fprintf(w, "  courses' words      %s/courses.html\n", listeners.URL())
		live := "/admin.html#live"
		if c.Serve.Web.LiveView == "public" {
			live = "/live.html"
		}
		fmt.Fprintf(w, "  live view           %s%s\n", listeners.URL(), live)
	}
	if b := s.Sandbox; b != nil {
		fmt.Fprintf(w, "  data                %s\n", b.DataDir)
		fmt.Fprintf(w, "  own servers         set DATABASE_URL, REDIS_URL and MIAOSHA_SECRET to replace the sandbox's\n")
		if b.Shared != 0 {
			fmt.Fprintf(w, "  shared              with process %d, which runs the servers of the sandbox and stops them when it ends\n", b.Shared)
		}
	} else if playMoney {
		fmt.Fprintf(w, "  WARNING             payments are play money: set --notify-secret for a real provider\n")
	}
	if url := listeners.OpsURL(); url != "" {
		fmt.Fprintf(w, "  metrics, health     %s\n", url)
	}
	fmt.Fprintf(w, "  stop with Ctrl-C\n")
}
