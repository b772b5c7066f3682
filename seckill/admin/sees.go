package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"
)

// Kind is what a value tells of a person.
type Kind int

const (
	Telephone Kind = iota // of an account or of a parcel
	Name                  // of a receiver
	Address
	Number   // of a parcel or a payment: whoever has it whole can ask the carrier or the bank for the rest
	Text     // that the staff wrote by hand: it may have any of the others
	Nickname // it is shown, unless it may be a telephone
)

// sees decides what a member of the staff sees of a value: an administrator all of it, a viewer what Mask leaves. Every
// value of a person leaves this package through it, so no route, file or line of the log shows more than another.
func (by By) sees(kind Kind, value *string) {
	if !by.Whole {
		*value = Mask(kind, *value)
	}
}

// Mask hides a value: 138****8000, 王***, 北京市海淀区***. Of a telephone or a number at least four characters are unknown.
func Mask(kind Kind, value string) string {
	all := []rune(value)
	begin, end := 0, 0
	switch {
	case value == "" || kind == Nickname && !maybeTelephone(value):
		return value
	case kind == Telephone && len(all) >= 11:
		if middle := string(all[3 : len(all)-4]); middle == "****" || digits(middle) >= 4 {
			return string(all[:3]) + "****" + string(all[len(all)-4:])
		}
	case kind == Name, kind == Nickname:
		begin = min(1, len(all)-1)
	case kind == Address:
		begin = min(6, len(all)/3)
	case kind == Number && len(all) >= 8:
		end = 4
	}
	return string(all[:begin]) + "***" + string(all[len(all)-end:])
}

var noDigit = regexp.MustCompile(`[^0-9]`)

func digits(text string) int { return len(noDigit.ReplaceAllString(norm.NFKC.String(text), "")) }

// maybeTelephone reports whether a text has as many digits as a telephone. The search for nicknames decides it the same
// way.
func maybeTelephone(text string) bool { return digits(text) >= digitsOfTelephone }

const digitsOfTelephone = 7

// logged are the fields of the log's documents that tell of a person.
var logged = map[string]Kind{"reference": Number, "tracking": Number, "note": Text, "phone": Telephone,
	"nickname": Nickname, "receiver": Name, "address": Address}

// seesDocument is sees for the values in a document of the log.
func (by By) seesDocument(document *json.RawMessage) error {
	if by.Whole || len(*document) == 0 {
		return nil
	}
	var fields map[string]any
	in := json.NewDecoder(bytes.NewReader(*document))
	in.UseNumber()
	if err := in.Decode(&fields); err != nil {
		return fmt.Errorf("read a line of the log: %w", err)
	}
	for name, value := range fields {
		kind, hidden := logged[name]
		if text, is := value.(string); is && hidden {
			by.sees(kind, &text)
			fields[name] = text
		}
	}
	var err error
	*document, err = json.Marshal(fields)
	return err
}

// HiddenSearches is how often in a day an account may search for a value of which it sees a part. Four unknown digits
// are 10,000 searches, which is most of a year.
const HiddenSearches = 30

// TooManySearchesError is the refusal of one more. The next is possible after In.
type TooManySearchesError struct{ In time.Duration }

func (e TooManySearchesError) Error() string {
	return fmt.Sprintf("the account has searched %d times in a day for what it may not see", HiddenSearches)
}

// search is a line of a former search.
type search struct {
	Same bool          // of the same text, a moment ago
	Left time.Duration // until it is a day old
}

var errSameSearch = errors.New("the search of a moment ago")

// lastSearches reads the lines of an account from the newest to the first that is a day old, not all that it ever had.
const lastSearches = `
	select digest = $2 and at > statement_timestamp() - interval '10 minutes' as same, at + interval '24 hours' - statement_timestamp() as "left"
	from   admin_log
	where  by_user = $1 and action = 'staff.search'
	and    id > coalesce((select id from admin_log where by_user = $1 and at <= statement_timestamp() - interval '24 hours' order by id desc limit 1), 0)
	order  by id desc
	limit  $3`

// searched counts a search for a value that by sees in part, and writes it into the log before anything is found. The
// lines are the count, so all processes count together, and nothing that is lost begins it again. The same text again
// within ten minutes is the same search: its next page, its file, or the way back from an order. TooManySearchesError.
func (s *Store) searched(ctx context.Context, by By, text string) error {
	digest := sha256.Sum256([]byte(text))
	a := action{name: "staff.search", subject: fmt.Sprintf("user %d", by.UserID),
		after: map[string]string{"for": Mask(Telephone, text)}, digest: digest[:]}
	err := s.act(ctx, by, &a, func(tx pgx.Tx) error {
		// The lock puts the searches of an account in a row.
		if _, err := tx.Exec(ctx, `select from users where id = $1 for no key update`, by.UserID); err != nil {
			return fmt.Errorf("lock user %d: %w", by.UserID, err)
		}
		rows, _ := tx.Query(ctx, lastSearches, by.UserID, a.digest, HiddenSearches)
		last, err := pgx.CollectRows(rows, pgx.RowToStructByPos[search])
		switch {
		case err != nil:
			return fmt.Errorf("count the searches of user %d: %w", by.UserID, err)
		case slices.ContainsFunc(last, func(l search) bool { return l.Same }):
			return errSameSearch
		case len(last) == HiddenSearches && last[len(last)-1].Left > 0:
			return TooManySearchesError{last[len(last)-1].Left}
		}
		return nil
	})
	if errors.Is(err, errSameSearch) {
		return nil
	}
	return err
}
