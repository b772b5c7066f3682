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

// readBuyers reads what Users wrote.
func readBuyers(file string) ([]bench.Buyer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--buyers: %w", err)
	}
	defer f.Close()
	rows := csv.NewReader(f)
	header, err := rows.Read()
	token, path := slices.Index(header, "token"), slices.Index(header, "path")
	if err != nil || token < 0 {
		return nil, fmt.Errorf("--buyers: %s has no column token (%v)", file, err)
	}
	var buyers []bench.Buyer
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return buyers, nil
		}
		if err != nil {
			return nil, fmt.Errorf("--buyers: %w", err)
		}
		b := bench.Buyer{Token: row[token]}
		if path >= 0 {
			b.Path = row[path]
		}
		if strings.ContainsAny(b.Token+b.Path, " \r\n/?#") {
			return nil, fmt.Errorf("--buyers: %s: not a token and an address in row %d", file, len(buyers)+1)
		}
		if buyers = append(buyers, b); len(buyers) > bench.MaxBuyers {
			return nil, fmt.Errorf("--buyers: more than %d", bench.MaxBuyers)
		}
	}
}
