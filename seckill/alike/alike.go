// Package alike finds names that look like each other, as UTS 39 of Unicode does: it compares their skeletons, in which
// each character is the one that it looks like. Class names and nicknames are compared here and nowhere else.
//
// A name is folded as far as its readers fold it: wide and bold letters, small capitals, large and small letters,
// invisible characters and runs of blanks make no other name. Accents do, and so do two Han characters that differ.
package alike

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// confusables is the table of Unicode 15.0; confusables.py says how it was made. Its licence is beside it.
//
//go:embed confusables.txt
var confusables string

var prototypes = sync.OnceValue(func() map[rune]string {
	table := make(map[rune]string, 6000)
	for line := range strings.Lines(confusables) {
		of := []rune(strings.TrimSuffix(line, "\n"))
		table[of[0]] = string(of[1:])
	}
	return table
})

// smallCapitals are letters for the table, which read as large ones.
var smallCapitals = strings.NewReplacer("ᴀ", "A", "ʙ", "B", "ᴅ", "D", "ᴇ", "E", "ꜰ", "F", "ɢ", "G", "ʜ", "H", "ɪ", "I",
	"ᴊ", "J", "ᴋ", "K", "ʟ", "L",
	"ᴍ", "M", "ɴ", "N", "ᴘ", "P", "ʀ", "R", "ᴛ", "T", "ʏ", "Y")

// Looks is how a name looks: as it is written, in small letters and in capitals. A capital may look like another letter
// than its small one does.
type Looks [3]string

// LooksOf returns how a name looks.
func LooksOf(name string) Looks {
	plain := strings.Join(strings.Fields(strings.Map(visible, plain(name))), " ")
	return Looks{skeleton(plain), skeleton(strings.ToLower(plain)), skeleton(strings.ToUpper(plain))}
}

// Like reports whether two names look alike, in whatever letters each is written.
func (l Looks) Like(other Looks) bool {
	return slices.ContainsFunc(l[:], func(look string) bool { return slices.Contains(other[:], look) })
}

// plain returns a text without the forms of letters that differ in width and face alone. A letter of which there is a
// plain one in another script alone keeps its form: the table knows better what that looks like.
func plain(text string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(text) {
		of := norm.NFKC.String(string(r))
		if _, known := prototypes()[r]; known && of[0] >= utf8.RuneSelf {
			of = string(r)
		}
		b.WriteString(of)
	}
	return smallCapitals.Replace(norm.NFC.String(b.String()))
}

// skeleton returns a text with each character as the one that it looks like. That may be two letters, which look like
// others.
func skeleton(text string) string {
	for range 2 {
		var b strings.Builder
		for _, r := range norm.NFD.String(text) {
			if of, ok := prototypes()[r]; ok {
				b.WriteString(of)
			} else {
				b.WriteRune(r)
			}
		}
		text = smallCapitals.Replace(b.String())
	}
	return norm.NFD.String(text)
}

// visible leaves out the characters that show nothing.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) || r == '\u034f' {
		return -1
	}
	return r
}
