package operator

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/captcha"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// The life of a sale by command. Each verb says what became of the gate, and then a click at a running shop hears the same.
func TestTheVerbsOfASale(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_TIME_ZONE=Asia/Shanghai")
	s := sandboxtest.Open(t, env)
	id := strings.TrimSpace(sandboxtest.MustCommand(t, env, "sale", "draft", "--title", "茶", "--price", "990", "--stock", "5"))
	var buyers []*sandboxtest.Buyer
	for _, step := range []struct{ verb, says, click string }{
		{"pause", "cannot pause this sale: it is a draft", ""},
		{"publish", "the stock is in the gate: it has 5 units", "ok"},
		{"publish", "cannot publish this sale: it is published", "ok"},
		{"pause", "the gate is paused and has 3 units", "paused"},
		{"add --units 4", "the gate is paused and has 7 units", "paused"},
		{"resume", "the stock is in the gate: it has 7 units", "ok"},
		{"add --units=-7", "cannot add units to this sale: 6 of its units are unsold", "ok"},
		{"add --units=-5", "the stock is in the gate: it has 0 units", "sold_out"},
		{"add --units 1", "the stock is in the gate: it has 1 units", "ok"},
		{"add --units 0", "--units: must be a number other than 0", "sold_out"},
		{"window --start 10m", "it is open, or opens within three seconds, so its start stays", "sold_out"},
		{"window --end 2020-01-01T00:00:00Z", "--end: must be after the start", "sold_out"},
		{"window --end +90m", "the stock is in the gate: it has 0 units", "sold_out"},
		{"close", "the gate is closed and has 0 units", "ended"},
		{"resume", "cannot resume this sale: it is closed", "ended"},
	} {
		words := strings.Fields(step.verb)
		before := time.Now()
		_, says, code := sandboxtest.Command(t, env, append([]string{"sale", words[0], id}, words[1:]...)...)
		if !strings.Contains(says, step.says) || strings.Count(says, "\n") != 1 || (code == 0) == strings.HasPrefix(says, "miaosha: ") {
			t.Fatalf("%s after %v: exit %d, %swant %q", step.verb, time.Since(before), code, says, step.says)
		}
		if buyers == nil && step.click != "" { // the sale is published
			buyers = s.Buyers(t, 20, id)
		}
		switch step.click {
		case "":
			continue
		case "ok":
			buyers[0].Order(t)
		default:
			b := buyers[0]
			if r := b.Insist(time.Now().Add(sandboxtest.Hang), "buy", "POST", "/api/sales/"+id+"/buy/"+b.Path, ""); r.Code != step.click {
				t.Fatalf("after %s a click hears %d %s, want %s", step.verb, r.Status, r.Code, step.click)
			}
		}
		buyers = buyers[1:]
	}
	want := goods.Listed{Title: "茶", State: goods.Closed, Total: 5, Pending: 5}
	got := listed(t, env, id)
	if length := got.EndsAt.Sub(got.StartsAt); length != 90*time.Minute {
		t.Errorf("the sale is %v long, want 90 min", length)
	}
	got.ID, got.StartsAt, got.EndsAt = 0, time.Time{}, time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	table := sandboxtest.MustCommand(t, env, "sale", "list")
	if !regexp.MustCompile(`(?m)^` + id + ` +closed +\S+ \S+ +\S+ \S+ +5 +0 +5 +0 +茶$`).MatchString(table) {
		t.Error(table)
	}
	if out := sandboxtest.MustCommand(t, env, "audit"); !strings.Contains(out, "every invariant holds") {
		t.Error(out)
	}
}

