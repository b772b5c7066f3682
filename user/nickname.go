package user

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"miaosha/seckill/alike"
)

// CheckNickname checks a name that other users and the staff see. It has 1 to NicknameMax characters, no
// invisible text, nothing that changes the order of the text around it, and it is no name of the
// staff, also not in letters that look like these.
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

// The names of the staff: whole words in English, and parts of a name in Chinese.
var (
	staffWords = lettersOf("admin", "admins", "administrator", "root", "system", "sysadmin", "official", "staff",
		"support", "moderator",
		"customerservice", "miaosha", "miaoshaofficial", "officialmiaosha", "miaoshasupport", "miaoshaadmin")
	staffParts = lettersOf("管理员", "管理員", "官方", "客服", "掌柜", "店主", "工作人员", "工作人員", "系统消息", "系统通知")
)

// namesStaff reports whether a name is one of the staff, or looks like one (see package alike), also with digits for
// letters, with accents, or with anything between the letters.
func namesStaff(name string) bool {
	words := strings.FieldsFunc(norm.NFKC.String(name),
		func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.S) })
	for _, word := range append(words, name) {
		for _, letters := range append(lettersOf(word), lettersOf(strings.TrimRight(word, "0123456789"))...) {
			chinese := strings.Map(func(r rune) rune {
				if r < utf8.RuneSelf {
					return -1
				}
				return r
			}, letters)
			if slices.Contains(staffWords, letters) ||
				slices.ContainsFunc(staffParts, func(part string) bool { return strings.Contains(chinese, part) }) {
				return true
			}
		}
	}
	return false
}

// digitsAsLetters reads digits and signs as letters, as in adm1n. A small l looks like a capital i.
var digitsAsLetters = strings.NewReplacer("@", "a", "4", "a", "3", "e", "$", "s", "5", "s", "7", "t",
	"!", "i", "l", "i")

// lettersOf returns the letters of texts as a reader takes them, in each of the ways in which a text may look: small
// and without accents.
func lettersOf(texts ...string) (all []string) {
	for _, text := range texts {
		for _, look := range alike.LooksOf(text) {
			all = append(all, strings.Map(func(r rune) rune {
				if unicode.IsLetter(r) || unicode.IsDigit(r) {
					return r
				}
				return -1
			}, digitsAsLetters.Replace(strings.ToLower(look))))
		}
	}
	return all
}
