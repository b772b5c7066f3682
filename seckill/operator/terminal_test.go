package operator

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A wrong word is answered with the one that was probably meant, and with all that there are, in one line, before anything starts.
func TestAWrongWordNamesTheRightOnes(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"audt":                        {2, `there is no command "audt", did you mean "audit"? The commands are serve, users, sale,`},
		"help benhc":                  {2, `did you mean "bench"?`},
		"xyzzy":                       {2, `there is no command "xyzzy". The commands are serve,`},
		"sale lst":                    {2, `did you mean "list"? The commands are new, draft, list, publish,`},
		"sale publish":                {2, `"<id>" is missing: see miaosha sale publish --help`},
		"audit all":                   {2, `unexpected argument all: see miaosha audit --help`},
		"audit --nonsense":            {2, `unknown flag --nonsense: miaosha audit --help lists those that there are`},
		"--shape second":              {2, `unknown flag --shape: it belongs to miaosha bench`},
		"bench --shap second":         {2, `did you mean "--shape"?`},
		"bench --shape secnd":         {2, `--shape: there is no "secnd", did you mean "second"? The valid ones are capacity, open, second,`},
		"lab --strategies lua,mutx":   {2, `--strategies: there is no "mutx", did you mean "mutex"? The valid ones are read-then-write, mutex,`},
		"lab --faults flood":          {2, `--faults: there is no "flood". The valid ones are kill, redis-pause, slow-postgres`},
		"--log-format xml":            {2, `--log-format: there is no "xml". The valid ones are auto, text, json`},
		"admin --phone 1 --role boss": {2, `--role: there is no "boss". The valid ones are admin, viewer`},
	} {
		out, errs, code := sandboxtest.Command(t, []string{"HOME=" + home}, strings.Fields(args)...)
		if code != want.code || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want.says) {
			t.Errorf("%s: exit %d %s%swant %d and %s", args, code, out, errs, want.code, want.says)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("wrong words made %v, %v", left, err)
	}
}

// The exit code of an audit says what is known: 0 that all is right, 1 that something is broken, 2 that the arguments are wrong,
// 3 that a store could not be asked.
func TestTheExitCodesOfAnAudit(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	sale := sandboxtest.Sale(t, env, 5)
	db := connect(t, env)
	check := func(want int, says string, env []string, args ...string) {
		t.Helper()
		out, errs, code := sandboxtest.Command(t, env, append([]string{"audit"}, args...)...)
		if code != want || !strings.Contains(out+errs, says) {
			t.Errorf("audit %v: exit %d, want %d with %q\n%s%s", args, code, want, says, out, errs)
		}
	}
	cfg := db.Config()
	check(0, "read: 1 sale, 0 orders, 0 payments and 0 tickets with a result in Postgres ("+cfg.Database+" at ", env)
	check(0, "0 gates and 0 tickets in journals in Redis (127.0.0.1:", env)
	check(2, "unknown flag --all", env, "--all")
	check(2, "MIAOSHA_SECRET", append(env, "MIAOSHA_SECRET=short"))
	check(3, "could not ask, so it is not known whether every invariant holds: --redis-url", append(env, "REDIS_URL=redis://127.0.0.1:1"))
	check(3, "could not ask, so it is not known whether every invariant holds: --database-url", append(env, "DATABASE_URL=postgres://u:p@127.0.0.1:1/d"))

	release := lock(t, db, "orders")
	audit := start(t, env, "audit")
	waitForLock(t, env)
	if errs := audit.interrupt(); audit.code() != 3 || !strings.Contains(errs, "stopped before the end") || !strings.Contains(errs, "opening the stores") {
		t.Errorf("an interrupted audit: exit %d %s", audit.code(), errs)
	}
	release()
	if _, err := db.Exec(t.Context(), `update sales set stock = stock - 1 where id = $1`, sale); err != nil {
		t.Fatal(err)
	}
	check(1, "BROKEN I1", env)
	check(1, "miaosha: an invariant is broken", env)
}

