package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"miaosha/seckill/admin/picture/picturetest"

	"miaosha/seckill/sandbox/sandboxtest"
)

// drawn returns a picture of w times h pixels that is red on the left and blue on the right.
func drawn(w, h int, alpha uint8) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{R: 200, A: alpha}
			if x >= w/2 {
				c = color.NRGBA{B: 200, A: alpha}
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func encoded(t testing.TB, kind string, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	err := map[string]func() error{
		"png": func() error { return png.Encode(&b, img) },
		"jpg": func() error { return jpeg.Encode(&b, img, nil) },
		"gif": func() error { return gif.Encode(&b, img, nil) },
	}[kind]()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// header returns a PNG that claims a size and has a few bytes of data.
func header(w, h uint32, depth byte) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		body := append([]byte(kind), data...)
		b = binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
	}
	ihdr := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	chunk("IHDR", append(ihdr, depth, 2, 0, 0, 0))
	chunk("IDAT", []byte("\x78\x9c\x03\x00\x00\x00\x00\x01"))
	return b
}

// progressive returns a JPEG of a few bytes that claims a size, and begins its first pass after a few others that mean nothing.
func progressive(w, h uint16) []byte {
	b := []byte("\xff\xd8\xff\x00\x01\xff\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) + "\xff\xc2\x00\x11\x08")
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h), w)
	return append(b, "\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"+"\xff\xc4\x00\x14\x00\x01"+strings.Repeat("\x00", 16)+
		"\xff\xda\x00\x0c\x03\x01\x00\x02\x00\x03\x00\x00\x00\x00"+strings.Repeat("\x00", 64)...)
}

func withExif(raw []byte, orientation byte) []byte {
	exif := append([]byte("\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"), orientation, 0, 0, 0, 0, 0, 0)
	return append(append(bytes.Clone(raw[:2]), exif...), raw[2:]...)
}

func TestMake(t *testing.T) {
	small, large := encoded(t, "png", drawn(40, 20, 255)), encoded(t, "jpg", drawn(2600, 1300, 255))
	for _, test := range []struct {
		name string
		raw  []byte
		kind string
		w, h int
	}{
		{"a PNG", small, "jpg", 40, 20},
		{"a PNG that one can look through", encoded(t, "png", drawn(40, 20, 100)), "png", 40, 20},
		{"a large JPEG", large, "jpg", 1200, 600},
		{"a little too large", encoded(t, "png", drawn(10, 1210, 255)), "jpg", 9, 1200},
		{"a long strip", encoded(t, "png", drawn(1, 5000, 255)), "jpg", 1, 1200},
		{"lying on its side", withExif(large, 6), "jpg", 600, 1200},
		{"upside down", withExif(large, 3), "jpg", 1200, 600},
		{"an orientation that is none", withExif(large, 9), "jpg", 1200, 600},
		{"a page behind the picture", append(bytes.Clone(small), "<html><script>alert(1)</script>"...), "jpg", 40, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := Make(t.Context(), test.raw)
			if err != nil || m.Kind != test.kind || m.Width != test.w || m.Height != test.h {
				t.Fatalf("a %s of %d x %d, %v; want a %s of %d x %d", m.Kind, m.Width, m.Height, err, test.kind, test.w, test.h)
			}
			shown, kind, err := image.Decode(bytes.NewReader(m.Bytes))
			if err != nil || shown.Bounds() != image.Rect(0, 0, test.w, test.h) || kind[:2] != test.kind[:2] {
				t.Errorf("it shows a %s of %v, %v", kind, shown.Bounds(), err)
			}
			if bytes.Contains(m.Bytes, []byte("script")) || bytes.Contains(m.Bytes, []byte("Exif")) {
				t.Error("what was beside the picture has come out again")
			}
		})
	}
}

