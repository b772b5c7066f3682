package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// whole is an administrator who looks.
var whole = By{UserID: 1, Whole: true}

func TestMask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        Kind
		value, want string
	}{
		{Telephone, "13800138000", "138****8000"},
		{Telephone, "138****8000", "138****8000"}, // a list masks for the whole staff
		{Telephone, "+442079460958", "+44****0958"},
		{Telephone, "010-88886666", "010****6666"},
		{Telephone, "1234567890", "***"},
		{Telephone, "95588", "***"},
		{Telephone, "bank transfer", "***"},
		{Name, "王小明", "王***"},
		{Name, "王", "***"},
		{Name, "Alice Smith", "A***"},
		{Address, "北京市海淀区中关村大街 1 号 2 单元 301", "北京市海淀区***"},
		{Address, "大街 1 号", "大街***"},
		{Number, "SF1234567890", "***7890"},
		{Number, "SF12345", "***"},
		{Text, "to Alice by bank", "***"},
		{Nickname, "小明 2026", "小明 2026"},
		{Nickname, "小明 138-0013-8000", "小***"},
		{Nickname, "１３８００１３８０００", "１***"},
		{Nickname, "", ""}, {Telephone, "", ""}, {Text, "", ""}, {Name, "", ""}, {Address, "", ""}, {Number, "", ""},
	} {
		if got := Mask(c.kind, c.value); got != c.want {
			t.Errorf("%d %q: %q, want %q", c.kind, c.value, got, c.want)
		}
	}
}

// The documents of the log have each number as it is, and what tells of a person masked for a viewer.
func TestDocumentsOfTheLogAreMasked(t *testing.T) {
	t.Parallel()
	const stored = `{"note": "to Alice", "epoch": 9007199254740993, "reference": "4200001234567890", "status": "paid", "tracking": null}`
	for by, want := range map[bool]string{true: stored, false: `{"epoch":9007199254740993,"note":"***","reference":"***7890","status":"paid","tracking":null}`} {
		document := json.RawMessage(stored)
		if err := (By{Whole: by}).seesDocument(&document); err != nil || string(document) != want {
			t.Errorf("whole %t: %s, %v; want %s", by, document, err, want)
		}
	}
}

