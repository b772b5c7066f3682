package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// newPeople returns a Store on a fresh database with accounts of these roles, whose ids are 1, 2, ...
func newPeople(t *testing.T, roles ...string) (*Store, *pgxpool.Pool) {
	t.Helper()
	s, db, _ := newShop(t)
	for i, role := range roles {
		if _, err := db.Exec(t.Context(), `insert into users (phone, nickname, role) values ($1, $2, $3)`,
			fmt.Sprint(13800000001+i), fmt.Sprintf("%s_%d", role, i+1), role); err != nil {
			t.Fatal(err)
		}
	}
	return s, db
}

func by(id int64) By { return By{UserID: id, From: "127.0.0.1"} }

func TestActionsOnPeople(t *testing.T) {
	s, _ := newPeople(t, "admin", "buyer", "viewer")
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"make a viewer", s.SetRole(t.Context(), by(1), 2, "viewer"), nil},
		{"the same again", s.SetRole(t.Context(), by(1), 2, "viewer"), nil},
		{"disable", s.Disable(t.Context(), by(1), 2), nil},
		{"the same again", s.Disable(t.Context(), by(1), 2), nil},
		{"enable", s.Enable(t.Context(), by(1), 2), nil},
		{"one's own role", s.SetRole(t.Context(), by(1), 1, "buyer"), ErrOwnAccount},
		{"one's own account", s.Disable(t.Context(), by(1), 1), ErrOwnAccount},
		{"by a viewer", s.SetRole(t.Context(), by(3), 2, "admin"), ErrNoLongerStaff},
		{"by a viewer", s.Disable(t.Context(), by(3), 1), ErrNoLongerStaff},
		{"by no user", s.Disable(t.Context(), By{From: "a command"}, 2), ErrNoLongerStaff},
		{"a stranger", s.SetRole(t.Context(), by(1), 99, "viewer"), ErrNoUser},
		{"a stranger", s.Enable(t.Context(), by(1), 99), ErrNoUser},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.err, c.want)
		}
	}
	want := []string{"user.enable user 2 127.0.0.1", "user.disable user 2 127.0.0.1", "user.role user 2 127.0.0.1"}
	if got := lines(t, s); !cmp.Equal(got, want) {
		t.Errorf("the log: %s", cmp.Diff(want, got))
	}
	p, err := s.PersonByID(t.Context(), whole, 2)
	if err != nil || p.Role != "viewer" || p.DisabledAt != nil || len(p.Roles) != 1 || p.Roles[0].To != "viewer" || *p.Roles[0].ByUser != 1 {
		t.Errorf("the account is %+v, %v", p, err)
	}
	if _, err := s.PersonByID(t.Context(), whole, 99); !errors.Is(err, ErrNoUser) {
		t.Errorf("a stranger: %v", err)
	}
}

// When two administrators act on each other at the same moment, one of them stays.
func TestAShopKeepsAnAdministrator(t *testing.T) {
	s, db := newPeople(t, "admin", "admin")
	for first, sql := range map[string]string{"demoted": `select change_role(1, 2, 'buyer')`, "disabled": `select disable_user(1, 2, true)`} {
		for second, act := range map[string]func() error{
			"demotes":  func() error { return s.SetRole(t.Context(), by(2), 1, "buyer") },
			"disables": func() error { return s.Disable(t.Context(), by(2), 1) },
		} {
			if _, err := db.Exec(t.Context(), `update users set role = 'admin', disabled_at = null`); err != nil {
				t.Fatal(err)
			}
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- act() }()
			sandboxtest.Until(t, "the second one waits or has acted", func() bool {
				var waits bool
				if err := db.QueryRow(t.Context(), `select exists (select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database()))`).Scan(&waits); err != nil {
					t.Fatal(err)
				}
				return waits || len(done) > 0
			})
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, ErrNoLongerStaff) {
				t.Errorf("an administrator who is being %s %s the other: %v, want ErrNoLongerStaff", first, second, err)
			}
		}
	}
}

func TestPeopleAreFound(t *testing.T) {
	s, db := newPeople(t, "admin", "buyer", "viewer", "buyer")
	if _, err := db.Exec(t.Context(), `
		update users set disabled_at = now() where id = 4;
		update users set nickname = '#2 138 0000 0003' where id = 3;
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values (gen_random_uuid(), 4, 1, 't', 'kettle', 1, now())`); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	for what, c := range map[string]struct {
		f    PeopleFilter
		want []int64
	}{
		"all":              {PeopleFilter{}, []int64{4, 3, 2, 1}},
		"a phone":          {PeopleFilter{Q: "13800000003"}, []int64{3}},
		"a part of one":    {PeopleFilter{Q: "1380000000"}, nil},
		"an id":            {PeopleFilter{Q: "2"}, []int64{2}},
		"a long number":    {PeopleFilter{Q: strings.Repeat("9", 99)}, nil},
		"a typed id":       {PeopleFilter{Q: "#2", Or: "2"}, []int64{2}},
		"a typed phone":    {PeopleFilter{Q: "138 0000 0003", Or: "13800000003"}, []int64{3}},
		"either":           {PeopleFilter{Q: "buy 3", Or: "3"}, []int64{3}},
		"a sign":           {PeopleFilter{Q: "#2 "}, []int64{3}},
		"a beginning":      {PeopleFilter{Q: "buy"}, []int64{4, 2}},
		"a letter":         {PeopleFilter{Q: "buyer_2"}, []int64{2}},
		"no wildcard":      {PeopleFilter{Q: "%"}, nil},
		"no wildcard, one": {PeopleFilter{Q: "buye__"}, nil},
		"a role":           {PeopleFilter{Role: "viewer"}, []int64{3}},
		"disabled":         {PeopleFilter{Disabled: &yes}, []int64{4}},
		"in use":           {PeopleFilter{Disabled: &no, Role: "buyer"}, []int64{2}},
		"from a cursor":    {PeopleFilter{Cursor: 3}, []int64{2, 1}},
	} {
		people, next, err := s.People(t.Context(), whole, c.f)
		var ids []int64
		for _, p := range people {
			ids = append(ids, p.ID)
		}
		if err != nil || next != 0 || !cmp.Equal(ids, c.want) {
			t.Errorf("%s: %v, next %d, %v; want %v", what, ids, next, err, c.want)
		}
	}
	if p, err := s.PersonByID(t.Context(), whole, 4); err != nil || p.Orders["pending"] != 1 || p.DisabledAt == nil {
		t.Errorf("the account is %+v, %v", p, err)
	}
	if _, err := db.Exec(t.Context(), `insert into users (phone) select (13900000000 + n)::text from generate_series(1, $1) n`, peoplePage); err != nil {
		t.Fatal(err)
	}
	first, next, err := s.People(t.Context(), whole, PeopleFilter{})
	if err != nil || len(first) != peoplePage || next == 0 {
		t.Fatalf("%d accounts, next %d, %v", len(first), next, err)
	}
	if rest, last, err := s.People(t.Context(), whole, PeopleFilter{Cursor: next}); err != nil || len(rest) != 4 || last != 0 {
		t.Errorf("the second page: %d accounts, next %d, %v", len(rest), last, err)
	}
}
