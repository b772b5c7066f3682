package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// red and blue are the halves of the pictures here, and of the files in seckill/admin/picture/testdata.
var red, blue = color.RGBA{200, 40, 40, 255}, color.RGBA{40, 40, 200, 255}

// halves returns a picture that is red on the left and blue on the right.
func halves(w, h int) *image.Paletted {
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{red, blue, color.RGBA{}})
	for y := range h {
		for x := w / 2; x < w; x++ {
			img.SetColorIndex(x, y, 1)
		}
	}
	return img
}

// bitmap is the same as a BMP.
func bitmap(w, h int) []byte {
	le := func(v int) string { return string([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) }
	row := strings.Repeat("\x28\x28\xc8", w/2) + strings.Repeat("\xc8\x28\x28", w/2) // blue, green, red
	return []byte("BM" + le(54+h*len(row)) + le(0) + le(54) + le(40) + le(w) + le(h) + "\x01\x00\x18\x00" + strings.Repeat(le(0), 6) + strings.Repeat(row, h))
}

// photo is one of so many pixels, as a phone takes it.
func photo(t *testing.T, w, h int) []byte {
	t.Helper()
	img := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = 90
		if i%w >= w/2 {
			img.Y[i] = 60
		}
	}
	for i := range img.Cb {
		img.Cb[i], img.Cr[i] = 100, 206
		if i%img.CStride >= img.CStride/2 {
			img.Cb[i], img.Cr[i] = 207, 114
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encodes returns what an encoder writes.
func encodes(t *testing.T, to func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := to(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// puts puts a file into the field of a picture, by an event: chosen, dropped or pasted.
func (v *visitor) puts(how, name string, raw []byte) {
	v.t.Helper()
	v.sees("#picture")
	whole := len(raw)
	raw = bytes.TrimRight(raw, "x") // what only makes a file large is made in the browser
	v.evaluates(`(async () => {
		const bytes = Uint8Array.from(atob(` + quoted(base64.StdEncoding.EncodeToString(raw)) + `), (c) => c.charCodeAt(0));
		const data = new DataTransfer();
		data.items.add(new File([bytes, 'x'.repeat(` + fmt.Sprint(whole-len(raw)) + `)], ` + quoted(name) + `));
		const field = document.getElementById('picture');
		window.former = document.querySelector('.small-picture img').src;
		const how = {
			chosen: () => { field.files = data.files; field.dispatchEvent(new Event('input')); },
			dropped: () => document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })),
			pasted: () => data.items.add('https://example.com/its-address.png', 'text/plain') && document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true })),
		};
		how[` + quoted(how) + `]();
		return '';
	})()`)
}

const pictureState = `document.querySelector('[data-test="picture-state"]').textContent`

// hasUploaded waits until the form shows a new picture of this size.
func (v *visitor) hasUploaded(w, h int) {
	v.t.Helper()
	v.until("the picture is uploaded", fmt.Sprintf(`document.querySelector('.small-picture img').src !== window.former && %s.includes('Uploaded (%d × %d)')`, pictureState, w, h))
}

// served returns the picture that the form shows, as the shop serves it.
func (v *visitor) served() image.Image {
	v.t.Helper()
	r, err := http.Get(v.evaluates(`document.querySelector('.small-picture img').src`))
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	img, _, err := image.Decode(r.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return img
}

func alike(c color.Color, want color.RGBA) bool {
	is := color.NRGBAModel.Convert(c).(color.NRGBA)
	off := func(a, b uint8) bool { return max(a, b)-min(a, b) > 8 }
	return !off(is.R, want.R) && !off(is.G, want.G) && !off(is.B, want.B) && !off(is.A, want.A)
}

// Whatever the browser can show is a picture of the shop: upright, in its colours, and no larger than it is kept.
func TestThePageSendsWhatTheBrowserCanShow(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.keeper(t))
	v.goTo("/admin.html#goods/new")
	// The page notes what it sends.
	v.sees("#picture")
	v.evaluates(`{
		const real = fetch;
		window.sent = [];
		window.fetch = async (url, init) => {
			if (init?.body instanceof Blob) window.sent.push(await init.body.text());
			return real(url, init);
		};
		''
	}`)
	file := func(name string) []byte {
		raw, err := os.ReadFile("../seckill/admin/picture/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(file("progressive.jpg.gz")))
	if err != nil {
		t.Fatal(err)
	}
	through := halves(40, 20)
	for y := range 20 {
		through.SetColorIndex(20, y, 2)
	}
	svg := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" width="40" height="20"><path fill="#c82828" d="M0 0h20v20H0z"/><path fill="#2828c8" d="M20 0h20v20H20z"/></svg>`
	for _, test := range []struct {
		name string
		raw  []byte
		w, h int
	}{
		{"turned.jpg", file("turned.jpg"), 32, 64},
		{"turned.png", file("turned.png"), 32, 64},
		{"turned.webp", file("turned.webp"), 32, 64},
		{"turned.avif", file("turned.avif"), 32, 64},
		{"p3.jpg", file("p3.jpg"), 64, 32},
		{"p3.png", file("p3.png"), 64, 32},
		{"p3.webp", file("p3.webp"), 64, 32},
		{"for print.jpg", file("cmyk.jpg"), 64, 32},
		{"progressive, 8 megapixels.jpg", encodes(t, func(w io.Writer) error { _, err := io.Copy(w, unpacked); return err }), 1200, 900},
		{"48 megapixels.jpg", photo(t, 8000, 6000), 1200, 900},
		{"moves.gif", encodes(t, func(w io.Writer) error {
			return gif.EncodeAll(w, &gif.GIF{Image: []*image.Paletted{halves(40, 20), image.NewPaletted(image.Rect(0, 0, 40, 20), color.Palette{blue})}, Delay: []int{9, 9}})
		}), 40, 20},
		{"a bitmap.bmp", bitmap(40, 20), 40, 20},
		{"a drawing.svg", []byte(svg), 1200, 600},
		{"a drawing that is called a photo.jpg", []byte(svg), 1200, 600},
		{"a GIF that is called a photo.jpg", encodes(t, func(w io.Writer) error { return gif.Encode(w, halves(40, 20), nil) }), 40, 20},
		{"an odd size.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(3001, 1777)) }), 1200, 711},
		{"thin.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(20_000, 2)) }), 1200, 1},
		{"one can look through it.png", encodes(t, func(w io.Writer) error { return png.Encode(w, through) }), 40, 20},
	} {
		v.evaluates(`window.sent.length = 0, ''`)
		v.puts("chosen", test.name, test.raw)
		v.hasUploaded(test.w, test.h)
		img := v.served()
		at := func(x, y int) color.Color { return img.At(x*test.w/8, y*test.h/8) }
		first, second := at(2, 4), at(6, 4)
		if strings.HasPrefix(test.name, "turned") {
			first, second = at(4, 2), at(4, 6)
		}
		if test.name == "for print.jpg" { // its colours are those of a printer
			if r, _, b, _ := first.RGBA(); r < 2*b {
				t.Errorf("%s: %v is not red", test.name, first)
			}
		} else if !alike(first, red) || !alike(second, blue) {
			t.Errorf("%s: it has %v and %v", test.name, first, second)
		}
		if _, _, _, a := at(4, 4).RGBA(); (a == 0) != (test.name == "one can look through it.png") {
			t.Errorf("%s: its middle is %v", test.name, at(4, 4))
		}
		if kind := v.evaluates(`document.querySelector('.small-picture img').src.slice(-3)`); (kind == "png") != (test.name == "one can look through it.png") {
			t.Errorf("%s: it is stored as %s", test.name, kind)
		}
		if sent := v.evaluates(`JSON.stringify([window.sent.length, /Exif|eXIf|EXIF/.test(window.sent[0])])`); sent != "[1,false]" {
			t.Errorf("%s: sent with what the camera has written: %s", test.name, sent)
		}
	}
	v.puts("dropped", "dropped.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(50, 20)) }))
	v.hasUploaded(50, 20)
	v.puts("pasted", "pasted.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(60, 20)) }))
	v.hasUploaded(60, 20)
	v.hasNoErrors()
}

// What cannot be sent as it should be says in words what it is and what to do.
func TestThePageSaysWhyAPictureIsNotTaken(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	heic := "\x00\x00\x00\x14ftypheic\x00\x00\x00\x00mif1"
	whole := photo(t, 600, 400)
	turned, err := os.ReadFile("../seckill/admin/picture/testdata/turned.jpg")
	if err != nil {
		t.Fatal(err)
	}
	webp, err := os.ReadFile("../seckill/admin/picture/testdata/turned.webp")
	if err != nil {
		t.Fatal(err)
	}
	file := encodes(t, func(w io.Writer) error { return png.Encode(w, halves(600, 400)) })
	white := `CanvasRenderingContext2D.prototype.getImageData = (x, y, w, h) => new ImageData(new Uint8ClampedArray(4 * w * h).fill(255), w, h)`
	type given struct {
		name, raw, before string
		zh, en            string
		open              bool // a picture is uploaded
	}
	for language, chinese := range map[string]bool{"zh-CN": true, "en-GB": false} {
		v := visit(t, root, s.URL, language)
		v.emulates(390, 844, "prefers-color-scheme", map[bool]string{true: "dark", false: "light"}[chinese])
		v.isLoggedIn(s.keeper(t))
		v.goTo("/admin.html#goods/new")
		for i, test := range []given{
			{"photo.heic", heic, "", "此浏览器打不开 photo.heic。这个文件的格式是 HEIC。", "This browser cannot open photo.heic. The format of this file is HEIC.", false},
			{"large.heic", heic + strings.Repeat("x", 6<<20), "", "此浏览器打不开 large.heic。这个文件的格式是 HEIC。", "This browser cannot open large.heic. The format of this file is HEIC.", false},
			{"film.jpg", "\x1a\x45\xdf\xa3webm", "", "这是视频", "This is a video", false},
			{"page.png", "<!doctype html><p>", "", "格式是 HTML", "is HTML", false},
			{"text.png", "words", "", "认不出这个文件的格式", "is unknown", false},
			{"nothing.png", "", "", "文件是空的，请重新选择", "The file is empty; choose it again", false},
			{"half.jpg", string(whole[:len(whole)/2]), "", "这个 JPEG 文件不完整或已损坏", "This JPEG file is incomplete or damaged", false},
			{"half.png", string(file[:len(file)-20]), "", "这个 PNG 文件不完整或已损坏", "This PNG file is incomplete or damaged", false},
			{"half.webp", string(webp[:300]), "", "这个 WebP 文件不完整或已损坏", "This WebP file is incomplete or damaged", false},
			{"gone.png", string(whole), `Blob.prototype.arrayBuffer = () => Promise.reject(new DOMException('', 'NotFoundError'))`,
				"读不到 gone.png，它可能已被移动或修改，请重新选择。", "gone.png cannot be read; it may have been moved or changed. Choose it again.", false},
			{"original.jpg", string(turned), white, "防跟踪功能不让页面处理图片，上传的是原文件 original.jpg。已上传（32 × 64）", "so original.jpg was uploaded as it is. Uploaded (32 × 64)", true},
			{"nothing to see.png", string(encodes(t, func(w io.Writer) error { return png.Encode(w, image.NewNRGBA(image.Rect(0, 0, 30, 20))) })), "", "已上传（30 × 20）", "Uploaded (30 × 20)", true},
			{strings.Repeat("long", 40) + ".heic", heic, "", "格式是 HEIC", "format of this file is HEIC", false},
			{"small and tainted.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", `HTMLCanvasElement.prototype.toBlob = () => { throw new DOMException('', 'SecurityError') }`,
				"格式是 SVG", "format of this file is SVG", false},
			{"no memory.jpg", string(whole) + strings.Repeat("x", 6<<20), `Image.prototype.decode = () => Promise.reject(new DOMException('', 'EncodingError'))`,
				"可能是内存不够", "it may be out of memory", false},
			{"heavy.jpg", string(whole) + strings.Repeat("x", 6<<20), white, "而 heavy.jpg 超过 5 MB", "heavy.jpg is larger than 5 MB", false},
		} {
			if test.before != "" {
				v.goTo(fmt.Sprintf("/admin.html?%d#goods/new", i))
				v.sees("#picture")
				v.evaluates(test.before + `, ''`)
			}
			v.puts("chosen", test.name, []byte(test.raw))
			says := test.en
			if chinese {
				says = test.zh
			}
			v.until("the field says "+says, pictureState+`.includes(`+quoted(says)+`)`)
			v.until("the form can be saved", `!document.querySelector('[data-test="save"]').disabled`)
			if now := v.evaluates(`String(document.querySelector('.small-picture img').src !== window.former)`); now != fmt.Sprint(test.open) {
				t.Errorf("%s: there is another picture: %s", test.name, now)
			}
			v.fits(390)
			v.shoots(fmt.Sprintf("picture-%s-%.20s", language, test.name))
		}
		v.hasNoErrors()
	}
}

// Of two files the last one counts, also if it is chosen while the first is sent and the shop reads another picture. The form waits.
func TestOfTwoPicturesTheLastOneCounts(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.keeper(t))
	v.goTo("/admin.html#goods/new")
	v.sees("#picture")
	v.evaluates(`{
		const real = fetch;
		window.sent = 0;
		const first = new Promise((go) => { window.letFirstGo = go; });
		window.fetch = async (url, init) => {
			if (!(init?.body instanceof Blob)) return real(url, init);
			const n = ++window.sent;
			if (n === 1) await first;
			if (n === 2) return new Response('{"code":"busy","msg":""}', { status: 503, headers: { 'Retry-After': '0' } });
			return real(url, init);
		};
		''
	}`)
	v.puts("chosen", "first.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(30, 10)) }))
	v.until("the first is being sent", `window.sent === 1 && `+pictureState+` === 'Uploading first.png…'`)
	v.until("the form waits", `document.querySelector('[data-test="save"]').disabled`)
	v.puts("chosen", "second.png", encodes(t, func(w io.Writer) error { return png.Encode(w, halves(50, 10)) }))
	v.hasUploaded(50, 10)
	v.evaluates(`window.letFirstGo(), ''`)
	v.until("the form can be saved", `!document.querySelector('[data-test="save"]').disabled`)
	v.fills("goods-title", "Two pictures")
	v.clicks("save")
	v.until("it is saved", `location.hash !== '#goods/new'`)
	v.until("with the second picture", `(i => i.complete && i.naturalWidth === 50)(document.querySelector('.small-picture img'))`)
	v.hasNoErrors()
}
