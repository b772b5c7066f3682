package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"miaosha/seckill"
	"miaosha/seckill/admin"
)

const (
	picturesKept  = 32 << 20         // bytes of pictures in memory
	picturesRead  = 50               // a second, at Postgres, so that made-up names do not use it up
	pictureUpload = 20 * time.Second // a phone sends slowly
	pictureLimit  = 30 * time.Second // for one that is sent: to be sent, decoded and stored
)

var errPictureTooLarge = errors.New("picture too large")

// pictureCache keeps pictures that were asked for in memory. They never change.
type pictureCache struct {
	entries interface { // an otter.Cache: goods.Cache says why its type is not named
		GetIfPresent(string) ([]byte, bool)
		Set(string, []byte) ([]byte, bool)
	}
	flight singleflight.Group
	reads  *rate.Limiter
}

func newPictureCache() *pictureCache {
	return &pictureCache{reads: rate.NewLimiter(picturesRead, 2*picturesRead), entries: otter.Must(&otter.Options[string, []byte]{
		MaximumWeight: picturesKept, Weigher: func(name string, b []byte) uint32 { return uint32(len(name) + len(b)) }})}
}

var pictureName = regexp.MustCompile(`^[0-9a-f]{32}[.](png|jpg)$`)

// OwnPictures lists the drawings of goods that every shop has, such as goods/kettle.svg.
func OwnPictures() []string {
	files, err := fs.Glob(embedded, "static/goods/*")
	if err != nil {
		panic("web: " + err.Error()) // cannot happen: the pattern is right
	}
	for i, name := range files {
		files[i] = strings.TrimPrefix(name, "static/")
	}
	return files
}

// picture returns the bytes of a picture, or admin.ErrNoPicture. All who wait for one picture share one query.
func (s *Server) picture(ctx context.Context, name string) ([]byte, error) {
	if !pictureName.MatchString(name) {
		return nil, admin.ErrNoPicture
	}
	if b, known := s.pictures.entries.GetIfPresent(name); known {
		return b, nil
	}
	reading := s.pictures.flight.DoChan(name, func() (any, error) {
		if !s.pictures.reads.Allow() {
			return nil, seckill.ErrBusy
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
		defer cancel()
		b, err := s.Admin.Picture(ctx, name)
		if err == nil {
			s.pictures.entries.Set(name, b)
		}
		return b, err
	})
	select {
	case got := <-reading:
		b, _ := got.Val.([]byte)
		return b, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pictureTypes are the media types of pictures, by extension.
var pictureTypes = map[string][]string{".png": {"image/png"}, ".jpg": {"image/jpeg"}}

// pictureSecurity is the content security policy of a picture that a browser opens as a page: nothing in it is run.
var pictureSecurity = []string{"default-src 'none'; sandbox"}

// showPicture answers with a picture.
func (s *Server) showPicture(w http.ResponseWriter, r *http.Request) error {
	name := chi.URLParam(r, "name")
	b, err := s.picture(r.Context(), name)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["Content-Security-Policy"] = pictureTypes[path.Ext(name)], keepForever, pictureSecurity
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b)
	return nil
}

// addPicture stores a picture of goods. Its body is the picture.
func (s *Server) addPicture(w http.ResponseWriter, r *http.Request, by admin.By) error {
	ctx, cancel := context.WithTimeout(r.Context(), pictureLimit)
	defer cancel()
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(pictureUpload)); err != nil {
		return fmt.Errorf("give a picture time: %w", err)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, admin.PictureBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		if f, other := errors.AsType[admin.FormatError](admin.CheckFormat(raw)); other && f.Format != "" {
			return f // a video is not to be made smaller
		}
		return errPictureTooLarge
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errBadRequest, err)
	}
	if by, err = s.withKey(r, by, raw); err != nil {
		return err
	}
	p, err := s.Admin.AddPicture(ctx, by, raw)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		admin.Picture
		Image string `json:"image"` // for the field image of an item
	}{p, "/pictures/" + p.Name})
}
