package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/address"
	"miaosha/seckill/admin"
	"miaosha/seckill/backend"
	"miaosha/user"
)

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
	return env.withShop(ctx, func(s *backend.Stores) error {
		path, err := u.paths(ctx, s, env.Err)
		if err != nil {
			return err
		}
		sessions, err := user.NewSessions(s.Sessions, env.SessionLife)
		if err != nil {
			return err
		}
		defer sessions.Close()
		p, made := env.progress(), 0
		p.step("users: making %d buyers with live sessions in %s", u.N, s.Where())
		users := user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log)
		err = admin.New(s.Web, order.Config{}, nil).Note(ctx, admin.By{From: "miaosha users"}, "user.mint", "users",
			map[string]int{"n": u.N})
		if err != nil {
			return err
		}
		write := func(out io.Writer) error {
			return users.MintCSV(ctx, sessions, u.N, path, out, func(n int) {
				made = n
				if n%1000 == 0 {
					p.count("users: %d of %d", n, u.N)
				}
			})
		}
		if u.Out == "-" {
			err = write(env.Out)
		} else {
			err = u.writeFile(write)
		}
		p.clear()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("stopped: %s", u.remain(made))
		case err != nil:
			return err
		case u.Out != "-":
			p.step("users: %d buyers are in %s; whoever has it can buy as them, for %v", made, absolute(u.Out),
				env.SessionLife)
		}
		return nil
	})
}

// remain says what an interrupted run leaves behind.
func (u Users) remain(made int) string {
	written := u.Out + " was not written"
	if u.Out == "-" {
		written = "the output is not complete"
	}
	return fmt.Sprintf(
		"%d of %d buyers were made. They stay in the database, and so may those of the batch that was interrupted; %s",
		made, u.N, written)
}

// paths returns the function that makes the column path, nil without --sale.
func (u Users) paths(ctx context.Context, s *backend.Stores, says io.Writer) (func(int64, string) string, error) {
	if u.Sale == 0 {
		return nil, nil
	}
	sale, _, err := goods.NewCache(goods.New(s.Web)).Sale(ctx, u.Sale)
	if err != nil {
		return nil, fmt.Errorf("--sale %d: %w", u.Sale, err)
	}
	if errors.Is(sale.Window(time.Now()), goods.ErrEnded) {
		fmt.Fprintf(says,
			"--sale %d: this sale is over, and refuses the addresses: miaosha sale list shows the open ones\n", u.Sale)
	}
	return func(id int64, token string) string {
		return address.New(s.Secret).Sign(id, sale.ID, token, sale.EndsAt)
	}, nil
}

func (u Users) writeFile(write func(io.Writer) error) error {
	part := u.Out + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // the file holds live sessions
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(part, u.Out)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}
