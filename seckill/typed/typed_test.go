package typed

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A typedCase is a text, and what it is read as: Out, or the character that is refused, and its place.
type typedCase struct {
	Kind, In, Out, Char string
	At                  int
}

// readers are the kinds of the table.
var readers = map[string]func(string) (string, error){
	"phone": Phone, "contact": Contact, "code": Code, "sum": Sum, "id": ID, "tracking": Tracking,
	"key": sure(Key), "parcel": sure(Parcel), "reference": sure(Reference), "line": sure(Line), "subject": sure(Subject),
}

func sure(read func(string) string) func(string) (string, error) {
	return func(typed string) (string, error) { return read(typed), nil }
}

func cases(t testing.TB) (all []typedCase) {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases.json")
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every spelling is read as one, and so is what it was read as.
func TestTheTableOfCases(t *testing.T) {
	for _, c := range cases(t) {
		if c.Kind == "price" || c.Kind == "units" {
			continue // the API takes numbers: the pages alone read these
		}
		got, err := readers[c.Kind](c.In)
		wrong, refused := errors.AsType[CharError](err)
		if got != c.Out || refused != (c.Char != "") || refused && (string(wrong.Char) != c.Char || wrong.At != c.At) {
			t.Errorf("%s %q is read as %q (%v), want %q %q in place %d", c.Kind, c.In, got, err, c.Out, c.Char, c.At)
		}
		if again, err := readers[c.Kind](got); again != got || err != nil {
			t.Errorf("%s %q is read as %q, and that as %q (%v)", c.Kind, c.In, got, again, err)
		}
	}
}

func TestTheSpellingsOfASearch(t *testing.T) {
	for typed, want := range map[string][]string{
		"":                       nil,
		" +86 138 0013 8000\n":   {"+86 138 0013 8000", "+8613800138000", "13800138000"},
		"订单号：06ex-3k2p-41zd":     {"订单号：06ex-3k2p-41zd", "06ex-3k2p-41zd", "06EX-3K2P-41ZD"},
		"ＡＢ 12":                  {"ＡＢ 12", "AB 12", "AB12"},
		"sandbox-7 \u202d\u202c": {"sandbox-7"},
	} {
		if got := Search(typed); !slices.Equal(got, want) {
			t.Errorf("Search(%q) = %q, want %q", typed, got, want)
		}
	}
}

// Whatever is typed, what a reader returns has only characters that the shop stores, and is read as itself.
func FuzzTyped(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(c.In)
	}
	forms := map[string]*regexp.Regexp{
		"phone": regexp.MustCompile(`^\+?[0-9]*$`), "contact": regexp.MustCompile(`^\+?[0-9]*(-[0-9]+)*$`), "code": regexp.MustCompile(`^[0-9]*$`),
		"sum": regexp.MustCompile(`^(-?[0-9]+)?$`), "id": regexp.MustCompile(`^[0-9]*$`), "tracking": regexp.MustCompile(`^[0-9A-Za-z.-]*$`),
		"key": regexp.MustCompile(`^([0-9A-Z]{4}(-[0-9A-Z]{4}){2}|([0-9]+:[0-9]+-[0-9]+:|direct:)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$`),
	}
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, typed string) {
		defer slowest(typed)()
		if !utf8.ValidString(typed) {
			return // no body and no query of the shop has such a text
		}
		for kind, read := range readers {
			got, err := read(typed)
			if err != nil {
				wrong, _ := errors.AsType[CharError](err)
				if n := len([]rune(typed)); got != "" || wrong.At < 1 || wrong.At > n || []rune(typed)[wrong.At-1] != wrong.Char {
					t.Errorf("%s %q: %q, %+v", kind, typed, got, err)
				}
				continue
			}
			if form := forms[kind]; form != nil && !form.MatchString(got) {
				t.Errorf("%s %q is read as %q", kind, typed, got)
			}
			if again, err := read(got); again != got || err != nil {
				t.Errorf("%s %q is read as %q, and that as %q (%v)", kind, typed, got, again, err)
			}
		}
		Search(typed)
	})
}
