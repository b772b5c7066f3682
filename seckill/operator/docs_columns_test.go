package operator

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// How the SQL of the shop writes columns.
var (
	reInsert   = regexp.MustCompile(`insert into (\w+) \(([^)]*)\)`)
	reUpdate   = regexp.MustCompile(`(?s)update (\w+)(?: \w)?\s+set\s+(.*?)(?:\sfrom\s|\swhere\s|\sreturning\s|$)`)
	reConflict = regexp.MustCompile(`(?s)insert into (\w+) \(.*?on\s+conflict \(\w+\) do update\s+set\s+(.*?)(?:\swhere\s|\sreturning\s|$)`)
	reSet      = regexp.MustCompile(`(?:^|,)\s*(\w+)\s*=`)
	reSQL      = regexp.MustCompile("(?s)`[^`]*`")
)

// columnsWritten returns each verb, table and column that the SQL of the shop and of its commands writes, such as "insert
// pictures.width". The sandbox's demo, the lab, the load tool and miaosha archive run with an owner's rights.
func columnsWritten(t *testing.T) (all []string) {
	t.Helper()
	found := map[string]bool{}
	for _, root := range []string{"user", "goods", "order", "seckill"} {
		err := filepath.WalkDir("../../"+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && slices.Contains([]string{"lab", "sandbox", "faults", "checks", "testdata", "bench", "audit", "archive"}, d.Name()) {
				return cmp.Or(err, fs.SkipDir)
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || slices.Contains([]string{"bench_fill.go", "demo.go"}, d.Name()) {
				return nil
			}
			source, err := os.ReadFile(path)
			for _, sql := range reSQL.FindAllString(string(source), -1) {
				sql = strings.Trim(sql, "`")
				for _, m := range reInsert.FindAllStringSubmatch(sql, -1) {
					for _, column := range strings.Split(m[2], ",") {
						found["insert "+m[1]+"."+strings.TrimSpace(column)] = true
					}
				}
				for _, re := range []*regexp.Regexp{reUpdate, reConflict} {
					for _, m := range re.FindAllStringSubmatch(sql, -1) {
						for _, set := range reSet.FindAllStringSubmatch(m[2], -1) {
							found["update "+m[1]+"."+set[1]] = true
						}
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// checkColumns compares what the role may write, column by column, with what the SQL of the shop writes.
func checkColumns(t *testing.T, owner *pgx.Conn) {
	t.Helper()
	rows, _ := owner.Query(t.Context(), `
		select verb || ' ' || c.relname || '.' || a.attname
		from   pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		cross  join unnest('{insert,update,references}'::text[]) verb
		where  c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and has_column_privilege('shop', c.oid, a.attname, verb)
		union all
		select verb || ' ' || c.relname
		from   pg_class c cross join unnest('{delete,truncate,trigger}'::text[]) verb
		where  c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and has_table_privilege('shop', c.oid, verb)`)
	may, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(may)
	if diff := gocmp.Diff(columnsWritten(t), may); diff != "" {
		t.Errorf("what the shop writes and what its role may write (- written and not granted, + granted and not written):\n%s", diff)
	}
}
