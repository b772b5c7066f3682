package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Refusals of actions on people.
var (
	ErrNoUser         = errors.New("user not found")
	ErrOwnAccount     = errors.New("the administrator's own account")
	ErrNoLongerStaff  = errors.New("the acting user is no longer an administrator")
	errNothingChanged = errors.New("nothing to change")
)

// Person is an account as the staff sees it.
type Person struct {
	ID         int64      `json:"user_id"`
	Phone      string     `json:"phone"`
	Nickname   string     `json:"nickname"`
	Role       string     `json:"role"`
	CreatedAt  time.Time  `json:"created_at"`
	DisabledAt *time.Time `json:"disabled_at"` // null for an account that is in use
}

const personColumns = `u.id, u.phone, u.nickname, u.role, u.created_at, u.disabled_at`

// PeopleFilter selects accounts. A zero field selects all.
type PeopleFilter struct {
	Q        string // digits: a phone, whole, or a user's id; else the beginning of a nickname
	Or       string // the digits that Q may mean too, if it has other characters
	Role     string
	Disabled *bool
	Cursor   int64 // accounts before this id
}

// peoplePage is the number of accounts in one page.
const peoplePage = 50

// People returns a page of accounts as by sees them, newest first, and the cursor of the next page, 0 after the last
// one. Whoever sees phones in part may search for a whole one a few times in a day (TooManySearchesError); up to six
// digits, and those behind a #, are then the number of an account alone, and no nickname is found that may be a phone.
func (s *Store) People(ctx context.Context, by By, f PeopleFilter) (people []Person, next int64, err error) {
	phone, nickname := f.Or, ""
	if strings.Trim(f.Q, "0123456789+") == "" {
		phone = cmp.Or(f.Or, f.Q)
	} else if f.Or == "" || strings.ContainsFunc(f.Q, unicode.IsLetter) {
		// a telephone as it is typed reads no nickname
		nickname = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Q) + "%"
	}
	id, _ := strconv.ParseInt(phone, 10, 64) // a phone with more digits is no id
	if phone != "" && !by.Whole {
		if id > 0 && (len(phone) < digitsOfTelephone || strings.HasPrefix(f.Q, "#")) {
			phone = ""
		} else if err := s.searched(ctx, by, phone); err != nil {
			return nil, 0, err
		}
	}
	rows, _ := s.db.Query(ctx, `
		select `+personColumns+`
		from   users u
		where ($1 = '' and $2::bigint = 0 and $3 = '' or $1 <> '' and u.phone = $1 or u.id = $2 or $3 <> '' and u.nickname like $3
		       and ($8 or length(regexp_replace(normalize(u.nickname, NFKC), '[^0-9]', '', 'g')) < $9::integer))
		and   ($4 = '' or u.role = $4)
		and   ($5::boolean is null or (u.disabled_at is not null) = $5)
		and   ($6::bigint = 0 or u.id < $6)
		order  by u.id desc
		limit  $7`, phone, id, nickname, f.Role, f.Disabled, f.Cursor, peoplePage+1, by.Whole, digitsOfTelephone)
	people, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Person])
	if err != nil {
		return nil, 0, fmt.Errorf("find people: %w", err)
	}
	if len(people) > peoplePage {
		people = people[:peoplePage]
		next = people[peoplePage-1].ID
	}
	for i := range people {
		by.seesPerson(&people[i])
	}
	return people, next, nil
}

func (by By) seesPerson(p *Person) {
	by.sees(Telephone, &p.Phone)
	by.sees(Nickname, &p.Nickname)
}

// RoleChange is one line of a user's history of roles.
type RoleChange struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	ByUser *int64    `json:"by_user"` // null for the first administrator, whom a command made
}

// PersonDetail is a Person with what hangs on the account.
type PersonDetail struct {
	Person
	Orders map[string]int `json:"orders"` // by status
	Roles  []RoleChange   `json:"roles"`  // oldest first
}

