package user

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// CheckNickname checks a name that other users and the staff see. It has 1 to NicknameMax characters, no
// invisible text, nothing that changes the order of the text around it, and it is no name of the
// staff, also not in letters that look like these. It is no proof: there are more letters that look
// alike than this table has.
func CheckNickname(nickname string) error {
	if err := required("nickname", nickname); err != nil {
		return err
	}
	if utf8.RuneCountInString(nickname) > NicknameMax {
		return InvalidError{"nickname", "length"}
	}
	if !utf8.ValidString(nickname) || !isLegible(nickname) {
		return InvalidError{"nickname", "form"}
	}
	if namesStaff(nickname) {
		return InvalidError{"nickname", "reserved"}
	}
	return nil
}

// maxMarks is the number of characters without width that may follow a visible one: accents, or what
// joins the parts of an emoji.
const maxMarks = 4

// isLegible reports whether a text is readable wherever it is shown. Characters without width are
// allowed behind a visible one only: a few accents, and one joiner between two visible characters,
// which emoji and some scripts need.
func isLegible(text string) bool {
	const joiners = "\u200c\u200d"
	marks, joined := 0, true // as if a joiner came before: a text begins with a visible character
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Co):
			return false
		case strings.ContainsRune(joiners, r):
			if joined {
				return false
			}
			marks, joined = marks+1, true
		case unicode.In(r, unicode.Mn, unicode.Me):
			if joined || r == '\u034f' {
				return false
			}
			marks++
		case unicode.In(r, unicode.Cf), strings.ContainsRune(blanks, r):
			return false
		default:
			marks, joined = 0, false
		}
		if marks > maxMarks {
			return false
		}
	}
	return !joined && strings.TrimSpace(text) != ""
}

// blanks are letters and symbols that show nothing: Hangul fillers and the empty Braille pattern.
const blanks = "\u115f\u1160\u3164\uffa0\u2800"

// The names of the staff: whole words in English, as skeletons, and parts of a name in Chinese.
var (
	staffWords = skeletons("admin", "admins", "administrator", "root", "system", "sysadmin", "official", "staff", "support", "moderator",
		"customerservice", "miaosha", "miaoshaofficial", "officialmiaosha", "miaoshasupport", "miaoshaadmin")
	staffParts = []string{"管理员", "管理員", "官方", "客服", "掌柜", "店主", "工作人员", "工作人員", "系统消息", "系统通知"}
)

// namesStaff reports whether a name is one of the staff, or looks like one: in wide, Cyrillic or Greek
// letters, with digits for letters, with accents, or with anything between the letters.
func namesStaff(name string) bool {
	chinese := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return -1
		}
		return r
	}, skeleton(name))
	if slices.ContainsFunc(staffParts, func(part string) bool { return strings.Contains(chinese, part) }) {
		return true
	}
	words := strings.FieldsFunc(norm.NFKC.String(name), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.S) })
	for _, word := range append(words, name) {
		plain := skeleton(word)
		if slices.Contains(staffWords, plain) || slices.Contains(staffWords, skeleton(strings.TrimRight(word, "0123456789"))) {
			return true
		}
	}
	return false
}

// capitals has a plain letter for each capital that looks like it, if its small letter does not.
var capitals = strings.NewReplacer("В", "b", "Β", "b", "Н", "h", "Η", "h", "К", "k", "Κ", "k", "М", "m", "Μ", "m", "Ν", "n", "Т", "t", "У", "y", "Υ", "y", "Χ", "x")

// alike has a plain letter for each small letter, digit and sign that looks like it. A small l looks like a capital i.
var alike = strings.NewReplacer(
	"а", "a", "ɑ", "a", "α", "a", "@", "a", "4", "a", "с", "c", "ϲ", "c", "ԁ", "d", "е", "e", "ε", "e", "3", "e", "ғ", "f", "һ", "h",
	"і", "i", "ι", "i", "ı", "i", "ӏ", "i", "l", "i", "1", "i", "!", "i", "|", "i", "м", "m", "ո", "n", "п", "n", "η", "n", "о", "o", "ο", "o",
	"օ", "o", "0", "o", "р", "p", "ρ", "p", "г", "r", "ѕ", "s", "$", "s", "5", "s", "т", "t", "τ", "t", "7", "t", "υ", "u", "ս", "u", "ν", "v",
	"х", "x", "у", "y")

// skeleton returns the letters of a text as a reader takes them: small, without accents, and each as
// the plain letter that it looks like.
func skeleton(text string) string {
	text = alike.Replace(strings.ToLower(capitals.Replace(norm.NFKD.String(text))))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

func skeletons(words ...string) []string {
	for i, word := range words {
		words[i] = skeleton(word)
	}
	return words
}
