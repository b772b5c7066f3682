package captcha

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestCaptchaIsAPicture(t *testing.T) {
	texts := []string{"48213 + 6", "90876 - 5", "11111 - 1", "99999 + 9"}
	for i := range 500 { // each has its own random shapes, waves and noise
		text := texts[i%len(texts)]
		img, err := png.Decode(bytes.NewReader(drawCaptcha(text)))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := image.Rect(0, 0, captchaWidth, captchaHeight); img.Bounds() != want {
			t.Errorf("%q: bounds %v, want %v", text, img.Bounds(), want)
		}
		// Every glyph must be drawn: without noise, count the pixels of full ink. None of them may be at an edge.
		p := image.NewPaletted(img.Bounds(), captchaPalettes[0])
		captchaText(p, text)
		dark := 0
		for i, shade := range p.Pix {
			if shade < captchaShades {
				continue
			}
			dark++
			if x, y := i%p.Stride, i/p.Stride; x == 0 || x == captchaWidth-1 || y == 0 || y == captchaHeight-1 {
				t.Errorf("%q: ink at the edge, at %d, %d", text, x, y)
			}
		}
		if dark < 1400 {
			t.Errorf("%q: %d pixels of full ink, want at least 1400", text, dark)
		}
	}
}

// An attacker with the source, a hundred lines and no training reads one picture in ten. It read every picture while noise
// had colours of its own and glyphs were only turned. A program with more shapes, which removes thin lines, reads three in five.
func TestAProgramReadsFewPictures(t *testing.T) {
	t.Parallel()
	const pictures, most = 100, 35
	r, rng, read := newCaptchaReader(), rand.New(rand.NewPCG(rand.Uint64(), 0)), 0
	for range pictures {
		text := newSum(rng).text()
		got, err := r.read(drawCaptcha(text))
		if err != nil {
			t.Fatal(err)
		}
		if got == text {
			read++
		}
	}
	if t.Logf("the program reads %d of %d pictures", read, pictures); read > most {
		t.Errorf("the program reads %d of %d pictures, want at most %d", read, pictures, most)
	}
}

func TestCaptchasDiffer(t *testing.T) {
	if bytes.Equal(drawCaptcha("48213 + 6"), drawCaptcha("48213 + 6")) {
		t.Error("two pictures of the same sum are equal")
	}
}

// It writes a sheet of twenty pictures for a person to look at: MIAOSHA_SHOTS=folder go test -run TwentyPictures ./seckill/captcha
func TestTwentyPictures(t *testing.T) {
	folder := os.Getenv("MIAOSHA_SHOTS")
	if folder == "" {
		t.Skip("MIAOSHA_SHOTS names no folder")
	}
	const columns, rows, margin = 4, 5, 10
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	sheet := image.NewRGBA(image.Rect(0, 0, columns*(captchaWidth+margin), rows*(captchaHeight+margin)))
	for i := range columns * rows {
		s := newSum(rng)
		t.Logf("%2d: %s", i+1, s.text())
		one, err := png.Decode(bytes.NewReader(drawCaptcha(s.text())))
		if err != nil {
			t.Fatal(err)
		}
		at := image.Pt(i%columns*(captchaWidth+margin), i/columns*(captchaHeight+margin))
		draw.Draw(sheet, one.Bounds().Add(at), one, image.Point{}, draw.Src)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, sheet); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "captchas.png"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkDrawCaptcha(b *testing.B) {
	text := newSum(rand.New(rand.NewPCG(1, 2))).text()
	b.ReportAllocs()
	var size int
	for b.Loop() {
		size = len(drawCaptcha(text))
	}
	b.ReportMetric(float64(size), "bytes/picture")
}
