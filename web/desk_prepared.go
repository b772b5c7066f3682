package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/maypok86/otter/v2"
)

// encoding is a body in one content encoding, with its header values.
type encoding struct {
	bytes              []byte
	length, name, etag []string // name is nil for the plain body
}

// encoded is a body that is compressed once in each encoding that a client asks for, and sent many times.
type encoded struct {
	plain      *encoding
	gzip, zstd func() *encoding // the first call compresses; the plain one if that is not larger
}

// compressor makes encoded bodies. It is safe for concurrent use, and compresses one at a time.
type compressor struct {
	mu   sync.Mutex
	gzip *gzip.Writer
	zstd *zstd.Encoder
}

func newCompressor(gz int, zs zstd.EncoderLevel) (*compressor, error) {
	g, err := gzip.NewWriterLevel(nil, gz)
	if err != nil {
		return nil, fmt.Errorf("compress with gzip: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zs), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress with zstd: %w", err)
	}
	return &compressor{gzip: g, zstd: z}, nil
}

// prepare returns b in all encodings; it keeps b. Nothing is compressed before a client asks for it. Each
// encoding has an ETag of its own, since its bytes differ.
func (c *compressor) prepare(b []byte) *encoded {
	sum := sha256.Sum256(b)
	etag := hex.EncodeToString(sum[:12])
	plain := &encoding{bytes: b, length: []string{strconv.Itoa(len(b))}, etag: []string{`"` + etag + `"`}}
	once := func(name []string, compress func([]byte) []byte) func() *encoding {
		return sync.OnceValue(func() *encoding {
			c.mu.Lock()
			defer c.mu.Unlock()
			small := compress(b)
			if len(small) >= len(b) {
				return plain
			}
			return &encoding{bytes: bytes.Clone(small), length: []string{strconv.Itoa(len(small))}, name: name, etag: []string{`"` + etag + "-" + name[0] + `"`}}
		})
	}
	return &encoded{plain, once(gzipEncoding, c.gzipped),
		once(zstdEncoding, func(b []byte) []byte { return c.zstd.EncodeAll(b, nil) })}
}

// gzipped returns b compressed with gzip.
func (c *compressor) gzipped(b []byte) []byte {
	var out bytes.Buffer // it takes every write, so gzip has no error to report
	c.gzip.Reset(&out)
	c.gzip.Write(b)
	c.gzip.Close()
	return out.Bytes()
}

// choose returns the first of zstd, gzip and plain that the client accepts. One that is not smaller than the plain body
// is passed over.
func (body *encoded) choose(r *http.Request) *encoding {
	accept, e := r.Header.Get("Accept-Encoding"), body.plain
	if accepts(accept, "zstd") {
		e = body.zstd()
	}
	if e == body.plain && accepts(accept, "gzip") {
		e = body.gzip()
	}
	return e
}

// send writes the body, or 304 if the client has it already. The other headers must be set before.
func (body *encoded) send(w http.ResponseWriter, r *http.Request, kind []string) {
	e, h := body.choose(r), w.Header()
	h["Etag"] = e.etag
	if match := r.Header.Get("If-None-Match"); match != "" && (match == "*" || strings.Contains(match, e.etag[0])) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	e.write(w, http.StatusOK, kind)
}

// write writes the body with a status, and no ETag.
func (body *encoded) write(w http.ResponseWriter, r *http.Request, status int, kind []string) {
	body.choose(r).write(w, status, kind)
}

func (e *encoding) write(w http.ResponseWriter, status int, kind []string) {
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = kind, e.length
	if e.name != nil {
		h["Content-Encoding"] = e.name
	}
	w.WriteHeader(status)
	w.Write(e.bytes)
}

// accepts reports whether an Accept-Encoding header allows an encoding. With q=0 it does not.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			q = strings.ReplaceAll(q, " ", "")
			return !(strings.HasPrefix(q, "q=0") && strings.Trim(q[3:], ".0") == "")
		}
	}
	return false
}

// responseCache holds prepared responses of one kind: each is made once and sent many times. Its size
// is bounded; the least used responses go first.
type responseCache[K comparable, T any] struct {
	entries interface { // an otter.Cache: goods.Cache says why its type is not named
		GetIfPresent(K) (*entry[T], bool)
		SetIfAbsent(K, *entry[T]) (*entry[T], bool)
	}
}

// entry holds the response of one key.
type entry[T any] struct {
	mu       sync.Mutex // held while a new response is made
	response atomic.Pointer[T]
}

func newResponseCache[K comparable, T any](size int) responseCache[K, T] {
	return responseCache[K, T]{otter.Must(&otter.Options[K, *entry[T]]{MaximumSize: size})}
}

// get returns the response of key. If there is none that is fresh, make makes one, once for all callers
// that wait. make receives the old response, or nil.
func (c responseCache[K, T]) get(key K, fresh func(*T) bool, make func(old *T) (*T, error)) (*T, error) {
	e, ok := c.entries.GetIfPresent(key)
	if !ok {
		e, _ = c.entries.SetIfAbsent(key, &entry[T]{})
	}
	if current := e.response.Load(); current != nil && fresh(current) {
		return current, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.response.Load()
	if old != nil && fresh(old) {
		return old, nil
	}
	made, err := make(old)
	if err == nil {
		e.response.Store(made)
	}
	return made, err
}
