package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The command judges a program in a file and shows the schedule that breaks it.
func TestLabJudgesAProgram(t *testing.T) {
	t.Parallel()
	env, dir := sandboxtest.Stores(t), t.TempDir()
	write := func(name, source string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	guard := "update item set stock = stock - 1 where stock > 0;\n-- think\ninsert into orders (user_id) values (:user);\n"
	args := []string{"lab", "--buyers", "20", "--stock", "5", "--mine-file"}

	out, errs, code := sandboxtest.Command(t, env, append(args, write("guard.sql", guard))...)
	for _, want := range []string{"WRONG", "double_delivery: ", "one buyer, stock 2, 0 switches", "line 3: insert into orders (user_id) values (1) -> 1 row", "orders [1 1]   <- here"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("exit %d, want %q: %s%s", code, want, out, errs)
		}
	}
	for name, test := range map[string]struct{ file, want string }{
		"another language": {write("way.py", guard), "lua or sql"},
		"nothing in it":    {write("empty.lua", " \n"), "source: required"},
		"no file":          {filepath.Join(dir, "none.lua"), "no such file"},
	} {
		if _, errs, code := sandboxtest.Command(t, env, append(args, test.file)...); code != exitUsage || !strings.Contains(errs, test.want) {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
	if _, errs, code := sandboxtest.Command(t, env, append(args, write("same.sql", guard), "--faults", "flood")...); code != exitUsage || !strings.Contains(errs, "lost-reply") {
		t.Errorf("an unknown fault: exit %d, %s", code, errs)
	}
}
