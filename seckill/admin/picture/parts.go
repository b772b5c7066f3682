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

// parts returns what a file has besides its pixels: the chunks of a PNG or a WebP by their names, and the segments before the
// first scan of a JPEG by their markers, each as one rune. None of another format.
func parts(raw []byte) iter.Seq2[string, []byte] {
	switch {
	case bytes.HasPrefix(raw, []byte("\xff\xd8")):
		return func(yield func(string, []byte) bool) {
			for marker, segment := range segments(raw) {
				if !yield(string(rune(marker)), segment) {
					return
				}
			}
		}
	case bytes.HasPrefix(raw, []byte("\x89PNG\r\n\x1a\n")):
		return chunks(raw, 8, 4, func(head []byte) (string, uint32) { return string(head[4:8]), binary.BigEndian.Uint32(head) })
	case bytes.HasPrefix(raw, []byte("RIFF")):
		return chunks(raw, 12, 0, func(head []byte) (string, uint32) { return string(head[:4]), binary.LittleEndian.Uint32(head[4:]) })
	}
	return func(func(string, []byte) bool) {}
}

// chunks returns chunks of eight bytes that head reads, and of data; behind each are as many bytes as after, and in a RIFF those
// that make it even.
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

// segments returns the segments before the first scan of a JPEG, by their markers. It skips what the decoder skips.
func segments(raw []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		if !bytes.HasPrefix(raw, []byte("\xff\xd8")) {
			return
		}
		for at := 2; at+4 <= len(raw); {
			marker := raw[at+1]
			switch {
			case raw[at] != 0xff || marker == 0xff:
				at++
				continue
			case marker == 0 || marker >= 0xd0 && marker <= 0xd7:
				at += 2
				continue
			}
			size := int(binary.BigEndian.Uint16(raw[at+2:]))
			if marker == markerScan || marker == markerEnd || size < 2 || at+2+size > len(raw) || !yield(marker, raw[at+4:at+2+size]) {
				return
			}
			at += 2 + size
		}
	}
}

// isProgressive reports whether a JPEG is sent in passes: its decoder keeps four bytes for each colour of each pixel.
func isProgressive(raw []byte) bool {
	for marker := range segments(raw) {
		if marker == markerProgressive {
			return true
		}
	}
	return false
}
