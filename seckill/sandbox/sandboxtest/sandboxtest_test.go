package sandboxtest_test

import (
	"fmt"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// Every test has the schema, and none sees what another wrote.
func TestDatabasesAreApart(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			db := sandboxtest.DB(t)
			if _, err := db.Exec(t.Context(), `insert into goods (title) values ('tea')`); err != nil {
				t.Fatal(err)
			}
			var id, n int
			if err := db.QueryRow(t.Context(), `select max(id), count(*) from goods`).Scan(&id, &n); err != nil {
				t.Fatal(err)
			}
			if id != 1 || n != 1 {
				t.Errorf("id %d of %d goods, want the first of one", id, n)
			}
		})
	}
}

// Redis databases that are in use at one time are different, and one that is used again is empty.
func TestRedisDatabasesAreApart(t *testing.T) {
	for range 2 { // the second time the numbers of the first
		t.Run("", func(t *testing.T) {
			for i := range 8 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					c := sandboxtest.Redis(t)
					if n, err := c.Incr(t.Context(), "n").Result(); n != 1 || err != nil {
						t.Errorf("first increment of a key is %d, %v", n, err)
					}
				})
			}
		})
	}
}
