package picture

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Markers of a JPEG.
const (
	markerProgressive = 0xc2 // the begin of a frame that is sent in several passes
	markerEnd         = 0xd9
	markerScan        = 0xda
	markerApp1        = rune(0xe1) // EXIF
	markerApp2        = rune(0xe2) // a profile of colours
)

// parts returns what a file has besides its pixels: the chunks of a PNG or a WebP by their names, and the segments
// before the first scan of a JPEG by their markers, each as one rune. None of another format.
func parts(raw []byte) iter.Seq2[string, []byte] {
	switch {
	case bytes.HasPrefix(raw, []byte("\xff\xd8")):
		return func(yield func(string, []byte) bool) {
			for marker, segment := range segments(raw) {
				if marker == markerScan || !yield(string(rune(marker)), segment) {
					return
				}
			}
		}
	case bytes.HasPrefix(raw, []byte("\x89PNG\r\n\x1a\n")):
		return chunks(raw, 8, 4, func(head []byte) (string, uint32) {
			return string(head[4:8]), binary.BigEndian.Uint32(head)
		})
	case bytes.HasPrefix(raw, []byte("RIFF")):
		return chunks(raw, 12, 0, func(head []byte) (string, uint32) {
			return string(head[:4]), binary.LittleEndian.Uint32(head[4:])
		})
	}
	return func(func(string, []byte) bool) {}
}

// chunks returns chunks of eight bytes that head reads, and of data; behind each are as many bytes as after, and in a
// RIFF those that make it even.
func chunks(raw []byte, at, after int, head func([]byte) (string, uint32)) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for at := at; at+8 <= len(raw); {
			name, size := head(raw[at:])
			end := at + 8 + int(size)
			if size > 1<<30 || end > len(raw) || !yield(name, raw[at+8:end]) {
				return
			}
			if at = end + after; after == 0 {
				at += int(size & 1)
			}
		}
	}
}

// segments returns the segments of a JPEG up to its end, by their markers: each scan is one. It skips what the decoder
// skips, which is the data of the scans, too: no marker but that of a restart stands in it.
func segments(raw []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		if !bytes.HasPrefix(raw, []byte("\xff\xd8")) {
			return
		}
		for at := 2; ; {
			next := bytes.IndexByte(raw[at:], 0xff)
			if at += next; next < 0 || at+4 > len(raw) {
				return
			}
			marker := raw[at+1]
			switch {
			case marker == 0xff:
				at++
				continue
			case marker == 0 || marker >= 0xd0 && marker <= 0xd7:
				at += 2
				continue
			}
			size := int(binary.BigEndian.Uint16(raw[at+2:]))
			if marker == markerEnd || size < 2 || at+2+size > len(raw) || !yield(marker, raw[at+4:at+2+size]) {
				return
			}
			at += 2 + size
		}
	}
}

// work is what a decoder does for a file besides its pixels.
type work struct {
	parts       int  // chunks or segments
	scans       int  // of a JPEG: each passes over every pixel, however few bytes it has
	progressive bool // the decoder keeps four bytes for each colour of each pixel of such a JPEG
}

func workOf(raw []byte) (w work) {
	if bytes.HasPrefix(raw, []byte("\xff\xd8")) {
		for marker := range segments(raw) {
			w.parts++
			switch marker {
			case markerScan:
				w.scans++
			case markerProgressive:
				w.progressive = true
			}
		}
		return w
	}
	for range parts(raw) {
		w.parts++
	}
	return w
}

// tooMuch reports whether a decoder would pass over a picture more often than any program has a reason to save it. A
// JPEG that is not progressive has a scan for each colour at most.
func (w work) tooMuch() bool {
	return w.parts > MaxParts || w.scans > MaxScans || !w.progressive && w.scans > 4
}
