// Package picture makes a picture that is safe to serve of bytes that anyone may have sent: it decodes them, bounds
// what is shown, and encodes it again, so that it looks as the file does: upright, and in its own colours. What is in
// the file besides the picture, such as the place where it was taken, or a script, does not come out again.
package picture

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"slices"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// Bounds of what is decoded and made.
const (
	MaxBytes  = 5 << 20
	MaxPixels = 24_000_000 // half as many with 16 bits for a colour, and a quarter in a progressive JPEG
	MaxLong   = 65_535     // pixels of a side, as many as a JPEG can have: a row costs time, however short it is
	MaxScans  = 64         // of a progressive JPEG; programs make ten
	MaxParts  = 10_000     // chunks or segments
	MaxSide   = 1200       // of a picture that is made
)

// Refusals.
var (
	ErrNotAPicture   = errors.New("not a whole PNG, JPEG or WebP picture") // as a FormatError
	ErrTooManyPixels = errors.New("too many pixels")
)

// Made is a picture that was encoded again.
type Made struct {
	Kind          string // png or jpg
	Bytes         []byte
	Width, Height int
}

// format is a kind of pictures that is decoded. A file is of the kind that its first bytes say, whatever it is called.
type format struct {
	name, magic, at8 string
	config           func(r io.Reader) (image.Config, error)
	decode           func(r io.Reader) (image.Image, error)
}

var formats = []format{
	{"PNG", "\x89PNG\r\n\x1a\n", "", png.DecodeConfig, png.Decode},
	{"JPEG", "\xff\xd8\xff", "", jpeg.DecodeConfig, jpeg.Decode},
	{"WebP", "RIFF", "WEBP", webp.DecodeConfig, decodeWebP},
}

// decodeWebP decodes a WebP. One with losses has brightness from 16 to 235 and colours from 16 to 240, as video has;
// the decoder returns them as they are, and image.YCbCr means 0 to 255.
func decodeWebP(r io.Reader) (image.Image, error) {
	img, err := webp.Decode(r)
	planes, _ := img.(*image.YCbCr)
	if alpha, ok := img.(*image.NYCbCrA); ok {
		planes = &alpha.YCbCr
	}
	if planes != nil {
		stretch(planes.Y, 16, 219, 0)
		stretch(planes.Cb, 128, 224, 128)
		stretch(planes.Cr, 128, 224, 128)
	}
	return img, err
}

// stretch moves the value from of a plane to the value to, and makes 255 steps of width ones.
func stretch(plane []uint8, from, width, to int) {
	var value [256]uint8
	for v := range value {
		value[v] = uint8(min(255, max(0, to+int(math.Round(float64((v-from)*255)/float64(width))))))
	}
	for i, v := range plane {
		plane[i] = value[v]
	}
}

// deep are the colours with 16 bits each, which take twice the memory.
var deep = []color.Model{color.Gray16Model, color.RGBA64Model, color.NRGBA64Model}

// whileWanted reads a file as long as ctx lasts, and a few bytes at a time, so that a decoder that takes long for each
// of them ends soon after its request.
type whileWanted struct {
	ctx context.Context
	r   *bytes.Reader
}

func (w whileWanted) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p[:min(len(p), 512)])
}

