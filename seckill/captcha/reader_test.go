package captcha

import (
	"bytes"
	"image/png"
	"math"
	"math/bits"
	"strings"
)

// captchaReader plays an attacker who has the source: it knows the font, how glyphs are drawn, and their distances. It makes the
// picture half as large, which loses nothing and is four times as fast, drops
// every pale colour, in which noise may be, and takes the sum whose glyphs differ from the rest in the fewest pixels.
type captchaReader struct {
	shapes map[byte][]captchaShape
}

const halfWidth, halfHeight, halfCell = captchaWidth / 2, captchaHeight / 2, captchaCell / 2

// captchaShape is one drawing of a glyph, half as large: a bit per pixel, bit 0 of a row is the left one.
type captchaShape [halfCell]uint64

func newCaptchaReader() captchaReader {
	r := captchaReader{map[byte][]captchaShape{}}
	own := newCaptchaGlyphs()
	for _, c := range []byte("0123456789+-") {
		for i := range captchaShapes {
			var shape captchaShape
			for at := range halfCell * halfCell {
				x, y, dark := at%halfCell, at/halfCell, 0
				for _, from := range []int{0, 1, captchaCell, captchaCell + 1} {
					if own[c].shapes[i][2*y*captchaCell+2*x+from] > captchaShades/2 {
						dark++
					}
				}
				if dark > 1 {
					shape[y] |= 1 << x
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
	const around = halfCell // glyphs reach beyond the picture's edges by less than this
	var ink [halfHeight + 2*around][halfWidth + 2*around]uint8
	for y := range halfHeight {
		for x := range halfWidth {
			dark := 0
			for from := range 4 {
				if r, g, b, _ := img.At(2*x+from%2, 2*y+from/2).RGBA(); r+g+b < 3*0x7800 {
					dark++
				}
			}
			if dark > 1 {
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
			advance := captchaGlyphs()[kind[0]].advance / 2 // all digits are equally wide, and both signs
			left := x - (halfCell-advance)/2 + around
			var rows [halfHeight + 2*around]uint64
			for y := range rows {
				for i := range halfCell {
					rows[y] |= uint64(ink[y][left+i]) << i
				}
			}
			for _, c := range []byte(kind) {
				// Only the columns between its neighbours count.
				columns := (uint64(1)<<advance - 1) << ((halfCell - advance) / 2)
				wrong := math.MaxInt
				for _, shape := range r.shapes[c] {
					for top := around; top < around+halfHeight-halfCell; top++ {
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
