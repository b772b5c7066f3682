// Package operator contains the commands beside serve, for the operator of a shop at a terminal.
// Each is a struct with its flags as fields and a method Run. The commands use the same stores as
// the shop, which may be running or not.
package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
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

// Env is the environment of a command.
type Env struct {
	Backend     backend.Config
	Schema      string
	Log         *slog.Logger
	SessionLife time.Duration
	In          *os.File
	Out         io.Writer
	Err         *os.File // progress, and the logs of child processes
}

func (env Env) withStores(ctx context.Context, do func(*backend.Stores) error) error {
	env.Backend.Patient = true
	s, err := backend.Open(ctx, env.Backend, env.Schema, env.Log)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// writeReport writes the result of Bench or Lab: to the file of --html as a page, if there is one,
// and to w as JSON or as text.
func writeReport(w io.Writer, file string, asJSON bool, result any, page, text func(io.Writer) error) error {
	if file != "" {
		var b bytes.Buffer
		if err := page(&b); err != nil {
			return err
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	return text(w)
}

// Users creates buyers with live sessions.
type Users struct {
	N    int    `short:"n" default:"1000" help:"Number of buyers."`
	Out  string `default:"-" placeholder:"FILE" help:"Output file; - is standard output."`
	Sale int64  `placeholder:"ID" help:"Add a column path: the hidden address for this sale, valid until the sale ends."`
}

// Run writes the buyers as CSV. The file appears complete or not at all.
func (u Users) Run(ctx context.Context, env Env) error {
	if u.N < 1 || u.N > 1_000_000 {
		return errors.New("-n: 1 to 1000000")
	}
	if err := env.Backend.RequireSecret(); err != nil {
		return err
	}
	return env.withStores(ctx, func(s *backend.Stores) error {
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
		sessions, err := user.NewSessions(s.SessionURL, env.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		users := user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log)
		if u.Out == "-" {
			return users.MintCSV(ctx, sessions, u.N, path, env.Out)
		}
		part := u.Out + ".part"
		f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // the file holds live sessions
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

// Admin creates an account of the staff, or makes a user one.
type Admin struct {
	Phone string `required:"" help:"The account's phone."`
	Role  string `enum:"admin,viewer" default:"admin" help:"admin, or viewer: an account that may look at everything in the back office and change nothing."`
	By    string `placeholder:"PHONE" help:"The phone of the administrator on whose behalf this is done. Needed for each administrator but the first; the change is logged in the table role_changes."`
}

// Run asks for the password at a terminal. If it receives none, it creates one and prints it once.
func (a Admin) Run(ctx context.Context, env Env) error {
	password, made, title := rand.Text(), true, map[string]string{user.RoleAdmin: "administrator", user.RoleViewer: "viewer"}[a.Role]
	if term.IsTerminal(int(env.In.Fd())) {
		fmt.Fprint(env.Out, "Password (empty: create one): ")
		typed, err := term.ReadPassword(int(env.In.Fd()))
		fmt.Fprintln(env.Out)
		if err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
		if len(typed) > 0 {
			password, made = string(typed), false
		}
	}
	return env.withStores(ctx, func(s *backend.Stores) error {
		sessions, err := user.NewSessions(s.SessionURL, env.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		created, err := user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log).MakeStaff(ctx, sessions, user.Staff{Phone: a.Phone, Password: password,
			Role: a.Role, By: a.By, PasswordDue: made && !env.Backend.Sandboxed()})
		if invalid := (user.InvalidError{}); errors.As(err, &invalid) {
			return fmt.Errorf("--%s: not possible (%s)", invalid.Field, invalid.Reason)
		}
		if errors.Is(err, user.ErrNotByAdmin) {
			return errors.New("--by: the shop has an administrator already: give the phone of one, on whose behalf this is done")
		}
		if err != nil {
			return err
		}
		action := "promoted to"
		if created {
			action = "created"
		}
		fmt.Fprintf(env.Out, "%s %s %s\n", action, title, a.Phone)
		if made {
			fmt.Fprintf(env.Out, "password: %s\n", password)
		}
		return nil
	})
}

// Audit checks the invariants.
type Audit struct{}

// ErrBroken reports that an invariant does not hold.
var ErrBroken = errors.New("an invariant is broken")

// Run prints the violations. It returns ErrBroken if there are any.
func (Audit) Run(ctx context.Context, env Env) error {
	return env.withStores(ctx, func(s *backend.Stores) error {
		clean, err := audit.Run(ctx, s.Web, s.Redis, env.Out)
		if err == nil && !clean {
			err = ErrBroken
		}
		return err
	})
}
