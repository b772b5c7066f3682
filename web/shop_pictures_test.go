package web_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/admin/picture/picturetest"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A picture is served as what it is, for a year, and runs nothing. Each one is read once: it is there without Postgres, too.
func TestPicturesAreServed(t *testing.T) {
	t.Parallel()
	proxy, through := sandboxtest.ProxyTo(t, sandboxtest.DatabaseURL(t))
	shop := openShop(t, "DATABASE_URL="+through)
	token := shop.staff("13900001111", "admin", "")
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewNRGBA(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	var sent struct{ Image string }
	shop.call("POST", "/api/admin/pictures", token, raw.String(), "Content-Type", "image/png").Read(t, &sent)
	missing := strings.Repeat("0", 32) + ".png"
	if r := shop.call("GET", "/pictures/"+missing, "", ""); outcome(r) != "404 not_found" {
		t.Errorf("a picture that is not there: %s", outcome(r))
	}
	for _, image := range []string{"goods/none.svg", "/pictures/" + missing, "/pictures/../orders.html", "https://example.com/a.png", "goods/kettle.svg", sent.Image} {
		goods := shop.call("POST", "/api/admin/goods", token, `{"title":"T","image":"`+image+`"}`)
		sale := shop.call("POST", "/api/admin/sales", token, `{"title":"T","image":"`+image+`","price":1,"stock":1,"start_at":"2030-01-01T00:00:00Z","end_at":"2030-01-01T01:00:00Z","state":"draft"}`)
		for what, r := range map[string]sandboxtest.Reply{"goods": goods, "a sale": sale} {
			if there := image == "goods/kettle.svg" || image == sent.Image; there && r.Code != "ok" || !there && !strings.Contains(string(r.Raw), `"fields":[{"field":"image","reason":"unknown"`) {
				t.Errorf("%s with the image %s: %s", what, image, r.Raw)
			}
		}
	}
	// One that has gone to an archive cannot be chosen any more, although this process still has it.
	var gone, item struct {
		Name, Image string
		ID          int64
	}
	shop.call("POST", "/api/admin/pictures", token, raw.String(), "Content-Type", "image/png").Read(t, &gone)
	shop.call("GET", gone.Image, "", "")
	shop.call("POST", "/api/admin/goods", token, `{"title":"T"}`).Read(t, &item)
	db, err := pgx.Connect(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `set session_replication_role = replica; delete from pictures where name = '`+gone.Name+`'; reset session_replication_role`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"POST /api/admin/goods", fmt.Sprintf("POST /api/admin/goods/%d", item.ID)} {
		method, path, _ := strings.Cut(path, " ")
		if r := shop.call(method, path, token, `{"title":"T","image":"`+gone.Image+`"}`); r.Status != 400 || !strings.Contains(string(r.Raw), `"fields":[{"field":"image","reason":"unknown"`) {
			t.Errorf("%s %s with a picture that has gone: %s %s", method, path, outcome(r), r.Raw)
		}
	}
	for _, when := range []string{"with Postgres", "without"} {
		r, err := http.Get(shop.URL + sent.Image)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if size, kind, bad := image.DecodeConfig(bytes.NewReader(b)); err != nil || bad != nil || kind != "png" || size.Width != 30 {
			t.Errorf("%s: a %s of %d pixels, %v, %v", when, kind, size.Width, err, bad)
		}
		for name, want := range map[string]string{"Content-Type": "image/png", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "public, max-age=31536000, immutable"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", when, name, got, want)
			}
		}
		proxy.Cut()
	}
	if r := shop.call("GET", "/pictures/"+strings.Repeat("1", 32)+".png", "", ""); outcome(r) != "503 busy" {
		t.Errorf("a picture that Postgres would know: %s", outcome(r))
	}
	for _, c := range []struct{ body, want, zh, en string }{
		{"<html><script>alert(1)</script>", "415 unsupported_media_type", "这个文件的格式是 HTML。", "The format of this file is HTML. Pictures must be PNG, JPEG or WebP"},
		{"\x00\x00\x00\x14ftypheic\x00\x00\x00\x00mif1", "415 unsupported_media_type", "格式是 HEIC。图片只收 PNG、JPEG 和 WebP，请另存为其中一种再上传；iPhone 可在", "is HEIC."},
		{"\x00\x00\x00\x14ftypisom\x00\x00\x00\x00mp41" + strings.Repeat("x", 5<<20), "415 unsupported_media_type", "这是视频，不是图片。", "This is a video."},
		{"words", "415 unsupported_media_type", "认不出这个文件的格式。", "The format of this file is unknown."},
		{raw.String()[:40], "415 unsupported_media_type", "这个 PNG 文件不完整或已损坏", "This PNG file is incomplete or damaged"},
		{"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00", "415 unsupported_media_type", "这个 WebP 文件是动画", "This WebP file is animated"},
		{string(picturetest.Scans(2449, 2449, 12_000)), "415 unsupported_media_type", "这个 JPEG 文件分得太碎（逐行扫描最多 64 遍", "This JPEG file comes in too many pieces (at most 64 scans"},
		{raw.String() + strings.Repeat("x", 5<<20), "413 too_large", "图片最大 5 MB", "A picture may be at most 5 MB"},
		{strings.Repeat("x", 5<<20+1), "413 too_large", "图片最大 5 MB", "A picture may be at most 5 MB"},
		{strings.Repeat("x", 5<<20), "415 unsupported_media_type", "认不出这个文件的格式。", "The format of this file is unknown."},
		{"", "415 unsupported_media_type", "文件是空的", "The file is empty"},
	} {
		for language, says := range map[string]string{"zh-CN": c.zh, "en-GB": c.en} {
			r := shop.call("POST", "/api/admin/pictures", token, c.body, "Content-Type", "image/png", "Accept-Language", language)
			if outcome(r) != c.want || !strings.Contains(string(r.Raw), says) {
				t.Errorf("%.20q: %s, want %s and %q", c.body, r.Raw, c.want, says)
			}
		}
	}
}