// PersonByID returns an account as by sees it, or ErrNoUser.
func (s *Store) PersonByID(ctx context.Context, by By, id int64) (p PersonDetail, err error) {
	rows, _ := s.db.Query(ctx, `select `+personColumns+` from users u where u.id = $1`, id)
	p.Person, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Person])
	if errors.Is(err, pgx.ErrNoRows) {
		return PersonDetail{}, ErrNoUser
	}
	if err != nil {
		return PersonDetail{}, fmt.Errorf("read user %d: %w", id, err)
	}
	by.seesPerson(&p.Person)
	p.Orders = map[string]int{}
	var status string
	var n int
	rows, _ = s.db.Query(ctx, `select status, count(*) from orders where user_id = $1 group by status`, id)
	if _, err = pgx.ForEachRow(rows, []any{&status, &n},
		func() error { p.Orders[status] = n; return nil }); err != nil {
		return PersonDetail{}, fmt.Errorf("count the orders of user %d: %w", id, err)
	}
	rows, _ = s.db.Query(ctx, `select at, from_role, to_role, by_user from role_changes where user_id = $1 order by id`, id)
	if p.Roles, err = pgx.CollectRows(rows, pgx.RowToStructByPos[RoleChange]); err != nil {
		return PersonDetail{}, fmt.Errorf("read the roles of user %d: %w", id, err)
	}
	return p, nil
}

// personNow is an account as the log shows it before and after a change.
type personNow struct {
	Role     string `json:"role"`
	Disabled bool   `json:"disabled"`
}

// LoggedIn notes in the log that a member of the staff has logged in.
func (s *Store) LoggedIn(ctx context.Context, by By) error {
	return s.act(ctx, by, &action{name: "staff.login", subject: fmt.Sprintf("user %d", by.UserID)},
		func(pgx.Tx) error { return nil })
}

// SetRole changes the role of another user, whose sessions then end (user.Store.EndRevoked). A user who has the role
// keeps it, without a line in the log. ErrNoUser, ErrOwnAccount, ErrNoLongerStaff.
func (s *Store) SetRole(ctx context.Context, by By, id int64, role string) error {
	return s.changePerson(ctx, by, "role", id, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select change_role($1, $2, $3)`, by.UserID, id, role)
		return err
	})
}

// Disable disables the account of another user: its sessions end, and it logs in no more. Its tickets and orders stay.
// A disabled account stays as it is, without a line in the log. ErrNoUser, ErrOwnAccount, ErrNoLongerStaff.
func (s *Store) Disable(ctx context.Context, by By, id int64) error {
	return s.changePerson(ctx, by, "disable", id, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select disable_user($1, $2, true)`, by.UserID, id)
		return err
	})
}

// Enable ends a Disable, with the same errors.
func (s *Store) Enable(ctx context.Context, by By, id int64) error {
	return s.changePerson(ctx, by, "enable", id, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select disable_user($1, $2, false)`, by.UserID, id)
		return err
	})
}

// changePerson makes one change of an account. Postgres decides whether by may make it.
func (s *Store) changePerson(ctx context.Context, by By, do string, id int64, change func(pgx.Tx) error) error {
	if by.UserID == id {
		return ErrOwnAccount
	}
	a := &action{name: "user." + do, subject: fmt.Sprintf("user %d", id)}
	err := s.act(ctx, by, a, func(tx pgx.Tx) error {
		before, err := readPerson(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		after, err := readPerson(ctx, tx, id)
		if err == nil && before == after {
			err = errNothingChanged
		}
		a.before, a.after = before, after
		return err
	})
	switch pg := new(pgconn.PgError); {
	case errors.Is(err, errNothingChanged):
		return nil
	case errors.As(err, &pg) && (pg.ConstraintName == "roles_are_changed_by_an_administrator" ||
		pg.ConstraintName == "accounts_are_disabled_by_an_administrator"):
		return ErrNoLongerStaff
	}
	return err
}

// readPerson reads an account for the log and locks its row, as every change of an account does first.
func readPerson(ctx context.Context, tx pgx.Tx, id int64) (personNow, error) {
	rows, _ := tx.Query(ctx, `select role, disabled_at is not null as disabled from users where id = $1 for update`, id)
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[personNow])
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNoUser
	}
	if err != nil {
		return p, fmt.Errorf("read user %d: %w", id, err)
	}
	return p, nil
}
