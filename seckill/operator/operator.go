// Package operator is the commands beside serve: what whoever runs the shop does at a terminal. Each is a struct whose
// fields are its flags, with a Run. They speak to the same stores as the shop, running or not.
package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/user"
)

// Desk is what every command works with.
type Desk struct {
	Backend     backend.Config
	Schema      string
	Log         *slog.Logger
	SessionLife time.Duration
	In          *os.File
	Out         io.Writer
	Err         *os.File // what is not the result: progress, and what children log
}

func (d Desk) withStores(ctx context.Context, do func(*backend.Stores) error) error {
	d.Backend.Patient = true
	s, err := backend.Open(ctx, d.Backend, d.Schema, d.Log)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// Users makes buyers with live sessions.
type Users struct {
	N    int    `short:"n" default:"1000" help:"How many."`
	Out  string `default:"-" placeholder:"FILE" help:"Where to; - is standard output."`
	Sale int64  `placeholder:"ID" help:"Add a column path: a hidden address for this sale, good until the sale's end."`
}

// Run writes the buyers as CSV. The file appears whole or not at all.
func (u Users) Run(ctx context.Context, d Desk) error {
	if u.N < 1 || u.N > 1_000_000 {
		return errors.New("-n: 1 to 1000000")
	}
	if err := d.Backend.RequireSecret(); err != nil {
		return err
	}
	return d.withStores(ctx, func(s *backend.Stores) error {
		var path func(int64, string) string
		if u.Sale != 0 {
			sale, _, err := goods.NewCache(goods.New(s.Web)).Sale(ctx, u.Sale)
			if err != nil {
				return fmt.Errorf("--sale %d: %w", u.Sale, err)
			}
			path = func(id int64, token string) string {
				return seckill.SignPath(s.Secret, id, sale.ID, token, sale.EndsAt)
			}
		}
		sessions, err := user.NewSessions(s.SessionURL, d.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		users := user.New(s.Users, s.Redis, s.Secret, user.Config{}, d.Log)
		if u.Out == "-" {
			return users.MintCSV(ctx, sessions, u.N, path, d.Out)
		}
		part := u.Out + ".part"
		f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // it holds live sessions
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		if err = errors.Join(users.MintCSV(ctx, sessions, u.N, path, f), f.Close()); err == nil {
			err = os.Rename(part, u.Out)
		}
		if err != nil {
			os.Remove(part)
		}
		return err
	})
}

// Sale makes one sale.
type Sale struct {
	Title     string `required:"" help:"What is sold."`
	Price     int64  `default:"1" help:"In fen."`
	ListPrice int64  `default:"0" help:"The price it is compared with, in fen."`
	Stock     int    `default:"100" help:"Units."`
	Start     string `default:"now" help:"now, in a while (30s), or a time (2026-11-11T20:00:00+08:00)."`
	End       string `default:"1h" help:"That long after the start, or a time."`
	Image     string `placeholder:"PATH" help:"A picture, such as goods/kettle.svg."`
	Detail    string `help:"A sentence or two."`
}

// Run publishes the sale and prints its id.
func (c Sale) Run(ctx context.Context, d Desk) error {
	from, to, err := goods.ParseWindow(c.Start, c.End, time.Now())
	terms := goods.Terms{Price: c.Price, Total: c.Stock, StartsAt: from, EndsAt: to}
	if err == nil {
		err = terms.Validate()
	}
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	return d.withStores(ctx, func(s *backend.Stores) error {
		id, err := goods.New(s.Web).Sell(ctx,
			goods.Item{Title: c.Title, Image: c.Image, Detail: c.Detail, ListPrice: c.ListPrice}, terms)
		if invalid := (goods.InvalidError{}); errors.As(err, &invalid) {
			return fmt.Errorf("--%w", err)
		}
		if err == nil {
			_, err = fmt.Fprintln(d.Out, id)
		}
		return err
	})
}

// Admin makes or promotes an administrator.
type Admin struct {
	Phone string `required:"" help:"The account's phone."`
}

// Run asks for the password at a terminal; elsewhere, or if none is given, it makes one and prints it once.
func (a Admin) Run(ctx context.Context, d Desk) error {
	password, made := rand.Text(), true
	if term.IsTerminal(int(d.In.Fd())) {
		fmt.Fprint(d.Out, "Password (empty: one is made): ")
		typed, err := term.ReadPassword(int(d.In.Fd()))
		fmt.Fprintln(d.Out)
		if err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
		if len(typed) > 0 {
			password, made = string(typed), false
		}
	}
	return d.withStores(ctx, func(s *backend.Stores) error {
		sessions, err := user.NewSessions(s.SessionURL, d.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		created, err := user.New(s.Users, s.Redis, s.Secret, user.Config{}, d.Log).MakeAdmin(ctx, sessions, a.Phone, password)
		if invalid := (user.InvalidError{}); errors.As(err, &invalid) {
			return fmt.Errorf("--%s: not possible (%s)", invalid.Field, invalid.Reason)
		}
		if err != nil {
			return err
		}
		what := "promoted to"
		if created {
			what = "made"
		}
		fmt.Fprintf(d.Out, "%s administrator %s\n", what, a.Phone)
		if made {
			fmt.Fprintf(d.Out, "password: %s\n", password)
		}
		return nil
	})
}

// Audit runs the invariants.
type Audit struct{}

// ErrBroken is Audit's answer where an invariant does not hold.
var ErrBroken = errors.New("an invariant is broken")

// Run prints what is broken; ErrBroken if anything is.
func (Audit) Run(ctx context.Context, d Desk) error {
	return d.withStores(ctx, func(s *backend.Stores) error {
		clean, err := audit.Run(ctx, s.Web, s.Redis, d.Out)
		if err == nil && !clean {
			err = ErrBroken
		}
		return err
	})
}
