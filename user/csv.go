package user

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// MintCSV mints n buyers and writes them as CSV: user_id,phone,token and, with path, a column path. It calls made after
// each buyer with their number so far.
func (s *Store) MintCSV(ctx context.Context, sessions *Sessions, n int, path func(id int64, token string) string,
	w io.Writer, made func(int)) error {
	out := csv.NewWriter(w)
	header := []string{"user_id", "phone", "token"}
	if path != nil {
		header = append(header, "path")
	}
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write buyers: %w", err)
	}
	rows := 0
	err := s.Mint(ctx, sessions, n, func(id int64, phone, token string) error {
		row := []string{strconv.FormatInt(id, 10), phone, token}
		if path != nil {
			row = append(row, path(id, token))
		}
		rows++
		made(rows)
		return out.Write(row)
	})
	if err != nil {
		return err
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("write buyers: %w", out.Error())
	}
	return nil
}
