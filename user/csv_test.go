package user

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMintCSV(t *testing.T) {
	s := newShop(t)
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	for _, path := range []func(int64, string) string{nil, func(id int64, token string) string { return fmt.Sprint(id, "/", token) }} {
		var out bytes.Buffer
		var made []int
		if err := s.MintCSV(t.Context(), sessions, 3, path, &out, func(n int) { made = append(made, n) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1, 2, 3}, made); diff != "" {
			t.Error(diff)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) != 4 {
			t.Fatalf("rows %v, %v; want a header and 3 buyers", rows, err)
		}
		want := []string{"user_id", "phone", "token"}
		if path != nil {
			want = append(want, "path")
		}
		if diff := cmp.Diff(want, rows[0]); diff != "" {
			t.Error(diff)
		}
		for _, row := range rows[1:] {
			session, err := sessions.Get(t.Context(), row[2])
			if err != nil {
				t.Fatal(err)
			}
			u, err := s.ByID(t.Context(), session.UserID)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprint(u.ID), u.Phone, row[2]}
			if path != nil {
				want = append(want, path(u.ID, row[2]))
			}
			if diff := cmp.Diff(want, row); diff != "" {
				t.Error(diff)
			}
		}
	}
}
