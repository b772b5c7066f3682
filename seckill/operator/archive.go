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
	"miaosha/seckill/sandbox"
)

// archiveFolder is where the files of Archive are.
type archiveFolder struct {
	Dir string `name:"dir" env:"MIAOSHA_ARCHIVE_DIR" placeholder:"DIR" help:"The folder of the archive files. If not given, the folder archives in the data folder of the sandbox; a shop with a database of its own must name one."`
}

// of returns the folder of a shop, "" if none is known.
func (f archiveFolder) of(s *backend.Stores) string {
	if f.Dir == "" && s.Sandbox != nil && s.Sandbox.DatabaseURL != "" {
		return filepath.Join(s.Sandbox.DataDir, sandbox.ArchivesDir)
	}
	return f.Dir
}

// Archive moves old rows to files.
type Archive struct {
	Before string `required:"" placeholder:"AGE" help:"Minimum age of the rows to move, such as 90d or 2160h; at least 30d."`
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
			return exitError{exitUsage, errors.New(
				"--dir (MIAOSHA_ARCHIVE_DIR): required with a database of your own. It is to be backed up as the database is: a dump has none of its files")}
		}
		dir = absolute(dir)
		asked := map[string]string{"before": before.UTC().Format(time.RFC3339), "dir": dir}
		if err := admin.New(s.Web, order.Config{}, nil).Note(ctx, admin.By{From: "miaosha archive"}, "shop.archive",
			"shop", asked); err != nil {
			return err
		}
		said := time.Now()
		moved, err := archive.Run(ctx, s.Web, dir, before, func(c archive.Count) {
			if time.Since(said) > 10*time.Second {
				said = time.Now()
				fmt.Fprintf(env.Err, "%s: %s in %s until now\n", c.Table, count(c.Rows, "row", "rows"),
					count(c.Files, "file", "files"))
			}
		})
		if moved.Marked > 0 {
			fmt.Fprintf(env.Out, "%s marked as archived: they sell nothing any more\n",
				count(moved.Marked, "ended sale", "ended sales"))
		}
		total := 0
		for _, t := range moved.Tables {
			if t.Files > 0 {
				fmt.Fprintf(env.Out, "%s: %s in %s\n", t.Table, count(t.Rows, "row", "rows"),
					count(t.Files, "file", "files"))
			}
			total += t.Rows
		}
		if total > 0 {
			fmt.Fprintf(env.Out, "in %s: back it up, since a dump of the database has none of it\n", dir)
			env.sayWhere(s)
		} else if err == nil {
			fmt.Fprintf(env.Out, "nothing is older than %s and can be moved\n", c.Before)
		}
		if n := len(moved.Waiting); n > 0 {
			ids, more := fmt.Sprint(moved.Waiting[:min(n, 20)]), ""
			if n > 20 {
				more = " and more"
			}
			fmt.Fprintf(env.Err,
				"the rows of %s stay: an order waits for its payment, a refund is due, or a transaction has locked them: %s%s\n",
				count(n, "ended sale", "ended sales"), strings.Trim(ids, "[]"), more)
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
