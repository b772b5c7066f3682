// Package picturetest makes the pictures that take a decoder longest for what they weigh. Tests send them, and the
// table of costs is made with them; whoever finds a worse one adds it here.
package picturetest

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
	"strings"
)

// Picture is a file and what is bad about it.
type Picture struct {
	Name string
	Raw  []byte
}

// Worst are pictures that the shop decodes whole, or nearly.
func Worst() []Picture {
	return []Picture{
		{"a progressive JPEG of 64 scans that refine every pixel", Scans(2449, 2449, 64)},
		{"a JPEG of four scans of all colours", Baseline(4898, 4898, 4)},
		{"a JPEG of 10,000 tables", Tables(2449, 2449, 9_990)},
		{"a PNG with the longest side there is", PNG(366, 65_535, 6, 4, 0)},
		{"a PNG in seven passes", PNG(4898, 4898, 6, 4, 1)},
		{"a PNG of 16 bits", PNG(3464, 3464, 16+6, 4, 0)},
		{"a PNG with a palette", PNG(4898, 4898, 3, 0, 0)},
		{"a PNG packed in the smallest blocks", Blocks(2000, 2000)},
		{"a PNG with a text and a profile that unpack to gigabytes", Packed(100, 100)},
		{"a WebP of a few bytes that is turned four times", WebP(4898, 4898)},
	}
}

// Scans returns a progressive JPEG of one colour and n scans, each of a few bytes: a block that is empty stands for
// 32,767 others.
func Scans(w, h uint16, n int) []byte {
	b := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) + "\xff\xc2\x00\x0b\x08")
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h), w)
	b = append(b, "\x01\x01\x11\x00"...)
	// A table each for the first and the other coefficients, whose one code of a bit means 0, and an empty run of up to
	// 32,767 blocks.
	b = append(b, "\xff\xc4\x00\x14\x00\x01"+strings.Repeat("\x00",
		15)+"\x00"+"\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 15)+"\xe0"...)
	blocks := (int(w) + 7) / 8 * ((int(h) + 7) / 8)
	for i := range n {
		if i == 0 {
			b = append(b, "\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00"...)
			b = append(b, make([]byte, blocks/8+2)...)
			continue
		}
		b = append(b, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x10"...)
		b = append(b, runs((blocks+32_766)/32_767)...)
	}
	return append(b, "\xff\xd9"...)
}

// runs returns n codes of a bit that is 0 and of 14 bits that are 1. A byte of ones has a zero behind it, as in all
// data of a JPEG.
func runs(n int) (b []byte) {
	var bits, have uint
	for range n {
		bits, have = bits<<15|0x3fff, have+15
		for ; have >= 8; have -= 8 {
			if b = append(b, byte(bits>>(have-8))); b[len(b)-1] == 0xff {
				b = append(b, 0)
			}
		}
	}
	return append(b, byte(bits<<(8-have)), 0)
}

// Baseline returns a JPEG of three colours and n scans of all of them, which paint the picture each time.
func Baseline(w, h uint16, n int) []byte {
	b := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) + "\xff\xc0\x00\x11\x08")
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h), w)
	b = append(b, "\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"...)
	b = append(b, "\xff\xc4\x00\x14\x00\x01"+strings.Repeat("\x00",
		16)+"\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 16)...)
	blocks := (int(w) + 7) / 8 * ((int(h) + 7) / 8)
	for range n {
		b = append(append(b, "\xff\xda\x00\x0c\x03\x01\x00\x02\x00\x03\x00\x00\x3f\x00"...),
			make([]byte, blocks*6/8+2)...)
	}
	return append(b, "\xff\xd9"...)
}

// Tables returns a JPEG with n tables before its only scan.
func Tables(w, h uint16, n int) []byte {
	b := Scans(w, h, 1)
	at := bytes.Index(b, []byte("\xff\xda"))
	table := "\xff\xc4\x00\x14\x01\x01" + strings.Repeat("\x00", 15) + "\x00"
	return append(append(bytes.Clone(b[:at]), strings.Repeat(table, n)...), b[at:]...)
}

// PNG returns a PNG whose bytes are all 0. kind is how its colours are written, and 16 more for 16 bits of each; each
// row has a filter.
func PNG(w, h uint32, kind, filter, interlaced byte) []byte {
	depth, size := byte(8), uint32(map[byte]int{2: 3, 3: 1, 6: 4}[kind&15])
	if kind >= 16 {
		depth, size = 16, 2*size
	}
	data, sum, rows := []byte("\x78\x01"), adler32.New(), map[uint32][]byte{}
	row := func(w uint32) {
		line := make([]byte, 1+w*size)
		line[0] = filter
		if rows[w] == nil { // packed separately, so that it can be repeated
			var one bytes.Buffer
			f, _ := flate.NewWriter(&one, flate.BestCompression)
			f.Write(line)
			f.Flush()
			rows[w] = one.Bytes()
		}
		sum.Write(line)
		data = append(data, rows[w]...)
	}
	if interlaced == 0 {
		for range h {
			row(w)
		}
	} else {
		for _, p := range [][4]uint32{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4},
			{1, 0, 2, 2}, {0, 1, 1, 2}} {
			for range (h - p[1] + p[3] - 1) / p[3] {
				row((w - p[0] + p[2] - 1) / p[2])
			}
		}
	}
	data = append(data, 1, 0, 0, 0xff, 0xff) // the last block is empty
	return png(w, h, depth, kind&15, interlaced, sum.Sum(data))
}

