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
	"path/filepath"
	"time"

	"golang.org/x/term"

	"miaosha/seckill/backend"
	"miaosha/seckill/lineage"
	"miaosha/seckill/report"
	"miaosha/seckill/typed"
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
	Colour      bool     // Out is a terminal with colours
	Origin      report.Origin
}

// withStores opens the stores for a command. It refuses those of two shops, and those of which one has gone back, until
// the shop has started again.
func (env Env) withStores(ctx context.Context, do func(*backend.Stores) error) error {
	return env.withAnyStores(ctx, func(s *backend.Stores) error {
		past, err := lineage.Look(ctx, s.Lineage(env.Log, nil))
		if err != nil {
			return err
		}
		defer past.Mark(ctx)
		return do(s)
	})
}

// withAnyStores is withStores for a command that only reads, and judges what it finds.
func (env Env) withAnyStores(ctx context.Context, do func(*backend.Stores) error) error {
	env.Backend.Command, env.Backend.Say = true, func(what string) { fmt.Fprintln(env.Err, what) }
	s, err := backend.Open(ctx, env.Backend, env.Schema, env.Log)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// writeReport writes the result of Bench or Lab: to the file of --html as a page, if there is one, and as JSON or as
// text to Out.
func (env Env) writeReport(file string, asJSON bool, result any, page, text func(io.Writer) error) error {
	if file != "" {
		var b bytes.Buffer
		if err := page(&b); err != nil {
			return err
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		defer fmt.Fprintf(env.Err, "the page is in %s\n", absolute(file))
	}
	if asJSON {
		e := json.NewEncoder(env.Out)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	return text(env.verdicts())
}

// verdicts returns Out, for text that says what is right and what is wrong.
func (env Env) verdicts() io.Writer {
	if env.Colour {
		return verdicts{env.Out}
	}
	return env.Out
}

// absolute returns the path of a file as one that works in every folder, where that is known.
func absolute(file string) string {
	if path, err := filepath.Abs(file); err == nil {
		return path
	}
	return file
}

// Admin creates an account of the staff, or makes a user one.
type Admin struct {
	Phone string `required:"" help:"The account's phone."`
	Role  string `enum:"admin,viewer" default:"admin" help:"admin, or viewer: an account that can look at the back office, with phones and addresses masked, but not change anything."`
	By    string `placeholder:"PHONE" help:"The phone of the administrator on whose behalf this is done. Required, except for the first administrator; the change is recorded in the table role_changes."`
}

// Run asks for the password at a terminal. If it receives none, it creates one and prints it once.
func (a Admin) Run(ctx context.Context, env Env) (err error) {
	if a.Phone, err = phone("--phone", a.Phone); err != nil {
		return err
	}
	if a.By, err = phone("--by", a.By); err != nil {
		return err
	}
	title := map[string]string{user.RoleAdmin: "administrator", user.RoleViewer: "viewer"}[a.Role]
	return env.withShop(ctx, func(s *backend.Stores) error {
		password, made, err := env.askPassword(title, s)
		if err != nil {
			return err
		}
		sessions, err := user.NewSessions(s.Sessions, env.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		created, err := user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log).MakeStaff(ctx, sessions,
			user.Staff{Phone: a.Phone, Password: password,
				Role: a.Role, By: a.By, PasswordDue: made && !env.Backend.Sandboxed()})
		if invalid := (user.InvalidError{}); errors.As(err, &invalid) {
			if invalid.Field == "phone" {
				return errors.New("--phone: 11 digits, beginning with 13 to 19")
			}
			return fmt.Errorf("--%s: not possible (%s)", invalid.Field, invalid.Reason)
		}
		if errors.Is(err, user.ErrNotByAdmin) {
			return errors.New(
				"--by: the shop has an administrator already: give the phone of one, on whose behalf this is done")
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
		env.sayWhere(s)
		return nil
	})
}

// phone returns the telephone of an account as the shop stores it, however it is written behind a flag.
func phone(flag, written string) (string, error) {
	stored, err := typed.Phone(written)
	if err != nil {
		return "", fmt.Errorf("%s: a phone number may contain digits, spaces, dashes and a leading +; found %w", flag,
			err)
	}
	return stored, nil
}

// askPassword returns the password that is typed at a terminal, or one that it creates.
func (env Env) askPassword(title string, s *backend.Stores) (password string, made bool, err error) {
	if term.IsTerminal(int(env.In.Fd())) {
		fmt.Fprintf(env.Out, "Password of the %s of %s (empty: create one): ", title, s.Where())
		typed, err := term.ReadPassword(int(env.In.Fd()))
		fmt.Fprintln(env.Out)
		if err != nil {
			return "", false, fmt.Errorf("read the password: %w", err)
		}
		if len(typed) > 0 {
			return string(typed), false, nil
		}
	}
	return rand.Text(), true, nil
}
