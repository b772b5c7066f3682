package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/admin/picture"
)

// Refusals of pictures.
var (
	ErrNoPicture     = errors.New("picture not found")
	ErrNoDecoder     = errors.New("another picture is being decoded")
	ErrNotAPicture   = picture.ErrNotAPicture // as a FormatError
	ErrTooManyPixels = picture.ErrTooManyPixels
)

// FormatError says what a file is that is not taken as a picture.
type FormatError = picture.FormatError

// CheckFormat returns a FormatError if the first bytes of a file show that it is not taken.
func CheckFormat(beginning []byte) error { return picture.Check(beginning) }

// PictureBytes is the most that a picture has when it is sent.
const PictureBytes = picture.MaxBytes

// Picture is a picture of goods, as it was stored.
type Picture struct {
	Name   string `json:"name"` // 32 random hexadecimal digits, and .png or .jpg
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// AddPicture decodes a picture and stores what it shows, encoded again: nothing else of its bytes is kept. One picture
// is decoded at a time; the others receive ErrNoDecoder. It returns ErrNotAPicture, ErrTooManyPixels, and the error of
// ctx when that has ended: no one waits for the picture then.
func (s *Store) AddPicture(ctx context.Context, by By, raw []byte) (p Picture, err error) {
	if !s.decoding.TryLock() {
		return p, ErrNoDecoder
	}
	made, err := picture.Make(ctx, raw)
	s.decoding.Unlock()
	if err != nil {
		return p, err
	}
	random := make([]byte, 16)
	rand.Read(random)
	p = Picture{hex.EncodeToString(random) + "." + made.Kind, made.Width, made.Height}
	a := &action{name: "picture.add", subject: "picture " + p.Name,
		after: map[string]int{"width": p.Width, "height": p.Height, "bytes": len(made.Bytes)}, result: &p}
	err = s.act(ctx, by, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into pictures (name, bytes, width, height) values ($1, $2, $3::integer, $4::integer)`, p.Name, made.Bytes, p.Width, p.Height)
		if err != nil {
			return fmt.Errorf("store a picture: %w", err)
		}
		return nil
	})
	return p, err
}

// Picture returns the bytes of a picture, or ErrNoPicture.
func (s *Store) Picture(ctx context.Context, name string) (bytes []byte, err error) {
	err = s.db.QueryRow(ctx, `select bytes from pictures where name = $1`, name).Scan(&bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoPicture
	}
	if err != nil {
		return nil, fmt.Errorf("read a picture: %w", err)
	}
	return bytes, nil
}