func png(w, h uint32, depth, kind, interlaced byte, data []byte, more ...string) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(name string, data []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		body := append([]byte(name), data...)
		b = binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
	}
	chunk("IHDR", append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h), depth, kind,
		0, 0, interlaced))
	for i := 0; i+1 < len(more); i += 2 {
		chunk(more[i], []byte(more[i+1]))
	}
	if kind == 3 {
		chunk("PLTE", make([]byte, 768))
	}
	chunk("IDAT", data)
	chunk("IEND", nil)
	return b
}

// Blocks returns a PNG whose data are packed in blocks of twelve bytes, each with tables of its own and without any
// data, up to nearly as much as a picture may weigh.
func Blocks(w, h uint32) []byte {
	var b bits
	b.put(0x0178, 16)
	for len(b.b) < 5<<20-100_000 {
		b.put(4, 3)  // not the last block, with tables
		b.put(0, 10) // for 257 symbols and one distance
		b.put(14, 4) // the lengths of 18 lengths: that of 18 is one bit, those of 0 and 1 are two
		for i := range 18 {
			b.put(map[int]uint32{2: 1, 3: 2, 17: 2}[i], 3)
		}
		b.put(3, 2) // the symbol 0 has one bit, then come 138 and 117 without, and the end has one
		b.put(0, 1)
		b.put(127, 7)
		b.put(0, 1)
		b.put(106, 7)
		b.put(3, 2)
		b.put(1, 2) // no distance
		b.put(1, 1) // the end
	}
	var rest bytes.Buffer
	f, _ := flate.NewWriter(&rest, flate.BestCompression)
	raw := make([]byte, h*(1+w))
	f.Write(raw)
	f.Close()
	for _, c := range rest.Bytes() {
		b.put(uint32(c), 8)
	}
	if b.n > 0 {
		b.put(0, 8-b.n)
	}
	return png(w, h, 8, 0, 0, binary.BigEndian.AppendUint32(b.b, adler32.Checksum(raw)))
}

// Packed returns a PNG with a text and a profile of zeros that are packed a thousand times smaller, and fill the file.
func Packed(w, h uint32) []byte {
	var zeros bytes.Buffer
	z, _ := zlib.NewWriterLevel(&zeros, flate.BestCompression)
	block := make([]byte, 1<<20)
	for zeros.Len() < 2<<20 {
		z.Write(block)
	}
	z.Close()
	small := PNG(w, h, 6, 0, 0)
	at := bytes.Index(small, []byte("IDAT"))
	size := binary.BigEndian.Uint32(small[at-4:])
	return png(w, h, 8, 6, 0, small[at+4:at+4+int(size)], "iCCP", "p\x00\x00"+zeros.String(), "zTXt",
		"t\x00\x00"+zeros.String())
}

// WebP returns a WebP without losses whose every pixel takes no bit: a table of one symbol. All of the four changes of
// colours are in it.
func WebP(w, h uint32) []byte {
	var b bits
	b.put(0x2f, 8)
	b.put(w-1, 14)
	b.put(h-1, 14)
	b.put(0, 4)
	simple := func(symbol uint32) { b.put(1, 1); b.put(0, 1); b.put(1, 1); b.put(symbol, 8) }
	pixels := func(green uint32, top bool) { // no cache of colours, no groups, and five tables
		b.put(0, 1)
		if top {
			b.put(0, 1)
		}
		for _, symbol := range []uint32{green, 7, 7, 255, 0} {
			simple(symbol)
		}
	}
	b.put(1, 1)
	b.put(0, 2) // each pixel is predicted
	b.put(0, 3)
	pixels(11, false)
	b.put(1, 1)
	b.put(1, 2) // its colours are changed by each other
	b.put(0, 3)
	pixels(11, false)
	b.put(1, 1)
	b.put(2, 2) // its green is taken out
	b.put(0, 1)
	pixels(3, true)
	data := append(b.done(), make([]byte, 8)...)
	if len(data)%2 == 1 {
		data = append(data, 0)
	}
	out := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(data)+12))
	out = binary.LittleEndian.AppendUint32(append(out, "WEBPVP8L"...), uint32(len(data)))
	return append(out, data...)
}

type bits struct {
	b    []byte
	word uint64
	n    uint
}

func (b *bits) put(v uint32, n uint) {
	b.word |= uint64(v) << b.n
	for b.n += n; b.n >= 8; b.n -= 8 {
		b.b = append(b.b, byte(b.word))
		b.word >>= 8
	}
}

func (b *bits) done() []byte { return append(b.b, byte(b.word)) }