// Ctrl-C says what was done and what stays.
func TestInterruptedUsersSayWhatStays(t *testing.T) {
	t.Parallel()
	env, file := sandboxtest.Stores(t), filepath.Join(t.TempDir(), "buyers.csv")
	_, errs, code := sandboxtest.Command(t, env, "users", "-n", "3", "--out", file)
	if code != 0 || !strings.Contains(errs, "users: making 3 buyers") || !strings.Contains(errs, "users: 3 buyers are in "+file) {
		t.Errorf("exit %d %s", code, errs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	defer lock(t, connect(t, env), "users")()
	users := start(t, env, "users", "-n", "5", "--out", file)
	waitForLock(t, env)
	errs = users.interrupt()
	if users.code() != 1 || !strings.Contains(errs, "stopped: 0 of 5 buyers were made.") || !strings.Contains(errs, file+" was not written") {
		t.Errorf("exit %d %s", users.code(), errs)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A bench of an address where no shop is, or one with other stores, makes no folder, no sale and no buyer, and says so.
func TestBenchOfAWrongAddressLeavesNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	shop, other := sandboxtest.Open(t, sandboxtest.Stores(t)), sandboxtest.Stores(t)
	sandboxtest.Sale(t, other, 1)
	before := strings.Join(everything(t, other), " ")
	for _, c := range []struct {
		at, says string
		env      []string
	}{
		{"http://127.0.0.1:1", "no shop answers at http://127.0.0.1:1", []string{"HOME=" + home}},
		{"http://127.0.0.1:1", "no shop answers at http://127.0.0.1:1", other},
		{strings.Replace(other[1], "REDIS_URL=redis", "http", 1), "--url: ", other}, // a Redis
		{shop.URL, "whose sandbox does not run", []string{"HOME=" + home}},
		{shop.URL, "so it has other stores", other},
	} {
		_, errs, code := sandboxtest.Command(t, c.env, "bench", "--url", strings.TrimSuffix(c.at, "/"), "-n", "5", "--seconds", "1")
		if code != 1 || !strings.Contains(errs, c.says) || !strings.Contains(errs, "nothing was made") {
			t.Errorf("%s: exit %d %s", c.at, code, errs)
		}
	}
	if after := strings.Join(everything(t, other), " "); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A shop that stops says how many tickets it leaves to the next one.
func TestAShopThatStopsSaysWhatWaits(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off")
	shop := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 5)
	buyers := shop.Buyers(t, 2, sale)
	buyers[0].Order(t) // so there is a gate: to make one takes the table that is locked below
	if code := shop.End(syscall.SIGTERM); code != 0 || !strings.Contains(shop.Say.String(), "stopped: no ticket waits in a journal") {
		t.Errorf("exit %d %s", code, shop.Say)
	}
	shop = sandboxtest.Open(t, env)
	release := lock(t, connect(t, env), "orders") // no ticket is settled
	buyers[1].At(func() string { return shop.URL })
	sandboxtest.Until(t, "a click receives a ticket", func() bool { return buyers[1].Click(1)[0].Status == http.StatusAccepted })
	shop.End(syscall.SIGKILL)
	release()
	pool, err := pgxpool.New(t.Context(), setting(env, "DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	at, err := redis.ParseURL(setting(env, "REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(at)
	defer rdb.Close()
	var said bytes.Buffer
	sandboxtest.Until(t, "the stores answer within the limit of a goodbye", func() bool {
		said.Reset()
		Goodbye(&said, &backend.Stores{Web: pool}, rdb)
		return !strings.Contains(said.String(), "it is not known")
	})
	if !strings.Contains(said.String(), "tickets in the journals: 1, of 1 sales; another process of the shop settles them, or the next start") {
		t.Error(said.String())
	}
}

// running is a command that a test interrupts.
type running struct {
	cmd  *exec.Cmd
	errs sandboxtest.SyncBuffer
}

func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(sandboxtest.Binary(t), args...)}
	r.cmd.Env, r.cmd.Stderr = env, &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			r.cmd.Process.Kill()
			r.cmd.Wait()
		}
	})
	return r
}

// interrupt sends what Ctrl-C does, waits for the end, and returns the standard error.
func (r *running) interrupt() string {
	r.cmd.Process.Signal(syscall.SIGINT)
	r.cmd.Wait()
	return r.errs.String()
}

func (r *running) code() int { return r.cmd.ProcessState.ExitCode() }

func connect(t *testing.T, env []string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), setting(env, "DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// lock lets everyone else wait for a table until release.
func lock(t *testing.T, db *pgx.Conn, table string) (release func()) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `lock table `+table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { tx.Rollback(context.Background()) }
}

// waitForLock waits until a statement in the database waits for a lock.
func waitForLock(t *testing.T, env []string) {
	t.Helper()
	db := connect(t, env)
	sandboxtest.Until(t, "a statement waits for the lock", func() bool {
		var n int
		if err := db.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}
