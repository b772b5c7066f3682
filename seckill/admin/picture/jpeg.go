package picture

import (
	"bytes"
	"encoding/binary"
	"iter"
)

const (
	markerProgressive = 0xc2 // the begin of a frame that is sent in several passes
	markerEnd         = 0xd9
	markerScan        = 0xda
	markerExif        = 0xe1
)

// segments returns the segments before the first scan of a JPEG, by their markers; none of another format. It skips what the
// decoder skips.
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