// Red is on the left; turned as its camera was held it is where EXIF says.
func TestPicturesAreTurned(t *testing.T) {
	raw := encoded(t, "jpg", drawn(64, 64, 255))
	for orientation, red := range map[byte][2]int{1: {5, 32}, 2: {58, 32}, 3: {58, 32}, 4: {5, 32}, 5: {32, 5}, 6: {32, 5}, 7: {32, 58}, 8: {32, 58}} {
		m, err := Make(t.Context(), withExif(raw, orientation))
		if err != nil {
			t.Fatal(err)
		}
		img, err := jpeg.Decode(bytes.NewReader(m.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if r, _, b, _ := img.At(red[0], red[1]).RGBA(); r < b {
			t.Errorf("orientation %d: red is not at %v", orientation, red)
		}
	}
}

func TestHostilePicturesAreRefused(t *testing.T) {
	good := encoded(t, "png", drawn(40, 20, 255))
	for _, test := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, ErrNotAPicture},
		{"an SVG", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), ErrNotAPicture},
		{"a page", []byte("<!doctype html><script>alert(1)</script>"), ErrNotAPicture},
		{"a GIF", encoded(t, "gif", drawn(4, 4, 255)), ErrNotAPicture},
		{"a page that begins as a GIF", []byte("GIF89a/*<script>alert(1)</script>*/"), ErrNotAPicture},
		{"a page that begins as a JPEG", []byte("\xff\xd8\xff\xe0<script>alert(1)</script>"), ErrNotAPicture},
		{"a sound that begins as a WebP", []byte("RIFF\x00\x00\x00\x00WAVEfmt 12345678"), ErrNotAPicture},
		{"half a PNG", good[:len(good)-20], ErrNotAPicture},
		{"half a JPEG", encoded(t, "jpg", drawn(40, 20, 255))[:300], ErrNotAPicture},
		{"no pixels", header(0, 10, 8), ErrNotAPicture},
		{"a bomb of 50,000 x 50,000", header(50_000, 50_000, 8), ErrTooManyPixels},
		{"the largest size there is", header(1<<31-1, 1<<31-1, 8), ErrNotAPicture},
		{"too many for 16 bits", header(4000, 4000, 16), ErrTooManyPixels},
		{"as many with 8 bits and no data", header(4000, 4000, 8), ErrNotAPicture},
		{"a progressive one whose decoding takes 340 MB", progressive(6000, 4000), ErrTooManyPixels},
		{"one that takes as much as others", progressive(3000, 2000), ErrNotAPicture},
		{"a strip with a row for each pixel", picturetest.PNG(1, 65_536, 3, 0, 0), ErrTooManyPixels},
		{"a scan more than there may be", picturetest.Scans(16, 16, MaxScans+1), FormatError{"JPEG", "parts"}},
		{"12,000 scans in 240 kB", picturetest.Scans(2449, 2449, 12_000), FormatError{"JPEG", "parts"}},
		{"a colour that is painted five times", picturetest.Baseline(16, 16, 5), FormatError{"JPEG", "parts"}},
		{"a JPEG of too many tables", picturetest.Tables(16, 16, MaxParts), FormatError{"JPEG", "parts"}},
		{"too many bytes", append(bytes.Clone(good), make([]byte, MaxBytes)...), ErrNotAPicture},
	} {
		t.Run(test.name, func(t *testing.T) {
			if m, err := Make(t.Context(), test.raw); !errors.Is(err, test.want) || m.Bytes != nil {
				t.Errorf("%d bytes and %v, want %v", len(m.Bytes), err, test.want)
			}
		})
	}
}

