package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

//go:embed static
var embedded embed.FS

// page is one HTML page. All pages are made from static/page.html.
type page struct{ Path, Title, Style, Script string }

var pages = []page{
	{"/", "秒杀", "list.css", "index.js"},
	{"/sale.html", "秒杀", "sale.css", "sale.js"},
	{"/login.html", "登录 · 秒杀", "account.css", "login.js"},
	{"/orders.html", "我的订单 · 秒杀", "account.css", "orders.js"},
	{"/order.html", "订单 · 秒杀", "account.css", "order.js"},
	{"/pay.html", "沙盒收银台 · 秒杀", "account.css", "pay.js"},
	{"/admin.html", "店铺后台 · 秒杀", "admin/admin.css", "admin/admin.js"},
	{"/live.html", "实时看板 · 秒杀", "admin/live.css", "admin/live_page.js"},
	{"/lab.html", "实验室 · 秒杀", "lab/lab.css", "lab/lab.js"},
	{"/courses.html", "课程索引 · 秒杀", "courses/courses.css", "courses/courses.js"},
}

// assets are the pages and the embedded files that they need, compressed once. The URL of a file
// holds a hash of all files, /static/<hash>/app.css. So a browser may keep the file for a year, and
// relative imports between scripts work. A browser revalidates a page on each visit, by its ETag.
// In a sandbox the pages link to the lab and to the index of the courses. A shop with a name of its own shows it on every page.
//
// With an origin, pages load the files from there, and any page may load them from here: a browser asks a script of another
// origin whether it may be used, and a CDN passes on what it has received.
type assets struct {
	origin string // the CDN's, maybe with a path; "" is the shop's own
	hash   string
	files  map[string]*file // by URL path
}

type file struct {
	*encoded
	contentType, cacheControl []string // header values
}

func loadAssets(origin, shop string, sandbox bool) (*assets, error) {
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
	p, err := newCompressor(gzip.BestCompression, zstd.SpeedBestCompression)
	if err != nil {
		return nil, err
	}
	a := &assets{origin: origin, hash: hex.EncodeToString(sum.Sum(nil)[:8]), files: map[string]*file{}}
	add := func(at string, b []byte, contentType string, cacheControl []string) error {
		if contentType == "" {
			return fmt.Errorf("%s: its extension has no media type here", at)
		}
		body, err := p.compress(b)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		a.files[at] = &file{body, []string{contentType}, cacheControl}
		return nil
	}
	shell, err := template.New("page").Parse(string(raw["page.html"]))
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	delete(raw, "page.html")
	for _, pg := range pages {
		preloads, err := modules(raw, pg.Script)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pg.Path, err)
		}
		var b bytes.Buffer
		err = shell.Execute(&b, struct {
			page
			Prefix   string
			Preloads []string
			Sandbox  bool
			Shop     string
		}{pg, a.prefix(), preloads, sandbox, shop})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pg.Path, err)
		}
		if err := add(pg.Path, b.Bytes(), contentTypes[".html"], noCache); err != nil {
			return nil, err
		}
	}
	a.files["/index.html"] = a.files["/"]
	for name, b := range raw {
		if err := add(a.path()+name, b, contentTypes[path.Ext(name)], keepForever); err != nil {
			return nil, err
		}
	}
	return a, nil
}

var importStatement = regexp.MustCompile(`(?m)^(?:import|export)\b(?:[^;'"]*\bfrom)?\s*['"](\.[^'"]+)['"]`)

// modules returns the scripts that a script imports, directly or through other scripts, in
// alphabetical order. A page names them all, so that the browser loads them at once and not one
// after the other.
func modules(files map[string][]byte, script string) ([]string, error) {
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		source, ok := files[name]
		if !ok {
			return fmt.Errorf("script %s does not exist", name)
		}
		seen[name] = true
		for _, m := range importStatement.FindAllSubmatch(source, -1) {
			imported := path.Join(path.Dir(name), string(m[1]))
			if seen[imported] {
				continue
			}
			if err := visit(imported); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	if err := visit(script); err != nil {
		return nil, err
	}
	delete(seen, script)
	return slices.Sorted(maps.Keys(seen)), nil
}

func (a *assets) path() string { return "/static/" + a.hash + "/" }

// prefix returns the URL below which browsers find the files.
func (a *assets) prefix() string { return a.origin + a.path() }

// url returns the URL of an image that the catalogue names.
func (a *assets) url(image string) string {
	if image == "" || strings.HasPrefix(image, "/") {
		return image
	}
	return a.prefix() + image
}

// contentTypes has the media types of the embedded files, by extension. The machine's own table may
// differ.
var contentTypes = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
}

// static serves the pages and their assets.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	f := s.assets.files[r.URL.Path]
	if f == nil {
		return errNoPage
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"], h["Cross-Origin-Opener-Policy"] = f.cacheControl, varyEncoding, sameOrigin
	if s.assets.origin != "" && strings.HasPrefix(r.URL.Path, s.assets.path()) {
		h["Access-Control-Allow-Origin"] = anyOrigin
	}
	f.send(w, r, f.contentType)
	return nil
}
