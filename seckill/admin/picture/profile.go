package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"io"
	"math"
)

// profileMost bounds a profile: those of cameras and phones have less than a kilobyte.
const profileMost = 1 << 20

// profile returns the ICC profile that a picture has, or nil.
func profile(raw []byte) (icc []byte) {
	for name, data := range parts(raw) {
		switch name {
		case "ICCP":
			return data
		case "iCCP": // a name, a zero, the method, which is always zlib
			if _, packed, ok := bytes.Cut(data, []byte("\x00")); ok && len(packed) > 1 {
				if r, err := zlib.NewReader(bytes.NewReader(packed[1:])); err == nil {
					icc, _ = io.ReadAll(io.LimitReader(r, profileMost))
				}
			}
			return icc
		case string(markerApp2): // in pieces, each with its number and how many there are
			if piece, ok := bytes.CutPrefix(data, []byte("ICC_PROFILE\x00")); ok && len(piece) > 2 &&
				len(icc) < profileMost {
				icc = append(icc, piece[2:]...)
			}
		}
	}
	return icc
}

// space is what a profile says of a colour: how much light each value of a part is, and what the three parts are
// together.
type space struct {
	light [3][256]float64
	xyz   [3][3]float64 // by row; the white is that of profiles, D50
}

// spaceOf reads a profile of three parts with curves, such as Display P3 and Adobe RGB. Those of printers have tables
// instead, and are not read.
func spaceOf(icc []byte) (s space, ok bool) {
	if len(icc) < 132 || string(icc[16:20]) != "RGB " || string(icc[20:24]) != "XYZ " {
		return s, false
	}
	tag := func(name string) []byte {
		for at, n := 132, binary.BigEndian.Uint32(icc[128:]); n > 0 && at+12 <= len(icc); at, n = at+12, n-1 {
			from, size := uint64(binary.BigEndian.Uint32(icc[at+4:])), uint64(binary.BigEndian.Uint32(icc[at+8:]))
			if string(icc[at:at+4]) == name && from+size <= uint64(len(icc)) {
				return icc[from : from+size]
			}
		}
		return nil
	}
	for i, part := range []string{"r", "g", "b"} {
		column, curve := tag(part+"XYZ"), tag(part+"TRC")
		if len(column) < 20 || len(curve) < 12 {
			return s, false
		}
		for row := range 3 {
			s.xyz[row][i] = fixed(column[8+4*row:])
		}
		for v := range 256 {
			y, ok := lightOf(curve, float64(v)/255)
			if !ok || math.IsNaN(y) {
				return s, false
			}
			s.light[i][v] = min(1, max(0, y))
		}
	}
	return s, true
}

func fixed(b []byte) float64 { return float64(int32(binary.BigEndian.Uint32(b))) / 65536 }

// lightOf reads a curve at x, from 0 to 1: a table, a power, or one of the formulas 0, 3 and the others of the ICC.
func lightOf(curve []byte, x float64) (y float64, ok bool) {
	switch string(curve[:4]) {
	case "curv":
		n := int(binary.BigEndian.Uint32(curve[8:]))
		switch table := curve[12:]; {
		case n == 0:
			return x, true
		case n < 0 || n > len(table)/2:
			return 0, false
		case n == 1:
			return math.Pow(x, float64(binary.BigEndian.Uint16(table))/256), true
		default:
			at := min(int(x*float64(n-1)), n-2)
			low, high := float64(binary.BigEndian.Uint16(table[2*at:])), float64(
				binary.BigEndian.Uint16(table[2*at+2:]))
			return (low + (high-low)*(x*float64(n-1)-float64(at))) / 65535, true
		}
	case "para":
		kind := int(binary.BigEndian.Uint16(curve[8:]))
		if kind > 4 || len(curve) < 12+4*[]int{1, 3, 4, 5, 7}[kind] {
			return 0, false
		}
		p := [7]float64{0, 1} // g, a, b, c, d, e, f
		for i := range []int{1, 3, 4, 5, 7}[kind] {
			p[i] = fixed(curve[12+4*i:])
		}
		g, a, b, c, d, e, f := p[0], p[1], p[2], p[3], p[4], p[5], p[6]
		switch kind {
		case 1, 2:
			if c, d, e, f = 0, -b/a, c, c; kind == 1 {
				e, f = 0, 0
			}
		case 0:
			d = 0
		}
		if x < d {
			return c*x + f, true
		}
		return math.Pow(max(0, a*x+b), g) + e, true
	}
	return 0, false
}

// fromXYZ makes the light of sRGB from the parts of the profiles' white.
var fromXYZ = [3][3]float64{{3.1338561, -1.6168667, -0.4906146}, {-0.9787684, 1.9161415, 0.0334540},
	{0.0719453, -0.2289914, 1.4052427}}

// toSRGB changes the colours of img, which are of a profile's space, to those of sRGB: a picture without a profile is
// read so.
func toSRGB(img *image.RGBA, s space) {
	var m [3][3]float64
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				m[i][j] += fromXYZ[i][k] * s.xyz[k][j]
			}
		}
	}
	const steps = 4096
	var value [steps + 1]float64 // of a part in sRGB, by its light
	for i := range value {
		if x := float64(i) / steps; x <= 0.0031308 {
			value[i] = 255 * 12.92 * x
		} else {
			value[i] = 255 * (1.055*math.Pow(x, 1/2.4) - 0.055)
		}
	}
	for at := 0; at+4 <= len(img.Pix); at += 4 {
		p := img.Pix[at : at+4 : at+4]
		alpha := int(p[3])
		if alpha == 0 {
			continue
		}
		var light [3]float64
		for i := range 3 { // each is multiplied by alpha
			light[i] = s.light[i][min(255, int(p[i])*255/alpha)]
		}
		for i := range 3 {
			x := m[i][0]*light[0] + m[i][1]*light[1] + m[i][2]*light[2]
			v := value[int(math.Round(steps*min(1, max(0, x))))]
			p[i] = uint8(math.Round(v * float64(alpha) / 255))
		}
	}
}
