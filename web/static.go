package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

//go:embed static
var embedded embed.FS

// assets are the embedded pages and what they need, compressed once. An asset's address holds a hash of them all,
// /static/<hash>/app.css, so a browser may keep it for a year and relative imports between modules just work. Pages
// are asked for anew each time, by their ETag.
type assets struct {
	hash  string
	files map[string]*file // by address
}

type file struct {
	kind, etag        string
	plain, gzip, zstd []byte // the packed ones are nil where they would be larger
	forever           bool
}

func loadAssets() (*assets, error) {
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
	a := &assets{hash: hex.EncodeToString(sum.Sum(nil)[:8]), files: map[string]*file{}}
	for name, b := range raw {
		at, forever := a.prefix()+name, true
		if path.Ext(name) == ".html" {
			at, forever = "/"+name, false
			b = bytes.ReplaceAll(b, []byte(`"/static/`), []byte(`"`+a.prefix()))
		}
		f, err := pack(name, b)
		if err != nil {
			return nil, err
		}
		f.forever = forever
		a.files[at] = f
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

func pack(name string, b []byte) (*file, error) {
	sum := sha256.Sum256(b)
	f := &file{kind: mime.TypeByExtension(path.Ext(name)), etag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: b}
	switch path.Ext(name) { // what the machine's own table might say otherwise
	case ".js":
		f.kind = "text/javascript; charset=utf-8"
	case ".css":
		f.kind = "text/css; charset=utf-8"
	case ".html":
		f.kind = "text/html; charset=utf-8"
	case ".svg":
		f.kind = "image/svg+xml"
	case "", ".txt", ".md":
		f.kind = "text/plain; charset=utf-8"
	}
	var packed bytes.Buffer
	gz, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		if _, err = gz.Write(b); err == nil {
			err = gz.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if packed.Len() < len(b) {
		f.gzip = packed.Bytes()
	}
	zs, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	defer zs.Close()
	if z := zs.EncodeAll(b, nil); len(z) < len(b) {
		f.zstd = z
	}
	return f, nil
}

// static serves the pages and their assets.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	f := s.assets.files[r.URL.Path]
	if f == nil {
		return errNoPage
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("ETag", f.etag)
	h.Add("Vary", "Accept-Encoding")
	if match := r.Header.Get("If-None-Match"); match != "" && (match == "*" || strings.Contains(match, f.etag)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	b := f.plain
	switch accept := r.Header.Get("Accept-Encoding"); {
	case f.zstd != nil && accepts(accept, "zstd"):
		b = f.zstd
		h.Set("Content-Encoding", "zstd")
	case f.gzip != nil && accepts(accept, "gzip"):
		b = f.gzip
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if r.Method != http.MethodHead {
		w.Write(b)
	}
	return nil
}

// accepts reads an Accept-Encoding header; a coding with q=0 is not accepted.
func accepts(header, coding string) bool {
	for _, part := range strings.Split(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			q = strings.ReplaceAll(q, " ", "")
			return !(strings.HasPrefix(q, "q=0") && strings.Trim(q[3:], ".0") == "")
		}
	}
	return false
}
