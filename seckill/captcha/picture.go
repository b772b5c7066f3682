package captcha

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
	captchaWidth  = 320 // twice what the page shows, for screens with two dots to a pixel
	captchaHeight = 120
	captchaCell   = 72 // side of the square that holds a glyph in any shape
	captchaFine   = 2  // glyphs are drawn this many times larger, then bent and scaled down
	captchaShades = 3  // shades of an ink, the last is full ink
	captchaShapes = 9  // drawings of each glyph
)

// captchaPalettes have the paper and the shades of one ink. A picture has one ink for glyphs and noise, so that no
// colour tells them apart. They are filled up with paper to more than 16 colours: then the encoder takes the rows as
// they are, and a picture takes 0.6 times as long. With four colours it would ask for each pixel, to pack four into a
// byte, and save 0.8 kB.
var captchaPalettes = func() (palettes [3]color.Palette) {
	paper := color.RGBA{0xf7, 0xf5, 0xef, 0xff}
	for i, ink := range [len(palettes)]color.RGBA{{0x1d, 0x2b, 0x53, 0xff}, {0x6b, 0x1d, 0x3a, 0xff},
		{0x14, 0x50, 0x3c, 0xff}} {
		for shade := range captchaShades + 1 {
			mix := func(a, b uint8) uint8 {
				return uint8((int(a)*(captchaShades-shade) + int(b)*shade) / captchaShades)
			}
			palettes[i] = append(palettes[i], color.RGBA{mix(paper.R, ink.R), mix(paper.G, ink.G),
				mix(paper.B, ink.B), 0xff})
		}
		for len(palettes[i]) <= 16 {
			palettes[i] = append(palettes[i], paper)
		}
	}
	return palettes
}()

// drawCaptcha returns a PNG of the text, 320 by 120: digits, + and -, each in a random shape, on a bent line, under
// noise. It takes about 0.2 ms. Its random numbers come from the runtime's generator, which is safe for concurrent use.
func drawCaptcha(text string) []byte {
	img := image.NewPaletted(image.Rect(0, 0, captchaWidth, captchaHeight),
		captchaPalettes[rand.IntN(len(captchaPalettes))])
	captchaText(img, text)
	captchaNoise(img)
	var out bytes.Buffer
	if err := captchaEncoder.Encode(&out, img); err != nil {
		// cannot happen: a write to a buffer never fails
		panic("captcha: a paletted image didn't encode: " + err.Error())
	}
	return out.Bytes()
}

// captchaText draws the text. Waves move each column of the picture up or down, and each row to the left or right.
func captchaText(img *image.Paletted, text string) {
	down, right := captchaWave(6, 12, 180, 280), captchaWave(2, 4, 60, 100)
	x := 22 + rand.IntN(5) // no shape reaches an edge, wherever the waves move it
	for _, c := range []byte(text) {
		g := captchaGlyphs()[c]
		if g == nil {
			x += 8
			continue
		}
		captchaStamp(img, &g.shapes[rand.IntN(captchaShapes)], x-(captchaCell-g.advance)/2,
			20+rand.IntN(captchaHeight-captchaCell-39), &down, &right)
		x += g.advance + rand.IntN(5) - 2
	}
}

// captchaNoise draws dots and lines in the ink of the glyphs, and a line in the colour of the paper, which cuts
// strokes.
func captchaNoise(img *image.Paletted) {
	for range 40 {
		at, shade := rand.IntN(len(img.Pix)-4*captchaWidth), uint8(1+rand.IntN(captchaShades))
		for row, wide := range [...]int{4, 4, 2, 2} {
			for i := range wide {
				img.Pix[at+row*captchaWidth+i] = shade
			}
		}
	}
	for _, line := range [...]struct {
		thick int
		shade uint8
	}{{4, captchaShades}, {2, captchaShades}, {2, 0}} {
		y, wave := 24+rand.IntN(captchaHeight-51), captchaWave(8, 24, 100, 320) // never beyond the edges
		for x := range captchaWidth {
			for py := y + wave[x]; py < y+wave[x]+line.thick; py++ {
				img.Pix[py*img.Stride+x] = line.shade
			}
		}
	}
}