// The worst pictures that are known stay within the bounds of what a decoder does: as many passes over so many pixels, and rows, and
// parts. All but these are refused before they are decoded.
func TestTheWorkForAPictureIsBounded(t *testing.T) {
	for _, p := range picturetest.Worst() {
		size, err := formatOf(p.Raw).config(bytes.NewReader(p.Raw))
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		w, pixels := workOf(p.Raw), size.Width*size.Height
		if passes := max(1, w.scans); pixels*passes > max(MaxScans*MaxPixels/4, 4*MaxPixels) || w.parts > MaxParts || size.Height > MaxLong || len(p.Raw) > MaxBytes {
			t.Errorf("%s: %d passes over %d pixels in %d rows, %d parts, %d bytes", p.Name, passes, pixels, size.Height, w.parts, len(p.Raw))
		}
	}
	// What programs make is far from the bounds.
	for _, name := range []string{"turned.jpg", "p3.jpg"} {
		if w := workOf([]byte(file(t, name))); w.scans != 1 || w.parts > 100 || w.progressive {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// untilAsked is a context that has ended when it was asked so often.
type untilAsked struct {
	context.Context
	left *int
}

func (c untilAsked) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A decoder ends at its next read when its request has ended, and so does what comes behind it.
func TestADecoderEndsWithItsRequest(t *testing.T) {
	for _, raw := range [][]byte{picturetest.Baseline(800, 800, 4), picturetest.Scans(800, 800, 64), picturetest.PNG(200, 9000, 6, 4, 0)} {
		for _, reads := range []int{0, 3} {
			left := reads
			m, err := Make(untilAsked{t.Context(), &left}, raw)
			if err != context.Canceled || m.Bytes != nil || left < -3 {
				t.Errorf("after %d reads: %d bytes, %v, and %d questions more", reads, len(m.Bytes), err, -left)
			}
		}
	}
}

// Each file says what it is, whatever it is called.
func TestFormatsAreNamed(t *testing.T) {
	box := func(brand string, more ...string) string {
		list := brand + "\x00\x00\x00\x00" + strings.Join(more, "")
		return "\x00\x00\x00" + string(rune(8+len(list))) + "ftyp" + list + "\x00\x00\x00\x08mdat"
	}
	for _, test := range []struct {
		raw  string
		want FormatError
	}{
		{"", FormatError{"", "empty"}},
		{box("heic", "mif1", "heic"), FormatError{"HEIC", "other"}},
		{box("mif1", "mif1", "heix"), FormatError{"HEIC", "other"}},
		{box("mif1", "mif1", "avif"), FormatError{"AVIF", "other"}},
		{box("avis", "msf1"), FormatError{"AVIF", "other"}},
		{box("isom", "mp41"), FormatError{"video", "other"}},
		{box("qt  "), FormatError{"video", "other"}},
		{"\x1a\x45\xdf\xa3webm", FormatError{"video", "other"}},
		{"RIFF\x10\x00\x00\x00AVI LIST", FormatError{"video", "other"}},
		{"GIF89a\x01\x00\x01\x00", FormatError{"GIF", "other"}},
		{"BM\x46\x00\x00\x00", FormatError{"BMP", "other"}},
		{"II*\x00\x08\x00\x00\x00", FormatError{"TIFF", "other"}},
		{"MM\x00*\x00\x00\x00\x08", FormatError{"TIFF", "other"}},
		{"%PDF-1.7\n", FormatError{"PDF", "other"}},
		{"\x00\x00\x00\x0cJXL \x0d\x0a", FormatError{"JPEG XL", "other"}},
		{"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- drawn --><svg xmlns='http://www.w3.org/2000/svg'/>", FormatError{"SVG", "other"}},
		{"<!DOCTYPE HTML><body><svg/>", FormatError{"HTML", "other"}},
		{"PK\x03\x04", FormatError{"ZIP", "other"}},
		{"a letter", FormatError{"", "other"}},
		{"<", FormatError{"", "other"}},
		{"\xff\xd8\xff", FormatError{"JPEG", "damaged"}},
		{"\x89PNG\r\n\x1a\n", FormatError{"PNG", "damaged"}},
		{"RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00", FormatError{"WebP", "damaged"}},
		{"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00", FormatError{"WebP", "animated"}},
		{file(t, "cmyk.jpg"), FormatError{"JPEG", "cmyk"}},
		{file(t, "turned.avif"), FormatError{"AVIF", "other"}},
		{file(t, "turned.webp")[:300], FormatError{"WebP", "damaged"}},
	} {
		if _, err := Make(t.Context(), []byte(test.raw)); err != test.want || !errors.Is(err, ErrNotAPicture) {
			t.Errorf("%.30q: %v, want %v", test.raw, err, test.want)
		}
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The files show red beside blue, and were made by another program: turned ones on their sides, the others in the colours of Display P3,
// where this red is 184, 52, 46.
func TestPicturesLookAsTheirFilesDo(t *testing.T) {
	for _, name := range []string{"turned.jpg", "turned.png", "turned.webp", "p3.jpg", "p3.png", "p3.webp"} {
		m, err := Make(t.Context(), []byte(file(t, name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		img, _, err := image.Decode(bytes.NewReader(m.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		size, blue := image.Pt(64, 32), image.Pt(54, 22)
		if strings.HasPrefix(name, "turned") {
			size, blue = image.Pt(32, 64), image.Pt(22, 54)
		}
		if img.Bounds().Size() != size || !near(img.At(8, 8), 200, 40, 40) || !near(img.At(blue.X, blue.Y), 40, 40, 200) {
			t.Errorf("%s: %v, with %v and %v", name, img.Bounds().Size(), img.At(8, 8), img.At(blue.X, blue.Y))
		}
	}
}

func near(c color.Color, r, g, b int) bool {
	is := color.NRGBAModel.Convert(c).(color.NRGBA)
	off := func(a uint8, b int) bool { return max(int(a)-b, b-int(a)) > 6 }
	return !off(is.R, r) && !off(is.G, g) && !off(is.B, b)
}

// A profile with the three ways to write a curve is that of Adobe RGB here: its green lies outside of sRGB. Other profiles change nothing.
func TestProfiles(t *testing.T) {
	word := func(v float64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(math.Round(v*65536)))) }
	column := func(x, y, z float64) []byte {
		return slices.Concat([]byte("XYZ \x00\x00\x00\x00"), word(x), word(y), word(z))
	}
	table := []byte("curv\x00\x00\x00\x00\x00\x00\x01\x00")
	for v := range 256 {
		table = binary.BigEndian.AppendUint16(table, uint16(math.Round(65535*math.Pow(float64(v)/255, 563./256))))
	}
	tags := []struct {
		name string
		data []byte
	}{
		{"rXYZ", column(0.60974, 0.31111, 0.01947)}, {"gXYZ", column(0.20528, 0.62567, 0.06087)}, {"bXYZ", column(0.14919, 0.06322, 0.74457)},
		{"rTRC", []byte("curv\x00\x00\x00\x00\x00\x00\x00\x01\x02\x33\x00\x00")}, {"gTRC", table},
		{"bTRC", slices.Concat([]byte("para\x00\x00\x00\x00\x00\x00\x00\x00"), word(563./256))},
	}
	icc := append(make([]byte, 16), "RGB XYZ "...)
	icc = binary.BigEndian.AppendUint32(append(icc, make([]byte, 104)...), uint32(len(tags)))
	at := 132 + 12*len(tags)
	var data []byte
	for _, tag := range tags {
		icc = append(icc, tag.name...)
		icc = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(icc, uint32(at+len(data))), uint32(len(tag.data)))
		data = append(data, tag.data...)
	}
	icc = append(icc, data...)
	s, ok := spaceOf(icc)
	if !ok {
		t.Fatal("the profile is not read")
	}
	for in, want := range map[color.RGBA]color.RGBA{
		{0, 0, 0, 255}: {0, 0, 0, 255}, {255, 255, 255, 255}: {255, 255, 255, 255}, {128, 128, 128, 255}: {128, 128, 128, 255},
		{0, 200, 0, 255}: {0, 200, 0, 255}, {200, 100, 50, 255}: {228, 99, 40, 255}, {64, 64, 64, 128}: {64, 64, 64, 128}, {}: {},
	} {
		img := image.NewRGBA(image.Rect(0, 0, 1, 1))
		img.SetRGBA(0, 0, in)
		if toSRGB(img, s); !near(img.RGBAAt(0, 0), int(want.R)*255/max(1, int(want.A)), int(want.G)*255/max(1, int(want.A)), int(want.B)*255/max(1, int(want.A))) {
			t.Errorf("%v became %v, want %v", in, img.RGBAAt(0, 0), want)
		}
	}
	for cut := range icc {
		if _, ok := spaceOf(icc[:cut]); ok {
			t.Errorf("%d bytes of %d are read as a profile", cut, len(icc))
		}
	}
	gray := bytes.Clone(icc)
	copy(gray[16:], "GRAY")
	if _, ok := spaceOf(gray); ok {
		t.Error("a profile of grays is read as one of colours")
	}
}

// Whatever is sent, there is no panic, and what comes out is a picture within the bounds.
func FuzzMake(f *testing.F) {
	f.Add(encoded(f, "png", drawn(3, 3, 100)))
	f.Add(withExif(encoded(f, "jpg", drawn(9, 5, 255)), 6))
	f.Add(header(5, 5, 16))
	f.Add(progressive(9, 5))
	for _, slow := range [][]byte{picturetest.Scans(64, 64, 64), picturetest.Baseline(64, 64, 4), picturetest.Tables(8, 8, 100), picturetest.PNG(3, 999, 6, 4, 1), picturetest.WebP(300, 300)} {
		f.Add(slow)
	}
	for _, name := range []string{"turned.png", "turned.webp", "p3.jpg", "p3.png"} {
		if raw, err := os.ReadFile("testdata/" + name); err == nil {
			f.Add(raw)
		}
	}
	f.Add([]byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"))
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer slowest(raw)()
		if size, _, err := image.DecodeConfig(bytes.NewReader(raw)); err == nil && size.Width > 1_000_000/max(1, size.Height) {
			return // it takes long
		}
		m, err := Make(t.Context(), raw)
		if err != nil {
			return
		}
		if size, _, err := image.DecodeConfig(bytes.NewReader(m.Bytes)); err != nil || size.Width != m.Width || size.Height != m.Height || max(m.Width, m.Height) > MaxSide {
			t.Errorf("%d x %d came out as %v, %v", m.Width, m.Height, size, err)
		}
	})
}
