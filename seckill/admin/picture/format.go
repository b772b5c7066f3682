package picture

import (
	"bytes"
	"slices"
	"strings"
)

// FormatError refuses a file, and says what its first bytes show it to be, whatever it is called. It is ErrNotAPicture.
type FormatError struct {
	Format string // such as PNG, HEIC, SVG or video; "" if it is not known
	// a word: other (it is not decoded here), empty, damaged, animated, cmyk, parts (too many scans, chunks or
	// segments)
	Why string
}

func (e FormatError) Error() string {
	return ErrNotAPicture.Error() + ": " + strings.TrimSpace(e.Why+" "+e.Format)
}

// Is reports whether target is ErrNotAPicture.
func (e FormatError) Is(target error) bool { return target == ErrNotAPicture }

// signatures are the first bytes of formats that are not decoded here.
var signatures = []struct {
	at            int
	magic, format string
}{
	{0, "GIF8", "GIF"}, {0, "BM", "BMP"}, {0, "II*\x00", "TIFF"}, {0, "MM\x00*", "TIFF"}, {0, "II+\x00", "TIFF"},
	{0, "MM\x00+", "TIFF"},
	{0, "%PDF-", "PDF"}, {0, "8BPS", "PSD"}, {0, "\x00\x00\x01\x00", "ICO"}, {0, "PK\x03\x04", "ZIP"},
	{0, "\xff\x0a", "JPEG XL"}, {0, "\x00\x00\x00\x0cJXL ", "JPEG XL"}, {0, "\x00\x00\x00\x0cjP  ", "JPEG 2000"},
	{0, "\xff\x4f\xff\x51", "JPEG 2000"},
	{0, "\x1a\x45\xdf\xa3", "video"}, {8, "AVI ", "video"}, {4, "moov", "video"}, {4, "mdat", "video"},
	{4, "wide", "video"},
}

// nameOf returns what the first bytes of a file that is not decoded here say that it is, or "".
func nameOf(raw []byte) string {
	for _, s := range signatures {
		if len(raw) >= s.at && bytes.HasPrefix(raw[s.at:], []byte(s.magic)) {
			return s.format
		}
	}
	if len(raw) >= 12 && string(raw[4:8]) == "ftyp" {
		return boxed(raw)
	}
	text := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(raw[:min(len(raw), 1024)], []byte("\xef\xbb\xbf"))))
	switch {
	case !bytes.HasPrefix(text, []byte("<")):
		return ""
	case bytes.Contains(text, []byte("<html")) || bytes.HasPrefix(text, []byte("<!doctype html")):
		return "HTML"
	case bytes.Contains(text, []byte("<svg")):
		return "SVG"
	}
	return ""
}

// boxed returns what a file of ISO's boxes is, as HEIC, AVIF and MP4 are: its first box lists the kinds that it is.
func boxed(raw []byte) string {
	brands := raw[8:min(len(raw), max(12, int(raw[2])<<8|int(raw[3])), 256)]
	is := func(names ...string) bool {
		for at := 0; at+4 <= len(brands); at += 4 {
			if slices.Contains(names, string(brands[at:at+4])) {
				return true
			}
		}
		return false
	}
	switch {
	case is("avif", "avis"):
		return "AVIF"
	case is("heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"):
		return "HEIC"
	}
	return "video"
}
