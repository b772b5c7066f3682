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

	"miaosha/seckill/address"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
	"miaosha/user"
)

// mintBuyers creates n buyers with live sessions and hidden addresses, for each of the sales in turn.
func mintBuyers(
	ctx context.Context, env Env, s *backend.Stores, n int, sales []int64, ends time.Time,
) ([]bench.Buyer, error) {
	users, err := mintUsers(ctx, env, s, n)
	return sendTo(sales, users, s.Secret, ends), err
}

// loggedIn is a user with a live session.
type loggedIn struct {
	id    int64
	token string
}

func mintUsers(ctx context.Context, env Env, s *backend.Stores, n int) ([]loggedIn, error) {
	sessions, err := user.NewSessions(s.Sessions, env.SessionLife)
	if err != nil {
		return nil, err
	}
	defer sessions.Close()
	p := env.progress()
	p.step("bench: making %d buyers with live sessions", n)
	defer p.clear()
	users := make([]loggedIn, 0, n)
	err = user.New(s.Users, s.Redis, s.Secret, user.Config{}, env.Log).Mint(ctx, sessions, n,
		func(id int64, _, token string) error {
			if users = append(users, loggedIn{id, token}); len(users)%1000 == 0 {
				p.count("bench: %d of %d buyers", len(users), n)
			}
			return nil
		})
	return users, err
}

// sendTo returns the users as buyers with hidden addresses, for each of the sales in turn.
func sendTo(sales []int64, users []loggedIn, secret []byte, ends time.Time) []bench.Buyer {
	buyers := make([]bench.Buyer, len(users))
	for i, u := range users {
		sale := sales[i%len(sales)]
		buyers[i] = bench.Buyer{Token: u.token, Path: address.New(secret).Sign(u.id, sale, u.token, ends), Sale: sale}
	}
	return buyers
}

// openBuyers reads a file that Users wrote.
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

// readBuyers reads CSV with a column token and optionally a column path. They go into requests
// unescaped, so only the characters that Users writes are allowed.
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
			return nil, fmt.Errorf("row %d is not a token and an address", len(buyers)+1)
		}
		if buyers = append(buyers, b); len(buyers) > bench.MaxBuyers {
			return nil, fmt.Errorf("more than %d buyers", bench.MaxBuyers)
		}
	}
}
