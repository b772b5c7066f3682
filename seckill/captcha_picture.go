package seckill

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

const (
	captchaWidth  = 160
	captchaHeight = 60
	captchaCell   = 36 // side of the square that holds a glyph in any turn
	captchaFine   = 4  // glyphs are drawn this many times larger, then turned and scaled down
	captchaShades = 4  // shades of each ink, the last is full ink
	captchaInks   = 3
	captchaTurns  = 9 // drawings of each glyph, at different angles
)

// captchaPalette has the paper, captchaShades shades of each ink, and three colours of noise, in this order. That makes
// sixteen colours, so a pixel takes four bits.
var captchaPalette = func() color.Palette {
	paper := color.RGBA{0xf7, 0xf5, 0xef, 0xff}
	p := color.Palette{paper}
	for _, ink := range [captchaInks]color.RGBA{{0x1d, 0x2b, 0x53, 0xff}, {0x6b, 0x1d, 0x3a, 0xff}, {0x14, 0x50, 0x3c, 0xff}} {
		for shade := 1; shade <= captchaShades; shade++ {
			mix := func(a, b uint8) uint8 { return uint8((int(a)*(captchaShades-shade) + int(b)*shade) / captchaShades) }
			p = append(p, color.RGBA{mix(paper.R, ink.R), mix(paper.G, ink.G), mix(paper.B, ink.B), 0xff})
		}
	}
	return append(p, color.RGBA{0xc9, 0xc4, 0xb4, 0xff}, color.RGBA{0x9f, 0xb0, 0xc4, 0xff}, color.RGBA{0xd3, 0xa5, 0x9d, 0xff})
}()

// drawCaptcha returns a PNG of the text, 160 by 60: digits, + and -, turned and moved at random, over noise. It takes about
// 0.15 ms. Its random numbers come from the runtime's generator, which is safe for concurrent use.
func drawCaptcha(text string) []byte {
	img := image.NewPaletted(image.Rect(0, 0, captchaWidth, captchaHeight), captchaPalette)
	captchaNoise(img)
	x := 4 + rand.IntN(6)
	for _, c := range []byte(text) {
		g := captchaGlyphs()[c]
		if g == nil {
			x += 4
			continue
		}
		turned := &g.turned[rand.IntN(captchaTurns)]
		captchaStamp(img, turned, x-(captchaCell-g.advance)/2, 8+rand.IntN(captchaHeight-captchaCell-16), rand.IntN(captchaInks))
		x += g.advance + rand.IntN(3)
	}
	var out bytes.Buffer
	if err := captchaEncoder.Encode(&out, img); err != nil {
		panic("seckill: a paletted image didn't encode: " + err.Error()) // cannot happen: a write to a buffer never fails
	}
	return out.Bytes()
}

// captchaNoise draws dots and waves in pale colours. They disturb a program more than a person.
func captchaNoise(img *image.Paletted) {
	first := 1 + captchaInks*captchaShades
	for range 260 {
		img.Pix[rand.IntN(len(img.Pix))] = uint8(first + rand.IntN(3))
	}
	for i := range 4 {
		y, swing := float64(8+rand.IntN(captchaHeight-16)), 3+8*rand.Float64()
		turn, phase := 0.02+0.06*rand.Float64(), 2*math.Pi*rand.Float64()
		for x := range captchaWidth {
			at := int(y + swing*math.Sin(turn*float64(x)+phase))
			for _, py := range [2]int{at, at + 1} {
				if py >= 0 && py < captchaHeight {
					img.Pix[py*img.Stride+x] = uint8(first + i%3)
				}
			}
		}
	}
}

// captchaStamp draws a glyph over the picture in one ink.
func captchaStamp(img *image.Paletted, cell *[captchaCell * captchaCell]uint8, left, top, ink int) {
	for y := range captchaCell {
		for x := range captchaCell {
			shade := cell[y*captchaCell+x]
			px, py := left+x, top+y
			if shade == 0 || px < 0 || px >= captchaWidth || py < 0 || py >= captchaHeight {
				continue
			}
			img.Pix[py*img.Stride+px] = uint8(ink*captchaShades) + shade
		}
	}
}

type captchaGlyph struct {
	advance int
	turned  [captchaTurns][captchaCell * captchaCell]uint8 // shades, 0 is paper
}

// captchaGlyphs returns every glyph in every turn. They are drawn once.
var captchaGlyphs = sync.OnceValue(func() *[256]*captchaGlyph {
	parsed, err := opentype.Parse(gobold.TTF)
	if err != nil {
		panic("seckill: the built-in font: " + err.Error())
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 32 * captchaFine, DPI: 72})
	if err != nil {
		panic("seckill: the built-in font: " + err.Error())
	}
	var glyphs [256]*captchaGlyph
	for _, c := range "0123456789+-" {
		shown := c
		if c == '-' {
			shown = '−' // as wide as the plus
		}
		glyphs[c] = captchaTurn(face, shown)
	}
	return &glyphs
})

// captchaTurn draws one glyph large, turns it by -16 to 16 degrees and scales it down. A sign is turned less, so that a
// person still recognises a minus.
func captchaTurn(face font.Face, c rune) *captchaGlyph {
	const fine = captchaCell * captchaFine
	large := image.NewAlpha(image.Rect(0, 0, fine, fine))
	advance := font.MeasureString(face, string(c))
	pen := font.Drawer{Dst: large, Src: image.Opaque, Face: face,
		Dot: fixed.Point26_6{X: (fixed.I(fine) - advance) / 2, Y: fixed.I(fine * 5 / 6)}}
	pen.DrawString(string(c))
	g := &captchaGlyph{advance: advance.Round() / captchaFine}
	most := 16.0
	if c < '0' || c > '9' {
		most = 6
	}
	for i := range g.turned {
		angle := most * (2*float64(i)/(captchaTurns-1) - 1) * math.Pi / 180
		sin, cos := math.Sincos(angle)
		for y := range captchaCell {
			for x := range captchaCell {
				ink := 0
				for s := range captchaFine * captchaFine {
					fx := float64(x*captchaFine+s%captchaFine) - fine/2
					fy := float64(y*captchaFine+s/captchaFine) - fine/2
					ink += int(large.AlphaAt(int(fx*cos+fy*sin)+fine/2, int(fy*cos-fx*sin)+fine/2).A)
				}
				g.turned[i][y*captchaCell+x] = uint8((ink*captchaShades + 0x7f*captchaFine*captchaFine) / (0xff * captchaFine * captchaFine))
			}
		}
	}
	return g
}

// captchaEncoder prefers speed to size, and uses its buffers again.
var captchaEncoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: &captchaBuffers{}}

type captchaBuffers struct{ pool sync.Pool }

func (b *captchaBuffers) Get() *png.EncoderBuffer {
	buffer, _ := b.pool.Get().(*png.EncoderBuffer)
	return buffer // nil: the encoder allocates one
}

func (b *captchaBuffers) Put(buffer *png.EncoderBuffer) { b.pool.Put(buffer) }
