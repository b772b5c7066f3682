// Package typed reads what people type and paste: telephones, codes, sums, and what the staff searches for. It takes
// every spelling that has one meaning, such as wide digits, blanks and dashes of every kind, invisible characters, and
// the code of the country, and returns the one spelling that the shop stores. It guesses nothing: a character that has
// no place in a number is a CharError, which names it. Domains know the one spelling only, so their limits count one
// telephone once, however it was typed.
//
// Passwords are not read here: they are bytes, of which a hash is kept. Addresses and titles keep their characters, see
// Line. A nickname with invisible characters is refused, since it could look like another one.
//
// The pages read the same way, in web/static/typed.js. testdata/cases.json has the cases of both.
package typed

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// CharError names a character that has no place in a text, and its place, from 1.
type CharError struct {
	Char rune
	At   int
}

func (e CharError) Error() string { return fmt.Sprintf("%s in place %d", e.Name(), e.At) }

// Name returns the character in quotation marks, or its code point if it shows nothing.
func (e CharError) Name() string {
	if unicode.IsPrint(e.Char) {
		return "“" + string(e.Char) + "”"
	}
	return fmt.Sprintf("U+%04X", e.Char)
}

// char is a character as it is read, and the one that was typed, with its place. One that was typed may be read as
// several.
type char struct {
	is  rune
	was CharError
}

// fold returns the characters of a text as they are read: none that shows nothing, ASCII digits for the decimal digits
// of every script, and one blank, dash, dot, slash, bracket and plus for those of every kind. All others are in their
// compatible form (NFKC): wide letters are narrow.
//
// A digit of another script has one value, and a keyboard in Arabic, Persian or Hindi may write no other. So it is a
// digit here.
func fold(text string) (chars []char) {
	at := 0
	for _, r := range text {
		at++
		for _, is := range read(r) {
			chars = append(chars, char{is, CharError{r, at}})
		}
	}
	return chars
}

// read returns what one character is read as.
func read(r rune) (all []rune) {
	if is, ok := known(r); ok {
		return is
	}
	for _, part := range norm.NFKC.String(string(r)) {
		is, ok := known(part)
		if !ok {
			is = []rune{part}
		}
		all = append(all, is...)
	}
	return all
}

const (
	// beside the format characters and the variation selectors
	unseen = "\u034f\u115f\u1160\u17b4\u17b5\u20e3\u2800\u3164\uffa0"
	dashes = "ー➖"
	dots   = ".。·・•‧∙⋅"
	pluses = "+➕"
	slants = "/⁄∕"
)

func known(r rune) ([]rune, bool) {
	switch {
	case 'a' <= r && r <= 'z', isDigit(r):
		return []rune{r}, true
	case unicode.In(r, unicode.Cf, unicode.Variation_Selector), strings.ContainsRune(unseen, r):
		return nil, true
	case unicode.Is(unicode.White_Space, r):
		return []rune{' '}, true
	case unicode.Is(unicode.Dash, r), strings.ContainsRune(dashes, r):
		return []rune{'-'}, true
	case unicode.Is(unicode.Nd, r):
		return []rune{digit(r)}, true
	case strings.ContainsRune(dots, r):
		return []rune{'.'}, true
	case strings.ContainsRune(pluses, r):
		return []rune{'+'}, true
	case strings.ContainsRune(slants, r):
		return []rune{'/'}, true
	case unicode.Is(unicode.Ps, r):
		return []rune{'('}, true
	case unicode.Is(unicode.Pe, r):
		return []rune{')'}, true
	case r < unicode.MaxASCII:
		return []rune{r}, true
	}
	return nil, false
}

// digit returns a decimal digit of any script in ASCII. Unicode has the digits of a script in their order, ten of them.
func digit(r rune) rune {
	first := r
	for unicode.Is(unicode.Nd, first-1) {
		first--
	}
	return '0' + (r-first)%10
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// unlabelled returns the characters behind a label, such as "tel:" or "订单号：". A label has no digit.
func unlabelled(chars []char) []char {
	from := 0
	for i, c := range chars {
		switch {
		case isDigit(c.is):
			return chars[from:]
		case c.is == ':':
			from = i + 1
		}
	}
	return chars[from:]
}

// text returns the characters as they are read.
func text(chars []char) string {
	var b strings.Builder
	for _, c := range chars {
		b.WriteRune(c.is)
	}
	return b.String()
}

// Line returns a text in one line: each blank of another kind is a plain one, and invisible characters are left out, as
// are blanks around it. One that joins or parts two letters stays (ZWJ, ZWNJ): emoji and Persian names are made with
// them. All others stay as they are, since NFKC would change a name or an address. Wide blanks within stay too.
func Line(text string) string {
	var line []rune
	joiner := rune(0)
	for _, r := range text {
		switch {
		case r == '\u200c' || r == '\u200d':
			joiner = r
			continue
		case unicode.Is(unicode.Cf, r):
			continue
		case unicode.Is(unicode.White_Space, r) && r != '\u3000':
			r = ' '
		}
		if n := len(line); joiner != 0 && n > 0 && !unicode.IsSpace(line[n-1]) && !unicode.IsSpace(r) {
			line = append(line, joiner)
		}
		line, joiner = append(line, r), 0
	}
	return strings.TrimSpace(string(line))
}
