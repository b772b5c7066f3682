package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"miaosha/seckill/backend"
	"miaosha/user"
)

// Ban has the commands about users who cannot buy for a time, because they were refused too often.
type Ban struct {
	List BanList `cmd:"" help:"Print the bans: user id, phone, and time left."`
	Lift BanLift `cmd:"" help:"End the ban of a user, in every process within a second."`
}

// BanList prints the bans.
type BanList struct{}

// Run prints one ban on each line.
func (BanList) Run(ctx context.Context, env Env) error {
	return env.withUsers(ctx, func(_ *backend.Stores, users *user.Store) error {
		bans, err := users.Bans(ctx)
		if err != nil {
			return err
		}
		if len(bans) == 0 {
			fmt.Fprintln(env.Err, "no user is banned")
		}
		for _, b := range bans {
			if _, err := fmt.Fprintln(env.Out, b.UserID, b.Phone, b.Left.Round(time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
}

// BanLift ends the ban of a user.
type BanLift struct {
	Phone string `required:"" help:"The account's phone."`
}

// Run says whether there was a ban.
func (c BanLift) Run(ctx context.Context, env Env) (err error) {
	if c.Phone, err = phone("--phone", c.Phone); err != nil {
		return err
	}
	return env.withUsers(ctx, func(s *backend.Stores, users *user.Store) error {
		lifted, err := users.LiftBan(ctx, c.Phone)
		switch {
		case errors.Is(err, user.ErrNotFound):
			return errors.New("--phone: no account with this phone")
		case err != nil:
			return err
		case !lifted:
			_, err = fmt.Fprintf(env.Out, "%s was not banned\n", c.Phone)
		default:
			_, err = fmt.Fprintf(env.Out, "%s can buy again\n", c.Phone)
			env.sayWhere(s)
		}
		return err
	})
}

func (env Env) withUsers(ctx context.Context, do func(*backend.Stores, *user.Store) error) error {
	return env.withShop(ctx, func(s *backend.Stores) error {
		return do(s, user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log))
	})
}
