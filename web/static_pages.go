package web

import (
	"net/http"
	"strings"
)

// siteFiles answers with the pages and their files.
type siteFiles struct{ *assets }

func (p siteFiles) rows() []row {
	return []row{route(getAndHead, "/*", everyone, free(cached), ownTime, p.static)}
}

// static serves the pages and their assets.
func (p siteFiles) static(w http.ResponseWriter, r *http.Request) error {
	f, vary := p.files[r.URL.Path], varyEncoding
	if page, ok := p.pages[r.URL.Path]; ok {
		f, vary = page.in(chinese(r)), varySales
	}
	if f == nil {
		return errNoPage
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"], h["Cross-Origin-Opener-Policy"] = f.cacheControl, vary, sameOrigin
	if p.origin != "" && strings.HasPrefix(r.URL.Path, p.path()) {
		h["Access-Control-Allow-Origin"] = anyOrigin
	}
	f.send(w, r, f.contentType)
	return nil
}
