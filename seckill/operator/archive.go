package operator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/archive"
	"miaosha/seckill/backend"
)

// archiveFolder is where the files of Archive are.
type archiveFolder struct {
	Dir string `name:"dir" env:"MIAOSHA_ARCHIVE_DIR" placeholder:"DIR" help:"The folder of the files of miaosha archive. The folder archives in the data folder of the sandbox if not given; a shop with a database of its own has to name one."`
}

// of returns the folder of a shop, "" if none is known.
func (f archiveFolder) of(s *backend.Stores) string {
	if f.Dir == "" && s.Sandbox != nil && s.Sandbox.DatabaseURL != "" {
		return filepath.Join(s.Sandbox.DataDir, "archives")
	}
	return f.Dir
}

// Archive moves old rows to files.
type Archive struct {
	Before string `required:"" placeholder:"AGE" help:"How old what is moved is at least, such as 90d, or 2160h; not less than 30d."`
	archiveFolder
}

// Run moves the rows, and prints how many of which table.
func (c Archive) Run(ctx context.Context, env Env) error {
	age, err := parseAge(c.Before)
	if err == nil && age < archive.Least {
		err = archive.ErrTooYoung
	}
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("--before: %w", err)}
	}
	before := time.Now().Add(-age)
	return env.withShop(ctx, func(s *backend.Stores) error {
		dir := c.of(s)
		if dir == "" {
			return exitError{exitUsage, errors.New("--dir (MIAOSHA_ARCHIVE_DIR): required with a database of your own. It is to be backed up as the database is: a dump has none of its files")}
		}
		dir = absolute(dir)
		moved, err := archive.Run(ctx, s.Web, dir, before)
		total, after := 0, map[string]int{}
		for _, t := range moved.Tables {
			if t.Files > 0 {
				fmt.Fprintf(env.Out, "%s: %s in %s\n", t.Table, count(t.Rows, "row", "rows"), count(t.Files, "file", "files"))
			}
			total, after[t.Table] = total+t.Rows, t.Rows
		}
		if total > 0 {
			fmt.Fprintf(env.Out, "in %s: back it up, since a dump of the database has none of it\n", dir)
			env.sayWhere(s)
			err = errors.Join(err, admin.New(s.Web, order.Config{}, nil).Note(ctx, admin.By{From: "miaosha archive"}, "shop.archive", "shop", after))
		} else if err == nil {
			fmt.Fprintf(env.Out, "nothing is older than %s and can be moved\n", c.Before)
		}
		if moved.Waiting > 0 {
			fmt.Fprintf(env.Err, "the rows of %s stay: an order waits for its payment, or a refund is due\n", count(moved.Waiting, "ended sale", "ended sales"))
		}
		return err
	})
}

// parseAge returns the duration of a text: days, as 90d, or what time.ParseDuration knows.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if age, err := time.ParseDuration(text); err == nil {
		return age, nil
	}
	return 0, fmt.Errorf("%q is no age such as 90d or 2160h", text)
}
