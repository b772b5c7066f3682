package sandboxtest_test

import (
	"fmt"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Every test has the schema, and sees no rows of another test.
func TestDatabasesAreSeparate(t *testing.T) {
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
