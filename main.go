// Command miaosha is a flash-sale shop in one binary: see README.md, or miaosha --help.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/operator"
	"miaosha/user"
	"miaosha/web"
)

//go:embed schema.sql
var schema string

// version is set by the release build: -ldflags "-X main.version=...".
var version = "dev"

const sessionLife = 12 * time.Hour

// settings are the flags and environment of the shop itself.
type settings struct {
	Listen  web.Listen     `embed:"" group:"The shop's addresses:"`
	Web     web.Config     `embed:"" group:"The shop:"`
	Seckill seckill.Config `embed:"" group:"The rush:"`
	Order   order.Config   `embed:"" group:"The shop:"`
	User    user.Config    `embed:"" group:"The shop:"`
}

type commands struct {
	Backend   backend.Config `embed:"" group:"Stores:"`
	LogLevel  slog.Level     `name:"log-level" env:"MIAOSHA_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string         `name:"log-format" env:"MIAOSHA_LOG_FORMAT" enum:"auto,text,json" default:"auto" help:"text, json, or auto: text on a terminal, json otherwise."`

	Serve   settings         `cmd:"" default:"withargs" help:"Open the shop (what miaosha does if nothing else is said)."`
	Users   operator.Users   `cmd:"" help:"Make buyers with live sessions, as CSV: user_id,phone,token. For load tools."`
	Sale    operator.Sale    `cmd:"" help:"Make and publish one sale; prints its id alone."`
	Admin   operator.Admin   `cmd:"" help:"Make or promote an administrator. The password is asked for, or made and printed once."`
	Bench   operator.Bench   `cmd:"" help:"Drive a running shop, or one started for it, with thousands of buyers over HTTP, and report."`
	Lab     operator.Lab     `cmd:"" help:"Sell one unit in every way the courses teach, right and wrong, to one crowd, and compare."`
	Audit   operator.Audit   `cmd:"" help:"Hold the running data against the invariants; exit code 1 and the rows where one is broken."`
	Config  settings         `cmd:"" help:"Print the effective settings, secrets masked."`
	Reset   operator.Reset   `cmd:"" help:"Empty the sandbox, so that a class can begin again."`
	Version operator.Version `cmd:"" help:"Print version, commit and Go."`

	Yardstick operator.Yardstick `cmd:"" hidden:"" help:"What bench compares with."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "miaosha:", err)
		os.Exit(1)
	}
}

// run does one command. Flags and environment are read here and nowhere else.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr *os.File) error {
	var c commands
	exited := false
	parser, err := kong.New(&c, kong.Name("miaosha"), kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }),
		kong.Description("A flash-sale (秒杀) shop in one binary. Without --database-url and --redis-url it runs its own Postgres and Redis."),
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
		return err
	}
	log := newLog(c.LogLevel, c.LogFormat, stderr)
	desk := operator.Desk{Backend: c.Backend, Schema: schema, Log: log, SessionLife: sessionLife, In: stdin, Out: stdout, Err: stderr}
	switch parsed.Selected().Name {
	case "users":
		return c.Users.Run(ctx, desk)
	case "sale":
		return c.Sale.Run(ctx, desk)
	case "admin":
		return c.Admin.Run(ctx, desk)
	case "bench":
		return c.Bench.Run(ctx, desk)
	case "lab":
		return c.Lab.Run(ctx, desk)
	case "yardstick":
		return c.Yardstick.Run(desk)
	case "audit":
		return c.Audit.Run(ctx, desk)
	case "config":
		return desk.PrintSettings(parsed)
	case "reset":
		return c.Reset.Run(ctx, desk)
	case "version":
		return c.Version.Run(desk, version)
	}
	return serve(ctx, &c, log, stdout)
}

