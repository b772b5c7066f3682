package typed

import (
	"regexp"
	"slices"
	"strings"
)

// mobile is a mobile number of China, maybe with the country's code and a zero before it.
var mobile = regexp.MustCompile(`^(?:\+?(?:00)?86)?0?(1[3-9][0-9]{9})$`)

// Phone returns the telephone of an account: the 11 digits of a mobile number of China, without the code of the
// country; of any other number its digits, with the plus before them if it has one. It says nothing of their number.
func Phone(typed string) (string, error) {
	main, err := dialled(unlabelled(fold(typed)))
	if err != nil {
		return "", err
	}
	all := strings.ReplaceAll(main, "-", "")
	if m := mobile.FindStringSubmatch(all); m != nil {
		return m[1], nil
	}
	return all, nil
}

// trunk is the zero of +44 (0)20 7946 0958, which no one dials behind the code of a country.
var trunk = regexp.MustCompile(`^[ (]*\+[^a-z]*?\( *0 *\)`)

// dialled returns the digits of a number, with a plus before them if it has one, and one dash for all that separates
// two groups.
func dialled(chars []char) (string, error) {
	if at := trunk.FindStringIndex(text(chars)); at != nil {
		behind := len([]rune(text(chars)[:at[1]]))
		zero := behind - 1
		for chars[zero].is != '0' {
			zero--
		}
		chars = slices.Concat(chars[:zero], chars[behind:])
	}
	var b strings.Builder
	gap := false
	for _, c := range chars[:len([]rune(strings.TrimRight(text(chars), " .,;、")))] {
		// the end of a sentence is not part of a number
		switch {
		case isDigit(c.is), c.is == '+' && b.Len() == 0:
			if gap && b.Len() > 0 && b.String() != "+" {
				b.WriteByte('-')
			}
			b.WriteRune(c.is)
			gap = false
		case strings.ContainsRune(separators, c.is):
			gap = true
		default:
			return "", c.was
		}
	}
	return b.String(), nil
}

// separators stand between the digits of a telephone. A slash stands between two.
const separators = " -.()"

// extension is what stands before an extension.
var extension = regexp.MustCompile(`(?i)[ ;]*(?:(?:转|轉|分机号?|分機號?|内线|內線|extension|ext|x|#)[ .:=]*)+`)

// Contact returns the telephone of a parcel: of a mobile number of China its 11 digits, of a landline 010-12345678, of
// a service number 400-810-1234, and of any other number its digits, with the plus before them if it has one. An
// extension follows behind a dash: 010-12345678-123. It says nothing of the number of digits.
func Contact(typed string) (string, error) {
	chars := unlabelled(fold(typed))
	main, ext := chars, ""
	if at := extension.FindStringIndex(text(chars)); at != nil {
		first, behind := len([]rune(text(chars)[:at[0]])), len([]rune(text(chars)[:at[1]]))
		digits, err := dialled(chars[behind:])
		if err != nil {
			return "", err
		}
		if ext = strings.ReplaceAll(digits, "-", ""); ext == "" || strings.HasPrefix(ext, "+") {
			return "", chars[len([]rune(text(chars)[:at[1]]))-1].was
		}
		main = chars[:first]
		if !slices.ContainsFunc(main, func(c char) bool { return isDigit(c.is) }) {
			return "", chars[first].was
		}
	}
	number, err := dialled(main)
	if err != nil {
		return "", err
	}
	if len(ext) > maxExtension {
		number, ext = number+"-"+ext, ""
	}
	return contact(number, ext), nil
}

// abroad is the code of China, as it stands before a number. Without a plus or zeros something has to separate it.
var abroad = regexp.MustCompile(`^(?:\+(?:00)?86-?|0086-?|86-)`)

// contact writes a number, whose groups have dashes between them.
func contact(number, ext string) string {
	tries := []string{number}
	if code := abroad.FindString(number); code != "" {
		rest := number[len(code):]
		tries = []string{rest, "0" + rest}
	} else if m := mobile.FindStringSubmatch(number); m != nil {
		tries = []string{m[1]}
	}
	for _, try := range tries {
		if number, more, ok := inChina(try); ok && (more == "" || ext == "") {
			return joined(number, more+ext)
		}
	}
	if ext != "" { // of a number that is not known
		return contact(joined(strings.ReplaceAll(number, "-", ""), ext), "")
	}
	if main, more, _ := strings.Cut(number, "-"); more == "" || len(strings.TrimPrefix(main, "+")) >= 5 &&
		len(more) <= maxExtension && !strings.Contains(more, "-") {
		return number // maybe with its extension
	}
	return contact(strings.ReplaceAll(number, "-", ""), "")
}

const maxExtension = 6

func joined(number, ext string) string {
	if ext == "" {
		return number
	}
	return number + "-" + ext
}

// The numbers of China: a mobile number, a service number, a landline with the code of the area.
var china = []*regexp.Regexp{
	regexp.MustCompile(`^0?(1[3-9][0-9]{9})$`),
	regexp.MustCompile(`^([48]00)([0-9]{3})([0-9]{4})$`),
	regexp.MustCompile(`^(010|02[0-9])([0-9]{7,8})$`),
	regexp.MustCompile(`^(0[3-9][0-9]{2})([0-9]{7,8})$`),
}

// inChina returns a number as it is written in China, and its extension, which is the group behind the whole number. A
// number that has its dashes where they are written ends there: 0755-1234567-8 has seven digits and an extension, and
// not eight digits.
func inChina(number string) (written, ext string, ok bool) {
	groups := strings.Split(number, "-")
	for n := len(groups); n > 0; n-- {
		all, rest := strings.Join(groups[:n], ""), strings.Join(groups[n:], "")
		if len(rest) > maxExtension {
			break
		}
		for _, c := range china {
			m := c.FindStringSubmatch(all)
			if m == nil {
				continue
			}
			asWritten := strings.Join(m[1:], "-") == strings.Join(groups[:n], "-")
			if !ok || asWritten {
				written, ext, ok = strings.Join(m[1:], "-"), rest, true
			}
			if asWritten {
				return written, ext, true
			}
		}
	}
	return written, ext, ok
}
