package seckill

import (
	"bytes"
	"image/png"
	"math"
	"math/bits"
	"strings"
)

// captchaReader plays an attacker who has the source: it knows the font, how glyphs are drawn, and their distances. It drops
// every pale colour, in which noise may be, and takes the sum whose glyphs differ from the rest in the fewest pixels.
type captchaReader struct {
	shapes map[byte][]captchaShape
}

// captchaShape is one drawing of a glyph: a bit per pixel, bit 0 of a row is the left one.
type captchaShape [captchaCell]uint64

func newCaptchaReader() captchaReader {
	r := captchaReader{map[byte][]captchaShape{}}
	own := newCaptchaGlyphs()
	for _, c := range []byte("0123456789+-") {
		for i := range captchaShapes {
			var shape captchaShape
			for at, shade := range own[c].shapes[i] {
				if shade > captchaShades/2 {
					shape[at/captchaCell] |= 1 << (at % captchaCell)
				}
			}
			r.shapes[c] = append(r.shapes[c], shape)
		}
	}
	return r
}

// read returns the sum that it takes the picture for, such as "48213 + 6".
func (r captchaReader) read(picture []byte) (text string, err error) {
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return "", err
	}
	const around = captchaCell // glyphs reach beyond the picture's edges by less than this
	var ink [captchaHeight + 2*around][captchaWidth + 2*around]uint8
	for y := range captchaHeight {
		for x := range captchaWidth {
			if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0x7800 {
				ink[y+around][x+around] = 1
			}
		}
	}
	// best[x] is the text with the fewest wrong pixels whose next glyph stands at x.
	type guess struct {
		text  string
		wrong int
	}
	best := map[int]guess{}
	for x := range 3 {
		best[11+x] = guess{}
	}
	const digits, signs = "0123456789", "+-"
	for _, kind := range []string{digits, digits, digits, digits, digits, signs, digits} {
		next := map[int]guess{}
		for x, so := range best {
			if kind == signs {
				x += 4
			}
			advance := captchaGlyphs()[kind[0]].advance // all digits are equally wide, and both signs
			left := x - (captchaCell-advance)/2 + around
			var rows [captchaHeight + 2*around]uint64
			for y := range rows {
				for i := range captchaCell {
					rows[y] |= uint64(ink[y][left+i]) << i
				}
			}
			for _, c := range []byte(kind) {
				// Only the columns between its neighbours count.
				columns := (uint64(1)<<advance - 1) << ((captchaCell - advance) / 2)
				wrong := math.MaxInt
				for _, shape := range r.shapes[c] {
					for top := around; top < around+captchaHeight-captchaCell; top++ {
						n := 0
						for y, row := range shape {
							n += bits.OnesCount64((rows[top+y] ^ row) & columns)
						}
						wrong = min(wrong, n)
					}
				}
				to := guess{so.text + string(c), so.wrong + wrong}
				for more := -1; more <= 1; more++ {
					at := x + advance + more
					if kind == signs {
						at += 4
					}
					if old, ok := next[at]; !ok || to.wrong < old.wrong {
						next[at] = to
					}
				}
			}
		}
		best = next
	}
	least := guess{"", math.MaxInt}
	for _, g := range best {
		if g.wrong < least.wrong {
			least = g
		}
	}
	return strings.NewReplacer("+", " + ", "-", " - ").Replace(least.text), nil
}
