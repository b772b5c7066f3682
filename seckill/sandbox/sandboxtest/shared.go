package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// packageShop is the shop that the tests of a package share.
var packageShop struct {
	once sync.Once
	tb   packageTB
	shop *Shop
	env  []string

	settings []string
}

// Shared returns the shop that all tests of this binary share, with its environment. The first call
// opens it, with settings that follow those of Stores; all calls must name the same ones. At the end Main
// audits it, so a test leaves no order or ticket that is wrong, and kills it.
//
// A test makes its own sale and its own users in it, and asserts nothing about all sales, all users or the
// whole log: others are at work beside it. A test that breaks, configures or counts a shop opens its own.
func Shared(t testing.TB, settings ...string) (*Shop, []string) {
	t.Helper()
	packageShop.once.Do(func() {
		tb := &packageShop.tb
		tb.TB, packageShop.settings = t, settings
		env := append(Stores(tb), settings...)
		packageShop.shop, packageShop.env = Open(tb, env), env
	})
	if packageShop.shop == nil {
		t.Fatal("the shop of the package did not open")
	}
	if !slices.Equal(packageShop.settings, settings) {
		t.Fatalf("the shop of the package has the settings %v, not %v", packageShop.settings, settings)
	}
	return packageShop.shop, packageShop.env
}

// endShared audits and ends the shop that the tests have shared, and reports whether all was well.
func endShared() bool {
	tb := &packageShop.tb
	tb.ended = true
	if packageShop.shop == nil {
		return tb.end()
	}
	ageRefunds(tb, strings.TrimPrefix(packageShop.env[0], "DATABASE_URL="))
	var out, errs string
	if !Poll(func() bool { // tickets that are still in the queue get their results
		var code int
		out, errs, code = Command(tb, packageShop.env, "audit")
		return code == 0
	}) {
		tb.Errorf("the audit of the shop that the tests share:\n%s%s", out, errs)
	}
	return tb.end()
}

// ageRefunds dates the refunds that are due an hour back: the audit calls one that a test has left due broken after
// minutes, and a run that is shorter than that would not show it.
func ageRefunds(t testing.TB, databaseURL string) {
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	db, err := pgx.Connect(ctx, databaseURL)
	if err == nil {
		_, err = db.Exec(ctx, `update payments set updated_at = updated_at - interval '1 hour' where status = 'refund_due'`)
		db.Close(ctx)
	}
	if err != nil {
		t.Errorf("date the refunds back: %v", err)
	}
}

// packageTB stands for all tests of a package: what ends with it ends when they all have ended. Until then
// a failure is that of the test that called first.
type packageTB struct {
	testing.TB
	ends   []func()
	ended  bool
	failed bool
}

func (p *packageTB) Helper() {}

// Cleanup calls f when all tests have ended.
func (p *packageTB) Cleanup(f func()) { p.ends = append(p.ends, f) }

// TempDir returns a folder that is deleted when all tests have ended.
func (p *packageTB) TempDir() string {
	dir, err := os.MkdirTemp("", "miaosha-shared-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Errorf fails the test that called first, or the whole run when the tests have ended.
func (p *packageTB) Errorf(format string, args ...any) {
	if !p.ended {
		p.TB.Errorf(format, args...)
		return
	}
	p.failed = true
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (p *packageTB) Error(args ...any) { p.Errorf("%s", fmt.Sprint(args...)) }

// Fatalf is Errorf, and ends the goroutine of a test that still runs. When the tests have ended it goes on.
func (p *packageTB) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	if !p.ended {
		p.TB.FailNow()
	}
}

func (p *packageTB) Fatal(args ...any) { p.Fatalf("%s", fmt.Sprint(args...)) }

// end calls what Cleanup was given, the last first.
func (p *packageTB) end() bool {
	for _, f := range slices.Backward(p.ends) {
		f()
	}
	return !p.failed
}
