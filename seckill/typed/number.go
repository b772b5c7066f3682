package typed

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var (
	six      = regexp.MustCompile(`[0-9]+`)
	sixSplit = regexp.MustCompile(`(?:^|[^0-9])([0-9]{3})[ -]([0-9]{3})(?:$|[^0-9])`)
)

// codeDigits is the number of digits of a one-time code.
const codeDigits = 6

// Code returns a one-time code: the digits of the text, or of a whole text message its one number of six digits, which
// may come twice.
func Code(typed string) (string, error) {
	chars := fold(typed)
	other := slices.IndexFunc(chars, func(c char) bool { return !isDigit(c.is) && !strings.ContainsRune(" -.", c.is) })
	if other < 0 {
		return strings.NewReplacer(" ", "", "-", "", ".", "").Replace(text(chars)), nil
	}
	found := slices.DeleteFunc(six.FindAllString(text(chars), -1),
		func(run string) bool { return len(run) != codeDigits })
	if halves := sixSplit.FindAllStringSubmatch(text(chars), -1); len(found) == 0 && len(halves) == 1 {
		found = []string{halves[0][1] + halves[0][2]}
	}
	if slices.Sort(found); len(slices.Compact(found)) != 1 {
		return "", chars[other].was
	}
	return found[0], nil
}

// Sum returns the answer to a sum: a number without a plus and without zeros before it. A whole sum, 48213 + 6 = 48219,
// has its answer behind the equals sign; nothing is computed. Chinese numerals are no number here: 一万二 is 12,000, and
// not 10,002.
func Sum(typed string) (string, error) {
	chars := unlabelled(fold(typed))
	if i := strings.LastIndexByte(text(chars), '='); i >= 0 {
		i = len([]rune(text(chars)[:i]))
		if behind := chars[i+1:]; strings.Trim(text(behind), " ") != "" {
			chars = behind
		} else {
			chars = chars[:i]
		}
	}
	return whole(chars, "+-")
}

// ID returns the number of an account, of a sale or of goods, without a # before it.
func ID(typed string) (string, error) { return whole(unlabelled(fold(typed)), "#") }

// whole returns a number that may have one of the signs before it, of which it keeps the minus.
func whole(chars []char, signs string) (string, error) {
	var digits []byte
	sign, minus, commas := false, false, []char(nil)
	end := utf8.RuneCountInString(strings.TrimRight(text(chars), " ."))
	for i, c := range chars {
		switch {
		case isDigit(c.is):
			digits = append(digits, byte(c.is))
			if n := len(commas); n > 0 {
				commas[n-1].is++ // digits behind it
			}
		case c.is == ' ', i >= end:
		case c.is == ',' && len(digits) > 0:
			if n := len(commas); n > 0 && commas[n-1].is != 3 || n == 0 && len(digits) > 3 {
				return "", c.was
			}
			commas = append(commas, char{0, c.was})
		case strings.ContainsRune(signs, c.is) && len(digits) == 0 && !sign:
			sign, minus = true, c.is == '-'
		default:
			return "", c.was
		}
	}
	if n := len(commas); n > 0 && commas[n-1].is != 3 {
		return "", commas[n-1].was
	}
	number := strings.TrimLeft(string(digits), "0")
	if number == "" && len(digits) > 0 {
		number = "0"
	}
	if minus && number != "" {
		number = "-" + number
	}
	return number, nil
}

// Tracking returns the number of a parcel: ASCII letters and digits, dashes and dots. Chinese before it is a label,
// with or without a colon, such as the carrier's name; the end of a sentence behind it is left out.
func Tracking(typed string) (string, error) {
	chars := fold(typed)
	if bare := unlabelled(chars); hasHan(chars[:len(chars)-len(bare)]) {
		chars = bare
	}
	label := func(c char) bool { return unicode.Is(unicode.Han, c.is) || strings.ContainsRune(" ()#", c.is) }
	if from := slices.IndexFunc(chars, func(c char) bool { return !label(c) }); from > 0 {
		chars = chars[from:]
	}
	var number []rune
	for _, c := range chars[:len([]rune(strings.TrimRight(text(chars), " .,;、!")))] {
		switch {
		case c.is == ' ':
		case isDigit(c.is), 'a' <= c.is && c.is <= 'z', 'A' <= c.is && c.is <= 'Z', c.is == '-', c.is == '.':
			number = append(number, c.is)
		default:
			return "", c.was
		}
	}
	return string(number), nil
}

func hasHan(chars []char) bool {
	return slices.ContainsFunc(chars, func(c char) bool { return unicode.Is(unicode.Han, c.is) })
}

// Parcel returns the number of a parcel or of a payment, as a search may have it: no blanks, and narrow letters. Its
// letters stay large or small. A label before it is left out if it is Chinese: in other letters it may be a part of the
// number, as in wx:4200.
func Parcel(typed string) string {
	chars := fold(typed)
	bare := unlabelled(chars)
	if !hasHan(chars[:len(chars)-len(bare)]) {
		bare = chars
	}
	return strings.ReplaceAll(text(bare), " ", "")
}

// Reference returns what the staff calls a payment: a Line in narrow letters, and without blanks if it has digits only.
func Reference(typed string) string {
	reference := Line(norm.NFKC.String(typed))
	if bare := strings.ReplaceAll(reference, " ", ""); strings.Trim(bare, "0123456789") == "" {
		return bare
	}
	return reference
}
