package web

import (
	"net/http"
	"strings"

	"github.com/maypok86/otter/v2"
	"golang.org/x/text/language"
)

var (
	languages = language.NewMatcher([]language.Tag{language.Chinese, language.English})
	// Matching a header takes longer than answering a buyer, and browsers send few different headers.
	matched = otter.Must(&otter.Options[string, bool]{MaximumSize: 1000})
)

// chinese reports whether the client prefers Chinese to English.
func chinese(r *http.Request) bool {
	accept := r.Header.Get("Accept-Language")
	if accept == "" {
		return true
	}
	if len(accept) > 200 { // no browser sends so many, and to match 8 KB of them takes as long as a hundred answers
		accept = accept[:strings.LastIndexByte(accept[:200], ',')+1]
	}
	zh, known := matched.GetIfPresent(accept)
	if !known {
		_, i := language.MatchStrings(languages, accept)
		zh = i == 0
		matched.Set(strings.Clone(accept), zh)
	}
	return zh
}

// bilingual is a text in both languages.
type bilingual struct{ ZH, EN string }

// in returns the text in Chinese, or in English.
func (t bilingual) in(zh bool) string {
	if zh {
		return t.ZH
	}
	return t.EN
}
