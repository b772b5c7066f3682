package admin

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"regexp"
	"testing"

	"miaosha/goods"
)

func TestPicturesAndGoods(t *testing.T) {
	s, _, _ := newShop(t)
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewNRGBA(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	s.decoding.Lock()
	if _, err := s.AddPicture(t.Context(), keeper, raw.Bytes()); !errors.Is(err, ErrNoDecoder) {
		t.Errorf("beside another picture: %v", err)
	}
	s.decoding.Unlock()
	if _, err := s.AddPicture(t.Context(), keeper, []byte("<svg>")); !errors.Is(err, ErrNotAPicture) {
		t.Errorf("no picture: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.AddPicture(ended, keeper, raw.Bytes()); err != context.Canceled {
		t.Errorf("a request that has ended: %v", err)
	}
	p, err := s.AddPicture(t.Context(), keeper, raw.Bytes())
	if err != nil || p.Width != 30 || p.Height != 20 || !regexp.MustCompile(`^[0-9a-f]{32}[.]png$`).MatchString(p.Name) {
		t.Fatalf("%+v, %v", p, err)
	}
	stored, err := s.Picture(t.Context(), p.Name)
	if _, kind, bad := image.DecodeConfig(bytes.NewReader(stored)); err != nil || bad != nil || kind != "png" {
		t.Errorf("a %s, %v, %v", kind, err, bad)
	}
	if _, err := s.Picture(t.Context(), "none.png"); !errors.Is(err, ErrNoPicture) {
		t.Errorf("no such picture: %v", err)
	}

	id, err := s.AddItem(t.Context(), keeper, goods.Item{Title: "茶", Image: "/pictures/" + p.Name})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EditItem(t.Context(), keeper, id, goods.Item{Title: "Tea", ListPrice: 9}); err != nil {
		t.Fatal(err)
	}
	if err := s.EditItem(t.Context(), keeper, id, goods.Item{}); !errors.As(err, new(goods.InvalidError)) {
		t.Errorf("no title: %v", err)
	}
	if err := s.EditItem(t.Context(), keeper, 99, goods.Item{Title: "Tea"}); !errors.Is(err, goods.ErrNoItem) {
		t.Errorf("no such goods: %v", err)
	}
	items, next, err := s.Goods(t.Context(), 0)
	if err != nil || next != 0 || len(items) != 2 || items[0].Title != "Tea" || items[0].ListPrice != 9 || items[0].Image != "" || items[1].Sales != 1 {
		t.Errorf("%+v, %d, %v", items, next, err)
	}
	line, _, err := s.Log(t.Context(), whole, LogFilter{Action: "goods.edit"})
	if err != nil || len(line) != 1 || !bytes.Contains(line[0].Before, []byte("茶")) || !bytes.Contains(line[0].After, []byte("Tea")) {
		t.Errorf("%+v, %v", line, err)
	}
}
