package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation returns how a picture is to be turned, as EXIF counts: 1 to 8, and 1 where the file does not say it.
func orientation(raw []byte) int {
	for name, data := range parts(raw) {
		switch name {
		case "EXIF", "eXIf": // some programs write the head of a JPEG's part here, too
			return orientationOf(bytes.TrimPrefix(data, []byte(exifHead)))
		case string(markerApp1):
			if tiff, exif := bytes.CutPrefix(data, []byte(exifHead)); exif {
				return orientationOf(tiff)
			}
		}
	}
	return 1
}

const exifHead = "Exif\x00\x00"

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
