package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

//go:embed static
var embedded embed.FS

// assets are the embedded pages and what they need, compressed once. An asset's address holds a hash of them all,
// /static/<hash>/app.css, so a browser may keep it for a year and relative imports between modules just work. Pages
// are asked for anew each time, by their ETag; those of a sandbox lead to its lab.
type assets struct {
	hash  string
	files map[string]*file // by address
}

type file struct {
	*packed
	kind, keep []string // header values
}

func loadAssets(sandbox bool) (*assets, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	raw, sum := map[string][]byte{}, sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root, name)
		raw[name] = b
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	p, err := newPacker(gzip.BestCompression, zstd.SpeedBestCompression)
	if err != nil {
		return nil, err
	}
	a := &assets{hash: hex.EncodeToString(sum.Sum(nil)[:8]), files: map[string]*file{}}
	for name, b := range raw {
		at, keep := a.prefix()+name, keepForever
		if path.Ext(name) == ".html" {
			at, keep = "/"+name, noCache
			b = bytes.ReplaceAll(b, []byte(`"/static/`), []byte(`"`+a.prefix()))
			if sandbox {
				b = bytes.Replace(b, []byte("<html "), []byte("<html data-lab "), 1)
			}
		}
		body, err := p.pack(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		a.files[at] = &file{body, []string{kindOf(name)}, keep}
	}
	a.files["/"] = a.files["/index.html"]
	return a, nil
}

func (a *assets) prefix() string { return "/static/" + a.hash + "/" }

// url is where a picture named in the catalogue is found.
func (a *assets) url(image string) string {
	if image == "" || strings.HasPrefix(image, "/") {
		return image
	}
	return a.prefix() + image
}

// kindOf is a file's media type.
func kindOf(name string) string {
	switch path.Ext(name) { // what the machine's own table might say otherwise
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case "", ".txt", ".md":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// static serves the pages and their assets.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	f := s.assets.files[r.URL.Path]
	if f == nil {
		return errNoPage
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"], h["Cross-Origin-Opener-Policy"] = f.keep, variesCoding, sameOrigin
	f.send(w, r, f.kind)
	return nil
}
