package operator

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
	"miaosha/user"
)

// mintBuyers makes buyers with live sessions and hidden addresses, one sale's after the other's.
func mintBuyers(ctx context.Context, d Desk, s *backend.Stores, n int, sales []int64, ends time.Time) ([]bench.Buyer, error) {
	sessions, err := user.NewSessions(s.SessionURL, d.SessionLife)
	if err != nil {
		return nil, err
	}
	defer sessions.Close()
	buyers := make([]bench.Buyer, 0, n)
	err = user.New(s.Users, s.Redis, s.Secret, user.Config{}, d.Log).Mint(ctx, sessions, n, func(id int64, _, token string) error {
		sale := sales[len(buyers)%len(sales)]
		buyers = append(buyers, bench.Buyer{Token: token, Path: seckill.SignPath(s.Secret, id, sale, token, ends), Sale: sale})
		return nil
	})
	return buyers, err
}

// openBuyers reads the file that Users wrote.
func openBuyers(file string) ([]bench.Buyer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--buyers: %w", err)
	}
	defer f.Close()
	buyers, err := readBuyers(f)
	if err != nil {
		return nil, fmt.Errorf("--buyers: %s: %w", file, err)
	}
	return buyers, nil
}

// readBuyers reads a table with a column token and perhaps one path. What they hold goes into requests as it is, so it
// has to be of the letters that Users writes.
func readBuyers(from io.Reader) ([]bench.Buyer, error) {
	rows := csv.NewReader(from)
	rows.ReuseRecord = true
	header, err := rows.Read()
	token, path := slices.Index(header, "token"), slices.Index(header, "path")
	if err != nil || token < 0 {
		return nil, fmt.Errorf("no column token (%v)", err)
	}
	var buyers []bench.Buyer
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return buyers, nil
		}
		if err != nil {
			return nil, err
		}
		b := bench.Buyer{Token: row[token]}
		if path >= 0 {
			b.Path = row[path]
		}
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		if b.Token == "" || strings.Trim(b.Token, letters) != "" || strings.Trim(b.Path, letters) != "" {
			return nil, fmt.Errorf("not a token and an address in row %d", len(buyers)+1)
		}
		if buyers = append(buyers, b); len(buyers) > bench.MaxBuyers {
			return nil, fmt.Errorf("more than %d", bench.MaxBuyers)
		}
	}
}
