package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation returns how a JPEG is to be turned, as EXIF counts: 1 to 8, and 1 where the file does not say it.
func orientation(raw []byte) int {
	for marker, segment := range segments(raw) {
		if marker == markerExif && bytes.HasPrefix(segment, []byte("Exif\x00\x00")) {
			return orientationOf(segment[6:])
		}
	}
	return 1
}

// orientationOf reads the tag 0x0112 of the first directory of a TIFF header.
func orientationOf(tiff []byte) int {
	var order binary.ByteOrder = binary.BigEndian
	if bytes.HasPrefix(tiff, []byte("II")) {
		order = binary.LittleEndian
	}
	if len(tiff) < 8 {
		return 1
	}
	at := int(order.Uint32(tiff[4:]))
	if at < 8 || at+2 > len(tiff) {
		return 1
	}
	for n := int(order.Uint16(tiff[at:])); n > 0 && at+2+12 <= len(tiff); n-- {
		entry := tiff[at+2 : at+14]
		if order.Uint16(entry) == 0x0112 {
			return int(order.Uint16(entry[8:]))
		}
		at += 12
	}
	return 1
}
