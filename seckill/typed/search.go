package typed

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const uuidForm = `[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`

var (
	ticket = regexp.MustCompile(`(?:[0-9]{1,18}:[0-9]{1,15}-[0-9]{1,15}|direct):` + uuidForm)
	uuid   = regexp.MustCompile(uuidForm)
	number = regexp.MustCompile(`^[0-9a-z]{4}-?[0-9a-z]{4}-?[0-9a-z]{4}$`)
	within = regexp.MustCompile(`(?:^|[^0-9a-z])([0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4})(?:$|[^0-9a-z])`)
)

// Key returns the ticket, the id (UUID) or the number of an order that a text is or has within, as the shop writes it;
// "" if it has none, or two. Only a ticket or an id can be within a text that has letters around it.
func Key(typed string) string {
	small := strings.ToLower(text(fold(typed)))
	tight := strings.ReplaceAll(small, " ", "")
	for _, form := range []*regexp.Regexp{ticket, uuid} {
		if found := form.FindAllString(tight, -1); len(found) == 1 {
			before := strings.TrimSuffix(found[0], uuid.FindString(found[0]))
			id := strings.ReplaceAll(uuid.FindString(found[0]), "-", "")
			return before + strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
		} else if len(found) > 1 {
			return ""
		}
	}
	bare := strings.Trim(text(unlabelled(fold(tight))), `()"'#.`)
	if number.MatchString(bare) {
		bare = strings.ToUpper(strings.ReplaceAll(bare, "-", ""))
		return bare[:4] + "-" + bare[4:8] + "-" + bare[8:]
	}
	if found := within.FindAllStringSubmatch(small, -1); len(found) == 1 {
		return strings.ToUpper(found[0][1])
	}
	return ""
}

// subject is what a line of the staff's log is about: a word and a number.
var subject = regexp.MustCompile(`^([a-z]+) ?:? ?#? ?([0-9]+)$`)

// Subject returns what a line of the staff's log is about: sale 7, or order and an id or a number. An id or a number
// alone is that of an order.
func Subject(typed string) string {
	small := strings.ToLower(strings.Join(strings.Fields(text(fold(typed))), " "))
	if m := subject.FindStringSubmatch(small); m != nil {
		return m[1] + " " + m[2]
	}
	_, behind, _ := strings.Cut(small, " ")
	id := cmp.Or(Key(typed), Key(behind))
	switch {
	case id == "" || strings.Contains(id, ":"): // a ticket
		return small
	case uuid.MatchString(id) && strings.Contains(small, "payment"):
		return "payment " + id
	}
	return "order " + id
}

// Search returns the spellings under which the shop may have what a person searches for: the text in one line, without
// wide letters, without blanks, as a Key and as a Phone.
func Search(typed string) (spellings []string) {
	add := func(spelling string) {
		if spelling != "" && !slices.Contains(spellings, spelling) {
			spellings = append(spellings, spelling)
		}
	}
	add(Line(typed))
	add(strings.TrimSpace(text(unlabelled(fold(typed)))))
	add(Parcel(typed))
	add(Key(typed))
	if phone, err := Phone(typed); err == nil {
		add(phone)
	}
	return spellings
}
