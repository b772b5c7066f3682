package seckill

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestASumHasItsAnswer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	answers := map[string]bool{}
	for range 60_000 {
		text, answer := newSum(rng)
		var a, b, want int
		var sign byte
		if _, err := fmt.Sscanf(text, "%d %c %d", &a, &sign, &b); err != nil {
			t.Fatalf("sum %q: %v", text, err)
		}
		switch sign {
		case '+':
			want = a + b
		case '-':
			want = a - b
		default:
			t.Fatalf("sum %q has sign %q", text, sign)
		}
		if answer != strconv.Itoa(want) {
			t.Fatalf("sum %q has answer %q, want %d", text, answer, want)
		}
		answers[answer] = true
	}
	if len(answers) < 10_000 {
		t.Errorf("%d different answers among 60,000 sums, want at least 10,000", len(answers))
	}
}

func TestCaptchaIsAPicture(t *testing.T) {
	for _, text := range []string{"48213 + 6", "90876 - 5", "11111 - 1", "99999 + 9"} {
		img, err := png.Decode(bytes.NewReader(drawCaptcha(text)))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := image.Rect(0, 0, captchaWidth, captchaHeight); img.Bounds() != want {
			t.Errorf("%q: bounds %v, want %v", text, img.Bounds(), want)
		}
		// Every glyph must have left its ink: count the darkest pixels, and keep the edges free of them.
		p := img.(*image.Paletted)
		dark := 0
		for i, c := range p.Pix {
			if c == 0 || int(c) > captchaInks*captchaShades || c%captchaShades != 0 {
				continue
			}
			dark++
			if x := i % p.Stride; x == 0 || x == captchaWidth-1 {
				t.Errorf("%q: ink at the edge, x = %d", text, x)
			}
		}
		if dark < 350 {
			t.Errorf("%q: %d pixels of full ink, want at least 350", text, dark)
		}
	}
}

func TestCaptchasDiffer(t *testing.T) {
	if bytes.Equal(drawCaptcha("48213 + 6"), drawCaptcha("48213 + 6")) {
		t.Error("two pictures of one sum are the same")
	}
}

func BenchmarkDrawCaptcha(b *testing.B) {
	text, _ := newSum(rand.New(rand.NewPCG(1, 2)))
	b.ReportAllocs()
	var size int
	for b.Loop() {
		size = len(drawCaptcha(text))
	}
	b.ReportMetric(float64(size), "bytes/picture")
}
