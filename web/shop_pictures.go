package web

import (
	"cmp"
	"context"
	"errors"
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

	"miaosha/seckill"
	"miaosha/seckill/admin"
)

const (
	picturesKept  = 32 << 20         // bytes of pictures in memory
	picturesRead  = 4                // at once, at Postgres, so that pictures do not take the connections of buyers
	missingKept   = 10_000           // names that Postgres does not have
	missingLife   = 5 * time.Second  // how long such a name is believed: its picture may be stored by another process
	pictureUpload = 20 * time.Second // a phone sends slowly
	pictureLimit  = 30 * time.Second // for one that is sent: to be sent, decoded and stored
)

// gallery has the pictures of goods.
type gallery struct {
	desk  *desk
	admin *admin.Store
	cache *pictureCache
}

func (g *gallery) rows() []row {
	return []row{route(getAndHead, "/pictures/{name}", everyone,
		late("only of a picture that is not in memory, the second if Postgres does not have it, either; four "+
			"are read at once",
			pictureReads, pictureMisses), ownTime, g.showPicture)}
}

// pictureCache keeps pictures that were asked for in memory. They never change.
type pictureCache struct {
	entries, missing pictureNames
	flight           singleflight.Group
	places           chan struct{} // has an element for each read at Postgres
}

type pictureNames interface { // an otter.Cache: goods.Cache says why its type is not named
	GetIfPresent(string) ([]byte, bool)
	Set(string, []byte) ([]byte, bool)
}

func newPictureCache() *pictureCache {
	return &pictureCache{places: make(chan struct{}, picturesRead),
		entries: otter.Must(&otter.Options[string, []byte]{
			MaximumWeight: picturesKept, Weigher: func(name string, b []byte) uint32 {
				return uint32(len(name) + len(b))
			}}),
		missing: otter.Must(&otter.Options[string, []byte]{MaximumSize: missingKept,
			ExpiryCalculator: otter.ExpiryWriting[string, []byte](missingLife)})}
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
func (g *gallery) picture(ctx context.Context, name string) ([]byte, error) {
	if !pictureName.MatchString(name) {
		return nil, admin.ErrNoPicture
	}
	if b, known := g.cache.entries.GetIfPresent(name); known {
		return b, nil
	}
	reading := g.cache.flight.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
		defer cancel()
		select {
		case g.cache.places <- struct{}{}:
			defer func() { <-g.cache.places }()
		case <-ctx.Done():
			return nil, seckill.ErrBusy
		}
		b, err := g.admin.Picture(ctx, name)
		if err == nil {
			g.cache.entries.Set(name, b)
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

// anyonesPicture is picture behind the limits of its route. An address that makes names up is refused by itself: the
// reads of all others are as many as before.
func (g *gallery) anyonesPicture(r *http.Request, name string) ([]byte, error) {
	_, kept := g.cache.entries.GetIfPresent(name)
	if kept || !pictureName.MatchString(name) {
		return g.picture(r.Context(), name)
	}
	if _, known := g.cache.missing.GetIfPresent(name); known {
		return nil, admin.ErrNoPicture
	}
	reads, misses, from := g.desk.limits.bucket(pictureReads), g.desk.limits.bucket(
		pictureMisses), bucketKey{addr: g.desk.clientNetwork(r)}
	if err := cmp.Or(misses.empty(from), reads.take(from)); err != nil {
		return nil, err
	}
	b, err := g.picture(r.Context(), name)
	if errors.Is(err, admin.ErrNoPicture) {
		g.cache.missing.Set(name, nil)
		misses.take(from) // if it was the last, the next name is refused
	}
	return b, err
}

// pictureTypes are the media types of pictures, by extension.
var pictureTypes = map[string][]string{".png": {"image/png"}, ".jpg": {"image/jpeg"}}

// pictureSecurity is the content security policy of a picture that a browser opens as a page: nothing in it is run.
var pictureSecurity = []string{"default-src 'none'; sandbox"}

// showPicture answers with a picture.
func (g *gallery) showPicture(w http.ResponseWriter, r *http.Request) error {
	name := chi.URLParam(r, "name")
	b, err := g.anyonesPicture(r, name)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["Content-Security-Policy"] = pictureTypes[path.Ext(
		name)], keepForever, pictureSecurity
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b)
	return nil
}