// captchaWave returns the heights of a wave whose swing and length are between the limits.
func captchaWave(leastSwing, mostSwing, leastLength, mostLength float64) (heights [captchaWidth]int) {
	swing := leastSwing + (mostSwing-leastSwing)*rand.Float64()
	turn := 2 * math.Pi / (leastLength + (mostLength-leastLength)*rand.Float64())
	phase := 2 * math.Pi * rand.Float64()
	for i := range heights {
		heights[i] = int(math.Round(swing * math.Sin(turn*float64(i)+phase)))
	}
	return heights
}

// captchaStamp draws a glyph over the picture.
func captchaStamp(
	img *image.Paletted, shape *[captchaCell * captchaCell]uint8, left, top int, down, right *[captchaWidth]int,
) {
	for y := range captchaCell {
		from := left + right[top+y]
		for x, shade := range shape[y*captchaCell : (y+1)*captchaCell] {
			if shade == 0 {
				continue
			}
			px := from + x
			if px < 0 || px >= captchaWidth {
				continue
			}
			py := top + y + down[px]
			if py < 0 || py >= captchaHeight {
				continue
			}
			if at := py*img.Stride + px; img.Pix[at] < shade {
				img.Pix[at] = shade
			}
		}
	}
}

type captchaGlyph struct {
	advance int
	shapes  [captchaShapes][captchaCell * captchaCell]uint8 // shades, 0 is paper
}

// captchaGlyphs returns every glyph in every shape. They are drawn once in a process, and differ from those of another.
var captchaGlyphs = sync.OnceValue(newCaptchaGlyphs)

func newCaptchaGlyphs() *[256]*captchaGlyph {
	parsed, err := opentype.Parse(gobold.TTF)
	if err != nil {
		panic("captcha: the built-in font: " + err.Error())
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 64 * captchaFine, DPI: 72})
	if err != nil {
		panic("captcha: the built-in font: " + err.Error())
	}
	var glyphs [256]*captchaGlyph
	for _, c := range "0123456789+-" {
		shown := c
		if c == '-' {
			shown = '−' // as wide as the plus
		}
		glyphs[c] = newCaptchaGlyph(face, shown)
	}
	return &glyphs
}

// newCaptchaGlyph draws one glyph large. It then turns, stretches, slants and bends it at random, and scales it down. A
// sign is turned and slanted less, so that a person still recognises a minus.
func newCaptchaGlyph(face font.Face, c rune) *captchaGlyph {
	const fine = captchaCell * captchaFine
	large := image.NewAlpha(image.Rect(0, 0, fine, fine))
	advance := font.MeasureString(face, string(c))
	pen := font.Drawer{Dst: large, Src: image.Opaque, Face: face,
		Dot: fixed.Point26_6{X: (fixed.I(fine) - advance) / 2, Y: fixed.I(fine * 5 / 6)}}
	pen.DrawString(string(c))
	g := &captchaGlyph{advance: advance.Round() / captchaFine}
	turn, slant := 22*math.Pi/180, 0.3
	if c < '0' || c > '9' {
		turn, slant = 0.4*turn, 0.4*slant
	}
	for i := range g.shapes {
		spread := func(most float64) float64 { return most * (2*rand.Float64() - 1) }
		sin, cos := math.Sincos(spread(turn))
		wide, high, slant := 1+spread(0.2), 1+spread(0.2), spread(slant)
		length, phase := (32+16*rand.Float64())*captchaFine/(2*math.Pi), spread(math.Pi)
		for y := range captchaCell {
			for x := range captchaCell {
				ink := 0
				bend := 2.6 * captchaFine * math.Sin(
					(float64(y-captchaCell/2)*cos-float64(x-captchaCell/2)*sin)*captchaFine/length+phase)
				for s := range captchaFine * captchaFine {
					fx := float64(x*captchaFine+s%captchaFine) - fine/2
					fy := float64(y*captchaFine+s/captchaFine) - fine/2
					fx, fy = (fx*cos+fy*sin)/wide, (fy*cos-fx*sin)/high
					ink += int(large.AlphaAt(int(fx+slant*fy+bend)+fine/2, int(fy)+fine/2).A)
				}
				g.shapes[i][y*captchaCell+x] = uint8(
					(ink*captchaShades + 0x7f*captchaFine*captchaFine) / (0xff * captchaFine * captchaFine))
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