// newLog writes to w: text for people, JSON for machines.
func newLog(level slog.Level, format string, w *os.File) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && term.IsTerminal(int(w.Fd())) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// serve opens the shop and runs it until ctx ends. What is asked last is stopped first: the doors, then the rush, then
// the stores.
func serve(ctx context.Context, c *commands, log *slog.Logger, stdout io.Writer) error {
	cfg, began := c.Serve, time.Now()
	if err := c.Backend.RequireSecret(); err != nil {
		return err
	}
	if cfg.Seckill.CaptchaAnswers && (c.Backend.DatabaseURL != "" || c.Backend.RedisURL != "") {
		return errors.New("--captcha-answers (MIAOSHA_CAPTCHA_ANSWERS): only with the sandbox's own stores")
	}
	doors, err := cfg.Listen.Open(c.Backend.Sandboxed())
	if err != nil {
		return err
	}
	defer doors.Close()
	if err := operator.LimitMemory(c.Backend.Sandboxed()); err != nil {
		log.Warn("the memory limit of this container is not known", "err", err)
	}
	stores, err := backend.Open(ctx, c.Backend, schema, log)
	if err != nil {
		return err
	}
	defer stores.Close()
	sessions, err := user.NewSessions(stores.SessionURL, sessionLife)
	if err != nil {
		return err
	}
	defer sessions.Close()
	sales, orders := goods.New(stores.Web), order.New(stores.Pay, cfg.Order)
	users, cache := user.New(stores.Users, stores.Redis, stores.Secret, cfg.User, log), goods.NewCache(sales)
	rush, err := seckill.New(cfg.Seckill, seckill.Deps{DB: stores.Settle, Redis: stores.Redis, Sales: sales, Cache: cache,
		Orders: order.New(stores.Web, cfg.Order), Secret: stores.Secret, Log: log})
	if err != nil {
		return err
	}
	lab := operator.NewLab(c.Backend, stores, schema, log)
	shop, err := web.New(cfg.Web, web.Deps{Users: users, Sessions: sessions, Cache: cache, Orders: orders, Rush: rush,
		Lab: lab, Log: log, Secret: stores.Secret, Sandbox: c.Backend.Sandboxed()}, doors.URL())
	if err != nil {
		return err
	}
	gates := stores.Redis
	if cfg.Seckill.Gate == "off" {
		gates = nil // what an earlier shop left there is nobody's
	}
	watch := audit.NewWatch(stores.Web, gates, log)
	report := func(err error) { log.Warn("tried again in a moment", "err", err) }
	filled := make(chan struct{})
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	work, behind := errgroup.WithContext(behind)
	work.Go(func() error { return rush.Run(behind) })
	work.Go(func() error { return orders.Sweep(behind, shop.Refund(), report) })
	work.Go(func() error { return watch.Run(behind) })
	work.Go(func() error { return lab.Run(behind) })
	work.Go(func() error { return operator.TidyMemory(behind) })
	if c.Backend.Sandboxed() {
		if err := demoAccounts(ctx, users); err != nil {
			stop()
			return errors.Join(err, work.Wait())
		}
		work.Go(func() error { return sales.Demo(behind, cfg.Web.Zone(), func() { close(filled) }, report) })
		select {
		case <-filled:
		case <-behind.Done():
		case <-ctx.Done():
		}
	}
	ops := web.Ops(append(rush.Collectors(), watch.Collectors()...), []web.Check{{Name: "postgres", Ask: stores.Web.Ping},
		{Name: "redis", Ask: func(ctx context.Context) error { return stores.Redis.Ping(ctx).Err() }}})
	welcome(stdout, c, doors, stores, shop.PlayMoney(), time.Since(began))
	front, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(behind, cancel) // nothing to serve if what is behind has failed
	err = doors.Serve(front, shop, ops, log)
	stop()
	return errors.Join(err, work.Wait())
}

// The sandbox's accounts. Anybody may read them, so the sandbox listens on loopback.
const demoBuyer, demoAdmin, demoPassword = "13800000000", "13900000000", "miaosha-demo"

func demoAccounts(ctx context.Context, users *user.Store) error {
	return errors.Join(
		users.Seed(ctx, user.User{Phone: demoBuyer, Nickname: "小秒", Role: user.RoleBuyer}, demoPassword),
		users.Seed(ctx, user.User{Phone: demoAdmin, Nickname: "掌柜", Role: user.RoleAdmin}, demoPassword))
}

func welcome(w io.Writer, c *commands, doors *web.Doors, s *backend.Stores, playMoney bool, took time.Duration) {
	fmt.Fprintf(w, "miaosha is open at %s  (ready in %.1f s)\n", doors.URL(), took.Seconds())
	if c.Backend.Sandboxed() {
		fmt.Fprintf(w, "  demo buyer          %s / %s\n  demo administrator  %s / %s\n", demoBuyer, demoPassword, demoAdmin, demoPassword)
		fmt.Fprintf(w, "  lab                 %s/lab.html\n", doors.URL())
	}
	if b := s.Sandbox; b != nil {
		fmt.Fprintf(w, "  data                %s\n", b.DataDir)
		fmt.Fprintf(w, "  own servers         DATABASE_URL, REDIS_URL and MIAOSHA_SECRET in place of the sandbox's\n")
		if b.Shared != 0 {
			fmt.Fprintf(w, "  shared              with process %d, which runs the sandbox's servers: they end with it\n", b.Shared)
		}
	} else if playMoney {
		fmt.Fprintf(w, "  WARNING             payments are play money: give --notify-secret for a real provider\n")
	}
	if url := doors.OpsURL(); url != "" {
		fmt.Fprintf(w, "  metrics, health     %s\n", url)
	}
	fmt.Fprintf(w, "  stop with Ctrl-C\n")
}
