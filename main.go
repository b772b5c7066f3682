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

// outside returns the payment providers outside the shop, each with its settings.
func (s settings) outside() []web.Outside { return []web.Outside{payment.New(s.Payment)} }

type commands struct {
	Backend   backend.Config `embed:"" group:"Stores:"`
	LogLevel  logLevel       `name:"log-level" env:"MIAOSHA_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string         `name:"log-format" env:"MIAOSHA_LOG_FORMAT" enum:"auto,text,json" default:"auto" help:"text, json, or auto: text on a terminal, json otherwise."`

	Serve   settings         `cmd:"" default:"withargs" help:"Run the shop (the default command)."`
	Users   operator.Users   `cmd:"" help:"Create buyers with live sessions, as CSV: user_id,phone,token. For load tools."`
	Sale    operator.Sale    `cmd:"" help:"Create, list and change sales. Without a verb it creates and publishes one, and prints only its id (sale new --help)."`
	Admin   operator.Admin   `cmd:"" help:"Create an administrator or a viewer, or give a user that role. Asks for the password, or creates one and prints it once."`
	Ticket  operator.Ticket  `cmd:"" help:"Follow one ticket: all its steps, with the process, time and wait of each."`
	Ban     operator.Ban     `cmd:"" help:"List and lift the bans of users who were refused too often."`
	Bench   operator.Bench   `cmd:"" help:"Load-test a running shop, or one started for it, with thousands of buyers over HTTP, and report."`
	Lab     operator.Lab     `cmd:"" help:"Sell the same stock to the same buyers with every strategy the courses teach, right and wrong, and compare."`
	Audit   operator.Audit   `cmd:"" help:"Check the invariants on the live data. If one is broken, print its rows and exit with 1."`
	Archive operator.Archive `cmd:"" help:"Move old rows of ended sales to files with a count and a checksum, which the audit verifies."`
	Config  settings         `cmd:"" help:"Print the effective settings, secrets masked."`
	Reset   operator.Reset   `cmd:"" help:"Delete the data of the sandbox, so that a class can start again."`
	Version operator.Version `cmd:"" help:"Print version, commit and Go."`

	Baseline operator.Baseline `cmd:"" hidden:"" help:"The bare handler that bench compares with."`
	Resume   operator.Resume   `cmd:"" hidden:"" help:"Resume the servers that the teaching panel has stopped."`
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
	parser, err := kong.New(&c, kong.Name("miaosha"), kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
		kong.Resolvers(operator.Environment(os.LookupEnv)),
		kong.Description(
			"A flash-sale (秒杀) shop in one binary. Without any setting of a real shop it runs its own Postgres and Redis. To read a secret or a URL from a file, add _FILE to its environment variable: MIAOSHA_SECRET_FILE=/path."),
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
		log.Warn("unknown environment variables that look like settings of miaosha", "names",
			strings.Join(unknown, ", "))
	}
	command := parsed.Selected().Name
	if !slices.Contains([]string{"version", "baseline", "resume"}, command) { // these have no shop
		if err := operator.CheckSandbox(parsed, c.Backend, os.LookupEnv); err != nil {
			return err
		}
	}
	env := operator.Env{Backend: c.Backend, Schema: schema, Log: log, SessionLife: sessionLife, In: stdin,
		Out: stdout, Err: stderr,
		Colour: coloured(stdout), Origin: operator.Origin(args, version)}
	env.WarnOfSecrets(parsed)
	if ignored := ignoreLibpq(c.Backend.DatabaseURL); len(ignored) > 0 && c.Backend.DatabaseURL != "" {
		log.Warn("ignored environment variables of libpq; put these settings into DATABASE_URL", "variables", ignored)
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
var libpq = []string{"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY",
	"PGSSLPASSWORD"}

// ofLibpq matches the variables that are settings of libpq, which pgx reads, too. Others begin with PG as well.
var ofLibpq = regexp.MustCompile(`^PG(HOST|HOSTADDR|PORT|DATABASE|USER|PASSWORD|PASSFILE|SERVICE|SERVICEFILE|OPTIONS|APPNAME|REQUIRESSL|SSL[A-Z]+|REQUIREAUTH|CHANNELBINDING|REQUIREPEER|(MIN|MAX)PROTOCOLVERSION|GSSENCMODE|KRBSRVNAME|GSSLIB|GSSDELEGATION|CONNECT_TIMEOUT|CLIENTENCODING|TARGETSESSIONATTRS|LOADBALANCEHOSTS|DATESTYLE|TZ|GEQO|SYSCONFDIR|LOCALEDIR|REALM)$`)

// ignoreLibpq removes all other variables of libpq from the environment, which the client for Postgres reads with
// every address, and returns their names. The sandbox needs none of them, nor does an address without TLS those of
// TLS.
func ignoreLibpq(databaseURL string) (ignored []string) {
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		needed := databaseURL != "" && slices.Contains(libpq, name) &&
			(!strings.HasPrefix(name, "PGSSL") || !strings.Contains(databaseURL, "sslmode=disable"))
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

// shop is what serve opens. Each of its steps needs what the steps before it have opened.
type shop struct {
	*commands
	log     *slog.Logger
	out     io.Writer
	started time.Time

	listeners *web.Listeners
	stores    *backend.Stores
	past      *lineage.Lineage
	sessions  *user.Sessions
	clocks    *backend.Clocks

	sales      *goods.Store
	cache      *goods.Cache // what decides reads at the primary
	catalogue  *goods.Cache // what buyers look at; at the replica, if there is one
	orders     *order.Store
	users      *user.Store
	bans       *user.Bans
	steps      *trace.Trace
	witness    *trace.Witness
	engine     *seckill.Engine
	sums       *captcha.Sums
	hotSales   *hot.Monitor
	collectors []prometheus.Collector

	staff   *admin.Store
	counts  *live.Counts
	figures *live.Monitor
	lab     *web.Lab
	monitor *audit.Monitor
	gauges  *audit.Gauges

	demo    *web.Demo         // nil without the sandbox
	bots    *operator.Bots    // the same
	teacher *operator.Teacher // nil, too, where other machines reach the sandbox
	pages   *web.Server
}

// serve opens the shop and runs it until ctx ends. It stops in the order in which work flows: the
// listeners, then the background work, then the stores.
func serve(ctx context.Context, c *commands, log *slog.Logger, stdout io.Writer) error {
	s := &shop{commands: c, log: log, out: stdout, started: time.Now()}
	// What reads the output may have been killed: the queue is drained and the stores are closed all the same.
	signal.Ignore(syscall.SIGPIPE)
	if err := c.checkServe(); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	defer s.listeners.Close()
	ctx, forget := s.heedSignals(ctx)
	defer forget()
	if err := s.openStores(ctx); err != nil {
		return err
	}
	defer s.stores.Close()
	if err := s.openPast(ctx); err != nil {
		return err
	}
	if err := s.openSessions(); err != nil {
		return err
	}
	defer s.sessions.Close()
	for _, open := range []func(context.Context) error{s.prove, s.openRush, s.openOffice, s.openSandbox, s.openPages} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	w := s.start(ctx)
	defer w.leave()
	defer w.stop()
	s.awaitDemo(ctx, w)
	welcome(stdout, c, s.listeners, s.stores, s.pages.PlayMoney(), time.Since(s.started))
	defer context.AfterFunc(ctx, func() {
		s.say("stopping: no more requests; the tickets in the queue are settled first (a few seconds)")
	})()

	err := s.answer(ctx, w) // until ctx ends, or the background work has failed
	w.stop()
	if ended := s.past.Ended(); ended != nil { // what is in the queue is of another incarnation: it is not drained
		return ended
	}
	err = errors.Join(err, w.Wait()) // the queue is drained
	w.leave()
	err = errors.Join(err, <-w.left)
	operator.Goodbye(stdout, s.stores, s.stores.Gates(c.Serve.Seckill.Gate))
	return err
}

// checkServe returns an error for settings with which no shop starts.
func (c *commands) checkServe() error {
	if err := cmp.Or(c.Backend.RequireStores(), c.Backend.RequireSecret()); err != nil {
		return err
	}
	if err := c.checkMeasuring(); err != nil {
		return err
	}
	if workers, conns := c.Serve.Seckill.QueueWorkers, int(c.Backend.Pools.Settle); workers > conns {
		return fmt.Errorf("--queue-workers (MIAOSHA_QUEUE_WORKERS): %d workers need a connection each, "+
			"and --pool-settle (MIAOSHA_POOL_SETTLE) has %d", workers, conns)
	}
	return c.Serve.Payment.Validate()
}

// listen opens the shop's addresses, unless others would pay with play money there. Connections wait until the shop
// answers.
func (s *shop) listen() (err error) {
	if s.listeners, err = s.Serve.Listen.Open(s.Backend.Sandboxed()); err != nil {
		return err
	}
	if err = s.Serve.Listen.CheckPayments(s.Serve.Web, s.Serve.outside(), s.Backend.Sandboxed()); err != nil {
		s.listeners.Close()
	}
	return err
}

// heedSignals returns a context that ends on SIGHUP, too, unless the shop has a certificate that is read again.
func (s *shop) heedSignals(ctx context.Context) (context.Context, context.CancelFunc) {
	for _, quiet := range operator.QuietSignals {
		signal.Notify(make(chan os.Signal, 1), quiet)
	}
	if !s.listeners.TLS() {
		return stopOnHangup(ctx)
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	s.listeners.ReloadOn(hangups)
	return ctx, func() {}
}

// openStores opens Postgres and Redis, or starts those of the sandbox, once the memory of the process is bounded.
func (s *shop) openStores(ctx context.Context) (err error) {
	if err := operator.LimitMemory(s.Backend.Sandboxed(), os.Getenv("GOGC") != ""); err != nil {
		s.log.Warn("cannot read the memory limit of this container", "err", err)
	}
	s.Backend.Say = s.say
	s.stores, err = backend.Open(ctx, s.Backend, schema, s.log)
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped before the shop was open; " +
			"an unfinished database is created again at the next start")
	}
	return err
}

func (s *shop) say(what string) { fmt.Fprintln(s.out, what) }

// openPast finds out whether Postgres is older than Redis knows, before anything is read from either.
func (s *shop) openPast(ctx context.Context) (err error) {
	if err := operator.ProvePast(ctx, s.stores); err != nil {
		return err
	}
	if s.past, err = lineage.Open(ctx, s.stores.Lineage(s.log, s.say)); err != nil {
		return err
	}
	s.stores.OnConnect(s.past.Connected)
	return nil
}

// openSessions opens the Redis of the sessions, which may be another one.
func (s *shop) openSessions() (err error) {
	if s.sessions, err = user.NewSessions(s.stores.Sessions, sessionLife); err != nil {
		return err
	}
	s.sessions.SetCopyLife(s.Serve.User)
	return nil
}

// prove asks the stores for all that the shop needs of them.
func (s *shop) prove(ctx context.Context) error {
	if err := operator.Prove(ctx, s.stores, s.sessions, s.Serve.Seckill.Gate != "off"); err != nil {
		return err
	}
	s.clocks = backend.NewClocks(ctx, s.stores, s.log)
	return nil
}

// openRush makes what sells: accounts, sales, orders, and the rush before them.
func (s *shop) openRush(ctx context.Context) (err error) {
	cfg, stores, log := &s.Serve, s.stores, s.log
	s.sales, s.orders = goods.New(stores.Web), order.New(stores.Pay, cfg.Order)
	s.users, s.cache = user.New(stores.Users, stores.Redis, stores.Secret, cfg.User, log), goods.NewCache(s.sales)
	s.cache.SetLife(cfg.Goods)
	s.steps = trace.New()
	s.engine, err = seckill.New(cfg.Seckill, seckill.Deps{DB: stores.Settle, Redis: stores.Redis, Sales: s.sales,
		Cache: s.cache, Orders: order.New(stores.Web, cfg.Order), Secret: stores.Secret, Trace: s.steps, Log: log})
	if err != nil {
		return err
	}
	if err := s.engine.CheckJournals(ctx); err != nil {
		return err
	}
	s.orders.OnUnitsReturned(s.engine.UnitsReturned)
	s.sums = captcha.New(cfg.Captcha, s.cache, s.steps, s.engine.Shared())
	s.witness = trace.NewWitness(s.steps, s.engine.Shared(), stores.Secret, log)
	s.catalogue = s.cache
	s.collectors = slices.Concat([]prometheus.Collector{operator.BuildInfo(version), s.clocks}, s.engine.Collectors(),
		stores.Collectors(), s.sessions.Collectors(), s.orders.Collectors())
	if replica := stores.Replica; replica != nil {
		s.catalogue = goods.NewCache(s.sales)
		s.catalogue.ReadFrom(goods.New(replica.Pool))
		s.collectors = append(s.collectors, replica.Collectors()...)
	}
	if s.hotSales, err = hot.NewMonitor(cfg.Hot, s.engine, s.catalogue, log); err != nil {
		return err
	}
	s.bans, err = user.NewBans(stores.Redis, cfg.Bans, log)
	return err
}

// openOffice makes what the staff and the operator look at, and the lab.
func (s *shop) openOffice(context.Context) error {
	stores, log, gates := s.stores, s.log, s.stores.Gates(s.Serve.Seckill.Gate)
	s.counts = live.NewCounts()
	s.figures = live.New(live.Deps{DB: stores.Web, Redis: stores.Redis, Engine: s.engine, Trace: s.steps,
		Counts: s.counts, Version: version, Log: log})
	s.staff = admin.New(stores.Staff, s.Serve.Order, s.engine.UnitsReturned)
	s.staff.ReadGates(gates)
	s.lab = web.NewLab(operator.LabStores(s.Backend, stores, schema), log)
	s.monitor, s.gauges = audit.NewMonitor(stores.Web, gates, log), audit.NewGauges(stores.Web, gates, log)
	s.gauges.InFlight = s.engine.InFlight
	return nil
}

// openSandbox makes what only a sandbox has. A shop that is none is warned of a sandbox's password.
func (s *shop) openSandbox(ctx context.Context) error {
	if !s.Backend.Sandboxed() {
		if public, err := s.users.StaffHas(ctx, demoAdmin, demoPassword); err != nil {
			s.log.Warn("cannot check whether an administrator still has the password of the sandbox", "err", err)
		} else if public { // the data of a sandbox was copied into this database
			s.log.Warn("an administrator has the public password of the sandbox: set another one",
				"command", "miaosha admin --phone "+demoAdmin+" --by "+demoAdmin)
		}
		return nil
	}
	shopkeeper, err := demoAccounts(ctx, s.users)
	if err != nil {
		return err
	}
	env := operator.Env{Backend: s.Backend, Schema: schema, Log: s.log, SessionLife: sessionLife, Err: os.Stderr}
	s.bots = operator.NewBots(env, s.stores, s.listeners.URL())
	s.demo = firstSteps(s.Serve.Listen.Local(s.Serve.Web))
	s.demo.Bots, s.demo.Shopkeeper = s.bots, shopkeeper
	s.demo.Addresses, s.demo.OpsURL = s.listeners.NetworkURLs(), s.listeners.OpsURL()
	if s.Backend.DataDir != "" && s.stores.Sandbox != nil {
		s.demo.DataDir = s.stores.Sandbox.DataDir
	}
	if s.demo.Local {
		s.teacher = operator.NewTeacher(env, s.stores, s.listeners.URL(), s.Serve.Seckill.Gate != "off")
		s.demo.Teacher = s.teacher
	}
	return nil
}

// openPages makes what answers requests, and tells the other processes of the shop that this one is here.
func (s *shop) openPages(ctx context.Context) (err error) {
	s.pages, err = web.New(s.Serve.Web, web.Deps{Users: s.users, Sessions: s.sessions, Cache: s.catalogue,
		Orders: s.orders, Rush: s.engine, Sums: s.sums, Bans: s.bans, Counts: s.counts, Live: s.figures, Admin: s.staff,
		Tickets: admin.NewTickets(s.stores.Staff, s.stores.Redis), Source: source,
		Outside: s.Serve.outside(), Lab: s.lab, Log: s.log, Secret: s.stores.Secret,
		Sandbox: s.Backend.Sandboxed(), Demo: s.demo, PostgresAhead: s.clocks.PostgresAhead}, s.listeners.URL())
	if err != nil {
		return err
	}
	return s.witness.Join(ctx)
}

// work is the background work of a shop.
type work struct {
	*errgroup.Group
	ctx       context.Context    // of all parts; it also ends when one of them fails
	stop      context.CancelFunc // ends ctx
	leave     context.CancelFunc // ends what goes on until the queue is drained
	left      chan error         // the error of that
	demoReady chan struct{}
}

// start starts the background work, which goes on when ctx ends, until it is stopped.
func (s *shop) start(ctx context.Context) *work {
	report := func(err error) { s.log.Warn("failed, will retry", "err", err) }
	w := &work{left: make(chan error, 1), demoReady: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.Group, w.ctx = errgroup.WithContext(w.ctx)
	keeping, leave := context.WithCancel(context.WithoutCancel(ctx))
	w.leave = leave
	go func() {
		err := s.past.Run(keeping)
		if err != nil {
			s.pages.Refuse()
		}
		w.stop()
		w.left <- err
	}()
	run := func(part func(context.Context) error) { w.Go(func() error { return part(w.ctx) }) }
	run(func(ctx context.Context) error { s.engine.Run(ctx); return nil })
	run(func(ctx context.Context) error { return s.orders.Sweep(ctx, s.pages.Providers(), report) })
	run(func(ctx context.Context) error { return s.staff.RunPlans(ctx, report) })
	run(func(ctx context.Context) error { return s.users.EndRevoked(ctx, s.sessions, report) })
	for _, c := range slices.Compact([]*goods.Cache{s.cache, s.catalogue}) {
		run(func(ctx context.Context) error { return c.KeepWarm(ctx, s.Serve.Web.Zone(), s.engine.Now) })
	}
	if s.Serve.Seckill.Gate != "off" {
		connections := warm.Connections{Settle: s.stores.Settle, Workers: s.Serve.Seckill.QueueWorkers, Sales: s.sales,
			Orders: s.orders, Clock: s.engine.Now}
		run(func(ctx context.Context) error { return connections.Run(ctx, report) })
	}
	for _, part := range []func(context.Context) error{s.monitor.Run, s.gauges.Run, s.hotSales.Run, s.figures.Run,
		s.lab.Run, s.witness.Run, s.bans.Run, s.clocks.Run, operator.ReleaseMemory} {
		run(part)
	}
	if s.stores.Replica != nil {
		run(s.stores.Replica.Run)
	}
	if s.bots != nil {
		run(s.bots.Run)
		run(func(ctx context.Context) error {
			return s.sales.Demo(ctx, s.Serve.Web.Zone(), func() { close(w.demoReady) }, report)
		})
	}
	if s.teacher != nil {
		run(s.teacher.Run)
	}
	return w
}

// awaitDemo waits until a sandbox has its first sales.
func (s *shop) awaitDemo(ctx context.Context, w *work) {
	if s.demo == nil {
		return
	}
	select {
	case <-w.demoReady:
	case <-w.ctx.Done():
	case <-ctx.Done():
	}
}

// answer answers requests until ctx ends or the background work fails.
func (s *shop) answer(ctx context.Context, w *work) error {
	collectors := slices.Concat(s.collectors, s.pages.Collectors(), s.monitor.Collectors(), s.gauges.Collectors(),
		s.hotSales.Collectors(), s.listeners.Collectors(), s.bans.Collectors())
	sessions := func(ctx context.Context) error { return backend.SessionsReady(s.sessions.Ready(ctx)) }
	checks := []web.Check{{Name: "postgres", Ask: s.stores.PostgresReady}, {Name: "redis", Ask: s.stores.RedisReady},
		{Name: "sessions", Ask: sessions}}
	ops := web.Ops(collectors, checks, func() any { return s.hotSales.Report() })
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(w.ctx, cancel)
	return s.listeners.Serve(serving, s.pages, ops, s.log)
}

// The accounts of the sandbox are public, so it listens on loopback only, and the shopkeeper's is used there only.
const demoBuyer, demoAdmin, demoPassword = "13800000000", "13900000000", "miaosha-demo"

// demoAccounts makes the accounts of the sandbox, and returns the shopkeeper's id.
func demoAccounts(ctx context.Context, users *user.Store) (shopkeeper int64, err error) {
	if _, err = users.Seed(ctx, user.User{Phone: demoBuyer, Nickname: "小秒", Role: user.RoleBuyer},
		demoPassword); err != nil {
		return 0, err
	}
	return users.Seed(ctx, user.User{Phone: demoAdmin, Nickname: "店主", Role: user.RoleAdmin}, demoPassword)
}

// firstSteps returns what a sandbox has for a person who is alone with it. Over a network no button makes one the
// shopkeeper.
func firstSteps(local bool) *web.Demo {
	demo := &web.Demo{Local: local, Accounts: map[string]web.DemoAccount{"buyer": {Phone: demoBuyer,
		Password: demoPassword}}}
	if local {
		demo.Accounts["admin"] = web.DemoAccount{Phone: demoAdmin, Password: demoPassword}
	}
	return demo
}

func welcome(
	w io.Writer, c *commands, listeners *web.Listeners, s *backend.Stores, playMoney bool, took time.Duration,
) {
	fmt.Fprintf(w, "miaosha is open at %s  (ready in %.1f s)\n", listeners.URL(), took.Seconds())
	if c.Backend.Sandboxed() {
		fmt.Fprintf(w, "  demo buyer          %s / %s\n  demo shopkeeper     %s / %s  (at this machine only)\n",
			demoBuyer, demoPassword, demoAdmin, demoPassword)
		fmt.Fprintf(w, "  lab                 %s/lab.html\n", listeners.URL())
		fmt.Fprintf(w, "  course index        %s/courses.html\n", listeners.URL())
		live := "/admin.html#live"
		if c.Serve.Web.LiveView == "public" {
			live = "/live.html"
		}
		fmt.Fprintf(w, "  live view           %s%s\n", listeners.URL(), live)
	}
	if b := s.Sandbox; b != nil {
		fmt.Fprintf(w, "  data                %s\n", b.DataDir)
		fmt.Fprintf(w,
			"  own servers         set DATABASE_URL, REDIS_URL and MIAOSHA_SECRET to replace the sandbox's\n")
		if b.Shared != 0 {
			fmt.Fprintf(w,
				"  shared              with process %d, which runs the servers of the sandbox and stops them when it ends\n",
				b.Shared)
		}
	} else if playMoney {
		fmt.Fprintf(w, "  WARNING             payments are play money: set --notify-secret for a real provider\n")
	}
	if url := listeners.OpsURL(); url != "" {
		fmt.Fprintf(w, "  metrics, health     %s\n", url)
	}
	fmt.Fprintf(w, "  stop with Ctrl-C\n")
}
