package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/maypok86/otter/v2"
)

// Header values that many answers share, as a Header has them, so that none is made for a request. They are replaced,
// never changed.
var (
	jsonType      = []string{"application/json; charset=utf-8"}
	noStore       = []string{"no-store"}
	noCache       = []string{"no-cache"}
	keepForever   = []string{"public, max-age=31536000, immutable"}
	sameOrigin    = []string{"same-origin"}
	gzipCoding    = []string{"gzip"}
	zstdCoding    = []string{"zstd"}
	variesCoding  = []string{"Accept-Encoding"}
	variesOfSales = []string{"Accept-Language, Accept-Encoding"}
)

// coded is a body in one content coding, and the header values that go with it.
type coded struct {
	bytes                []byte
	length, coding, etag []string // coding is nil for a plain one
}

// packed is a body that is sent many times, compressed once. A form that would be larger than the plain one is nil.
type packed struct{ plain, gzip, zstd *coded }

// packer compresses. Several goroutines may use one, one after the other.
type packer struct {
	mu   sync.Mutex
	gzip *gzip.Writer
	zstd *zstd.Encoder
}

func newPacker(gz int, zs zstd.EncoderLevel) (*packer, error) {
	g, err := gzip.NewWriterLevel(nil, gz)
	if err != nil {
		return nil, fmt.Errorf("compress with gzip: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zs), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress with zstd: %w", err)
	}
	return &packer{gzip: g, zstd: z}, nil
}

// pack keeps b. The forms' ETags differ, as they are different bytes.
func (p *packer) pack(b []byte) (*packed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256(b)
	form := func(b []byte, coding []string) *coded {
		etag := hex.EncodeToString(sum[:12])
		if coding != nil {
			etag += "-" + coding[0]
		}
		return &coded{bytes: b, length: []string{strconv.Itoa(len(b))}, coding: coding, etag: []string{`"` + etag + `"`}}
	}
	out := &packed{plain: form(b, nil)}
	var gz bytes.Buffer
	p.gzip.Reset(&gz)
	_, err := p.gzip.Write(b)
	if err == nil {
		err = p.gzip.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress with gzip: %w", err)
	}
	if gz.Len() < len(b) {
		out.gzip = form(bytes.Clone(gz.Bytes()), gzipCoding)
	}
	if z := p.zstd.EncodeAll(b, nil); len(z) < len(b) {
		out.zstd = form(bytes.Clone(z), zstdCoding)
	}
	return out, nil
}

// choose gives the form for a request: zstd before gzip before plain, as the caller accepts them.
func (p *packed) choose(r *http.Request) *coded {
	switch accept := r.Header.Get("Accept-Encoding"); {
	case p.zstd != nil && accepts(accept, "zstd"):
		return p.zstd
	case p.gzip != nil && accepts(accept, "gzip"):
		return p.gzip
	}
	return p.plain
}

// send answers with the body, or with 304 where the caller has it. The caller of send has set what else is to be said.
func (p *packed) send(w http.ResponseWriter, r *http.Request, kind []string) {
	f, h := p.choose(r), w.Header()
	h["Etag"] = f.etag
	if match := r.Header.Get("If-None-Match"); match != "" && (match == "*" || strings.Contains(match, f.etag[0])) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h["Content-Type"], h["Content-Length"] = kind, f.length
	if f.coding != nil {
		h["Content-Encoding"] = f.coding
	}
	w.Write(f.bytes)
}

// unended is a JSON body whose last bytes differ from answer to answer: what comes before them, plain and as the
// beginning of a gzip stream, which is nil where it saves nothing.
type unended struct {
	plain, gzip             []byte
	crc                     uint32 // of plain
	plainLength, gzipLength []string
}

// A gzip stream goes on with any number of blocks; the last one may hold its bytes as they are (RFC 1951, 3.2.4). So an
// end of n bytes costs a request no compression: five bytes before it, and the sum and the length of all behind it
// (RFC 1952, 2.3.1).
const gzipEnd = 5 + 8

// unended keeps b, of a body that goes on with n bytes, fewer than 65,536.
func (p *packer) unended(b []byte, n int) (*unended, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &unended{plain: b, crc: crc32.ChecksumIEEE(b), plainLength: []string{strconv.Itoa(len(b) + n)}}
	var gz bytes.Buffer
	p.gzip.Reset(&gz)
	_, err := p.gzip.Write(b)
	if err == nil {
		err = p.gzip.Flush() // to a whole byte, without an end
	}
	if err != nil {
		return nil, fmt.Errorf("compress with gzip: %w", err)
	}
	if gz.Len()+gzipEnd < len(b) {
		u.gzip, u.gzipLength = bytes.Clone(gz.Bytes()), []string{strconv.Itoa(gz.Len() + gzipEnd + n)}
	}
	return u, nil
}

// send answers with the body and its end, of as many bytes as were announced.
func (u *unended) send(w http.ResponseWriter, r *http.Request, end []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if u.gzip == nil || !accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		h["Content-Length"] = u.plainLength
		w.Write(u.plain)
		w.Write(end)
		return
	}
	h["Content-Encoding"], h["Content-Length"] = gzipCoding, u.gzipLength
	w.Write(u.gzip)
	n, out := uint16(len(end)), make([]byte, 0, gzipEnd+len(end))
	out = append(out, 1) // the last block, as it is
	out = binary.LittleEndian.AppendUint16(out, n)
	out = binary.LittleEndian.AppendUint16(out, ^n)
	out = append(out, end...)
	out = binary.LittleEndian.AppendUint32(out, crc32.Update(u.crc, crc32.IEEETable, end))
	w.Write(binary.LittleEndian.AppendUint32(out, uint32(len(u.plain)+len(end))))
}

// accepts reads an Accept-Encoding header; a coding with q=0 is not accepted.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			q = strings.ReplaceAll(q, " ", "")
			return !(strings.HasPrefix(q, "q=0") && strings.Trim(q[3:], ".0") == "")
		}
	}
	return false
}

// shelves hold answers of one kind, made once and given many times: at most so many, the least wanted go first.
type shelves[K comparable, T any] struct {
	of interface { // an otter.Cache: see goods.Cache for why it is not named
		GetIfPresent(K) (*shelf[T], bool)
		SetIfAbsent(K, *shelf[T]) (*shelf[T], bool)
	}
}

type shelf[T any] struct {
	mu sync.Mutex // held by who makes the answer anew
	at atomic.Pointer[T]
}

func newShelves[K comparable, T any](size int) shelves[K, T] {
	return shelves[K, T]{otter.Must(&otter.Options[K, *shelf[T]]{MaximumSize: size})}
}

// get gives what lies there if it is good, and otherwise makes it anew, once for all who ask. make is given what lay
// there, or nil.
func (s shelves[K, T]) get(key K, good func(*T) bool, make func(was *T) (*T, error)) (*T, error) {
	at, ok := s.of.GetIfPresent(key)
	if !ok {
		at, _ = s.of.SetIfAbsent(key, &shelf[T]{})
	}
	if is := at.at.Load(); is != nil && good(is) {
		return is, nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	was := at.at.Load()
	if was != nil && good(was) {
		return was, nil
	}
	is, err := make(was)
	if err == nil {
		at.at.Store(is)
	}
	return is, err
}