// Make decodes a picture, turns it as its camera was held, whichever of the formats it has, and makes it at most
// MaxSide wide and high, with the colours of sRGB. The size, and how often a decoder has to pass over it, are checked
// before anything is decoded. When ctx has ended, Make ends with its error. A picture with transparent parts becomes a
// PNG, any other a JPEG. Of a PNG that is animated the first picture is kept.
func Make(ctx context.Context, raw []byte) (Made, error) {
	if err := Check(raw); err != nil {
		return Made{}, err
	}
	f := formatOf(raw)
	damaged := FormatError{f.name, "damaged"}
	size, err := f.config(bytes.NewReader(raw))
	if err != nil || size.Width <= 0 || size.Height <= 0 || len(raw) > MaxBytes {
		return Made{}, damaged
	}
	if size.ColorModel == color.CMYKModel {
		return Made{}, FormatError{f.name, "cmyk"}
	}
	pixels := MaxPixels
	if slices.Contains(deep, size.ColorModel) {
		pixels /= 2
	}
	w := workOf(raw)
	if w.progressive {
		pixels /= 4
	}
	if size.Width > pixels/size.Height || max(size.Width, size.Height) > MaxLong {
		return Made{}, ErrTooManyPixels
	}
	if w.tooMuch() {
		return Made{}, FormatError{f.name, "parts"}
	}
	decoded, err := f.decode(whileWanted{ctx, bytes.NewReader(raw)})
	if ctx.Err() != nil {
		return Made{}, ctx.Err()
	}
	if err != nil {
		return Made{}, damaged
	}
	img := turn(shrink(decoded), orientation(raw))
	if space, ok := spaceOf(profile(raw)); ok {
		toSRGB(img, space)
	}
	m := Made{Width: img.Rect.Dx(), Height: img.Rect.Dy(), Kind: "jpg"}
	var out bytes.Buffer
	if img.Opaque() {
		err = jpeg.Encode(&out, img, &jpeg.Options{Quality: 85})
	} else {
		m.Kind = "png"
		err = png.Encode(&out, img)
	}
	m.Bytes = out.Bytes()
	return m, err
}

func formatOf(raw []byte) *format {
	for i, f := range formats {
		if bytes.HasPrefix(raw, []byte(f.magic)) &&
			(f.at8 == "" || len(raw) > 12 && bytes.HasPrefix(raw[8:], []byte(f.at8))) {
			return &formats[i]
		}
	}
	return nil
}

// Check returns a FormatError if the first bytes of a file show that it cannot be decoded here. They are enough for it.
func Check(raw []byte) error {
	f := formatOf(raw)
	switch {
	case len(raw) == 0:
		return FormatError{Why: "empty"}
	case f == nil:
		return FormatError{nameOf(raw), "other"}
	case f.name == "WebP" && len(raw) > 20 && string(raw[12:16]) == "VP8X" && raw[20]&2 != 0:
		return FormatError{f.name, "animated"}
	}
	return nil
}

// shrink returns img with its longer side at most MaxSide. It halves img while it is much larger, so that each of its
// pixels counts, and needs a quarter of its memory.
func shrink(img image.Image) *image.RGBA {
	for {
		b := img.Bounds()
		w, h, longer := b.Dx(), b.Dy(), max(b.Dx(), b.Dy())
		switch {
		case longer >= 2*MaxSide:
			w, h = max(1, w/2), max(1, h/2)
		case longer > MaxSide:
			w, h = max(1, w*MaxSide/longer), max(1, h*MaxSide/longer)
		}
		small := image.NewRGBA(image.Rect(0, 0, w, h))
		draw.ApproxBiLinear.Scale(small, small.Rect, img, b, draw.Src, nil)
		if max(w, h) <= MaxSide {
			return small
		}
		img = small
	}
}

// turn returns img as EXIF says that it is to be seen: from 1, as it is, to 8.
func turn(img *image.RGBA, orientation int) *image.RGBA {
	if orientation < 2 || orientation > 8 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if orientation >= 5 { // lies on its side
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			c := img.RGBAAt(x, y)
			switch orientation {
			case 2:
				out.SetRGBA(w-1-x, y, c)
			case 3:
				out.SetRGBA(w-1-x, h-1-y, c)
			case 4:
				out.SetRGBA(x, h-1-y, c)
			case 5:
				out.SetRGBA(y, x, c)
			case 6:
				out.SetRGBA(h-1-y, x, c)
			case 7:
				out.SetRGBA(h-1-y, w-1-x, c)
			case 8:
				out.SetRGBA(y, w-1-x, c)
			}
		}
	}
	return out
}