func listed(t *testing.T, env []string, id string) goods.Listed {
	t.Helper()
	var all []goods.Listed
	if err := json.Unmarshal([]byte(sandboxtest.MustCommand(t, env, "sale", "list", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if strconv.FormatInt(l.ID, 10) == id {
			return l
		}
	}
	t.Fatalf("sale %s is not listed: %+v", id, all)
	return goods.Listed{}
}

// Without a shop, and before a sale has a gate, a verb says so. Times are in the shop's zone.
func TestAVerbWithoutAGateSaysWhy(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_TIME_ZONE=Asia/Shanghai")
	over := sandboxtest.Sale(t, env, 3, "--end", "1s")
	sandboxtest.Until(t, "a sale that is over is named", func() bool {
		_, says, code := sandboxtest.Command(t, env, "users", "-n", "1", "--sale", over)
		return code == 0 && strings.Contains(says, "--sale "+over+": this sale is over")
	})
	now, far := sandboxtest.Sale(t, env, 3), sandboxtest.Sale(t, env, 3, "--start", "2099-11-11 20:00", "--end", "22:00")
	if l := listed(t, env, far); !l.StartsAt.Equal(time.Date(2099, 11, 11, 12, 0, 0, 0, time.UTC)) || l.EndsAt.Sub(l.StartsAt) != 2*time.Hour {
		t.Errorf("the sale is from %v to %v", l.StartsAt, l.EndsAt)
	}
	for _, test := range []struct {
		says string
		args []string
	}{
		{"its gate has not followed yet: no shop with a gate runs", []string{"pause", now}},
		{"it gets one at 2099-11-11 19:50:00", []string{"pause", far}},
		{"it gets one at 2099-11-11 09:50:00", []string{"window", far, "--start", "2099-11-11 10:00"}},
		{"the sale has no gate", []string{"close", far}},
		{"a draft has no gate", []string{"add", strings.TrimSpace(sandboxtest.MustCommand(t, env, "sale", "draft", "--title", "T")), "--units", "1"}},
		{"--start, --end: one of them is needed", []string{"window", now}},
		{`sale 999: sale not found`, []string{"window", "999", "--end", "1h"}},
		{`sale 999: sale not found`, []string{"pause", "999"}},
		{`--start: "soon" is not valid`, []string{"window", now, "--start", "soon"}},
		{`--time-zone: "Mars/Olympus" is not known`, []string{"list", "--time-zone", "Mars/Olympus"}},
	} {
		_, says, _ := sandboxtest.Command(t, env, append([]string{"sale"}, test.args...)...)
		if !strings.Contains(says, test.says) || strings.Count(says, "\n") != 1 {
			t.Errorf("%v: %swant one line with %q", test.args, says, test.says)
		}
	}
}

// A number out of its range is refused with the range.
func TestNumbersOfASaleHaveBounds(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	for says, args := range map[string][]string{
		"--price: must be 0 to 999999999 (fen)":          {"--price", "1000000000"},
		"--list-price: must be 0 to 999999999 (fen)":     {"--list-price", "9223372036854775807"},
		"--stock: must be 1 to 2147483647":               {"--stock", "2147483648"},
		"--end: must be within the years 2000 to 2099":   {"--end", "2100-01-02 20:00"},
		"--start: must be within the years 2000 to 2099": {"--start", "9998-01-01 20:00", "--end", "21:00"},
	} {
		if _, out, code := sandboxtest.Command(t, env, append([]string{"sale", "--title", "x"}, args...)...); code == 0 || !strings.Contains(out, says) {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
}

// An error is read by people at a terminal: its text begins with what is wrong, not with the name of a package.
func TestNoErrorBeginsWithAPackage(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile(`(?:errors\.New|Errorf|Sprintf)\("([a-z]+): [^%]|Error\(\) string \{ return "([a-z]+): `)
	packages, found := map[string]bool{}, 0
	var sources []string
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			sources = append(sources, path)
			packages[filepath.Base(filepath.Dir(path))] = true
		}
		return err
	})
	if err != nil || !packages["goods"] {
		t.Fatal(packages, err)
	}
	for _, path := range sources {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range text.FindAllStringSubmatch(string(b), -1) {
			found++
			if packages[m[1]+m[2]] {
				t.Errorf("%s: %s", path, m[0])
			}
		}
	}
	if found == 0 {
		t.Error("no text with a word and a colon was found: the check is blind")
	}
	for _, err := range []error{goods.ErrNoSale, goods.ErrPaused, goods.ErrEnded, goods.ErrSoldOut, goods.NotStartedError{In: 1}, goods.InvalidError{Field: "x"},
		goods.TransitionError{Do: "x"}, user.ErrWrongPassword, user.ErrNotFound, user.ErrNotByAdmin, user.ErrUnavailable, user.TooManyError{}, user.InvalidError{},
		order.ErrNotFound, order.ErrWrongStatus, seckill.ErrBusy, captcha.ErrWrong, seckill.ErrBadAddress, seckill.TooManyError{}, gate.ErrNoGate, ErrBroken} {
		printed := fmt.Sprint("miaosha: ", err)
		if first := strings.SplitN(printed, ": ", 3)[1]; packages[first] {
			t.Errorf("%q begins with the package %s", printed, first)
		}
	}
}

// A command whose commit has no answer does not say that it failed: a second one would add the units again.
func TestAVerbWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	id := strings.TrimSpace(sandboxtest.MustCommand(t, env, "sale", "--title", "茶", "--stock", "5"))
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(env[0], "DATABASE_URL="))
	lossy := append([]string{"DATABASE_URL=" + through}, env[1:]...)
	for _, args := range [][]string{{"add", id, "--units", "4"}, {"draft", "--title", "茶"}} {
		proxy.Lose("COMMIT", 1)
		_, says, code := sandboxtest.Command(t, lossy, append([]string{"sale"}, args...)...)
		if code == 0 || !strings.Contains(says, "it is unknown whether this was done: ") || !strings.Contains(says, "; see miaosha sale list before you run it again") {
			t.Errorf("sale %s: exit %d, %s", args, code, says)
		}
	}
	if list := sandboxtest.MustCommand(t, env, "sale", "list"); !strings.Contains(list, " 9 ") || strings.Count(list, "茶") != 2 {
		t.Errorf("the sales are\n%s", list)
	}
}
