//go:build latency

package captcha

import (
	"bytes"
	"image"
	"image/png"
	"testing"
	"time"
)

// What a picture costs, beside what encoding an empty one of its size costs. The fastest of 500 tries counts, because
// other work on the machine disturbs it least.
func TestLatencyOfAPicture(t *testing.T) {
	captchaGlyphs()
	fastest := func(f func()) time.Duration {
		best := time.Hour
		for range 500 {
			began := time.Now()
			f()
			best = min(best, time.Since(began))
		}
		return best
	}
	empty := fastest(func() {
		var out bytes.Buffer
		if err := png.Encode(&out, image.NewPaletted(image.Rect(0, 0, captchaWidth, captchaHeight), captchaPalettes[0])); err != nil {
			t.Fatal(err)
		}
	})
	picture := fastest(func() { drawCaptcha("48213 + 6") })
	t.Logf("a picture takes %v at best, and an empty one %v", picture, empty)
	if picture > 5*empty {
		t.Errorf("a picture takes %v at best, want at most five times as long as an empty one, which takes %v", picture, empty)
	}
}