// A viewer finds an account by a number of its own, by the beginning of a nickname, or by a whole phone, a few times in a day. No
// search tells a part of a phone, also not one that is a nickname.
func TestAViewerSearchesForWholePhones(t *testing.T) {
	s, db := newPeople(t, "admin", "viewer", "buyer", "viewer")
	if _, err := db.Exec(t.Context(), `update users set nickname = '小明 138-0000-0003' where id = 3`); err != nil {
		t.Fatal(err)
	}
	viewer := By{UserID: 2, From: "test"}
	counted := func() (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `select count(*) from admin_log where action = 'staff.search'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for what, c := range map[string]struct {
		f     PeopleFilter
		want  string
		count int
	}{
		"a phone":                  {PeopleFilter{Q: "13800000003"}, "3 138****0003 小***", 1},
		"a typed phone":            {PeopleFilter{Q: "138 0000 0004", Or: "13800000004"}, "4 138****0004 viewer_4", 1},
		"a part of one":            {PeopleFilter{Q: "1380000000"}, "", 1},
		"six digits":               {PeopleFilter{Q: "138000"}, "", 0},
		"an id":                    {PeopleFilter{Q: "3"}, "3 138****0003 小***", 0},
		"a long id":                {PeopleFilter{Q: "#10000003", Or: "10000003"}, "", 0},
		"a phone that is no id":    {PeopleFilter{Q: "#13800000003", Or: "13800000003"}, "", 0},
		"nothing":                  {PeopleFilter{Q: "0"}, "", 1},
		"a nickname with a phone":  {PeopleFilter{Q: "小明 1"}, "", 0},
		"a nickname without one":   {PeopleFilter{Q: "buyer_4"}, "", 0},
		"a viewer by the nickname": {PeopleFilter{Q: "viewer"}, "4 138****0004 viewer_4; 2 138****0002 viewer_2", 0},
	} {
		was := counted()
		people, _, err := s.People(t.Context(), viewer, c.f)
		var found []string
		for _, p := range people {
			found = append(found, strings.Join([]string{string(rune('0' + p.ID)), p.Phone, p.Nickname}, " "))
		}
		if got := strings.Join(found, "; "); err != nil || got != c.want || counted()-was != c.count {
			t.Errorf("%s: %q, %v, counted %d times; want %q, %d", what, got, err, counted()-was, c.want, c.count)
		}
	}
	if p, err := s.PersonByID(t.Context(), viewer, 3); err != nil || p.Phone != "138****0003" || p.Nickname != "小***" {
		t.Errorf("the account: %+v, %v", p, err)
	}
	lines, _, err := s.Log(t.Context(), viewer, LogFilter{Action: "staff.search"})
	if err != nil || len(lines) == 0 || strings.Contains(string(lines[0].After), "13800000003") {
		t.Errorf("the lines %+v, %v", lines, err)
	}
}

// Of many searches at once, for people and for orders, an account has HiddenSearches in a day and one more when the first is a
// day old; the same text again is the same search. Another account has its own, and an administrator as many as they like.
func TestSearchesForWholePhonesAreCounted(t *testing.T) {
	s, db := newPeople(t, "admin", "viewer", "buyer", "viewer")
	search := func(by By, n int) error {
		phone := fmt.Sprint(13800000003 + n)
		if n%2 == 0 {
			_, _, err := s.People(t.Context(), by, PeopleFilter{Q: phone})
			return err
		}
		_, _, err := s.Orders(t.Context(), by, OrderFilter{Q: phone}, 1)
		return err
	}
	var wait sync.WaitGroup
	results := make(chan error, 2*HiddenSearches)
	for n := range cap(results) {
		wait.Go(func() { results <- search(By{UserID: 2, From: "test"}, n) })
	}
	wait.Wait()
	close(results)
	got := map[string]int{}
	for err := range results {
		tooMany, is := errors.AsType[TooManySearchesError](err)
		switch {
		case err == nil:
			got["found"]++
		case is && tooMany.In > 23*time.Hour && tooMany.In <= 24*time.Hour:
			got["refused"]++
		default:
			t.Error(err)
		}
	}
	if want := map[string]int{"found": HiddenSearches, "refused": HiddenSearches}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, by := range map[string]By{"another viewer": {UserID: 4, From: "test"}, "an administrator": whole} {
		if err := search(by, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `
			alter table admin_log disable trigger admin_log_is_append_only;
			update admin_log set at = at - interval '24 hours' where id = (select min(id) from admin_log where action = 'staff.search');
			alter table admin_log enable trigger admin_log_is_append_only`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int
		want bool
	}{{1000, true}, {1001, false}, {1000, true}, {1000, true}} { // again what was searched for a moment ago
		if err := search(By{UserID: 2, From: "test"}, c.n); (err == nil) != c.want {
			t.Errorf("a day after the first: search %d: %v", c.n, err)
		}
	}
}

// However many lines an account has, a search reads those of a day.
func TestASearchReadsTheLinesOfADay(t *testing.T) {
	s, db := newPeople(t, "admin", "viewer")
	_, err := db.Exec(t.Context(), `
		insert into admin_log (at, by_user, origin, action, subject)
		select clock_timestamp() - interval '3 days', 1 + n % 10, 'test', 'staff.file', 'orders.csv' from generate_series(1, 20000) n`)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, _, err := s.People(t.Context(), By{UserID: 2, From: "test"}, PeopleFilter{Q: fmt.Sprint(13800000003 + n)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(t.Context(), `analyze admin_log`); err != nil {
		t.Fatal(err)
	}
	rows, _ := db.Query(t.Context(), "explain (analyze, costs off, timing off) "+lastSearches, pgx.QueryExecModeCacheDescribe, int64(2), []byte("x"), HiddenSearches)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, line := range plan {
		for _, n := range regexp.MustCompile(`(?:Scan .*rows=|Removed by Filter: )(\d+)`).FindAllStringSubmatch(line, -1) {
			more, err := strconv.Atoi(n[1])
			if err != nil {
				t.Fatal(err)
			}
			read += more
		}
	}
	if read < 4 || read > 20 {
		t.Errorf("%d rows are read\n%s", read, strings.Join(plan, "\n"))
	}
}
