package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"miaosha/goods"
	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

// goodsOffice is where the staff keeps the catalogue.
type goodsOffice struct {
	desk    *desk
	admin   *admin.Store
	gallery *gallery
}

func (s *goodsOffice) rows() []row {
	keyed := keyedAdmins(s.admin)
	return []row{
		route(GET, "/api/admin/goods", theStaff, first(staff), answerLimit, s.adminGoods),
		route(POST, "/api/admin/goods", keyed, first(staff), answerLimit, s.addItem),
		route(GET, "/api/admin/goods/{id}", theStaff, first(staff), answerLimit, s.adminItem),
		route(POST, "/api/admin/goods/{id}", keyed, first(staff), answerLimit, s.editItem),
		route(POST, "/api/admin/pictures", admins, first(uploads).then("one picture is decoded at a time"),
			ownTime, s.addPicture),
	}
}

// staffItem is an entry of the catalogue as the staff's pages show it.
type staffItem struct {
	admin.Item
	Picture string `json:"picture"` // the image's URL
}

// adminGoods answers with a page of the catalogue, newest first.
func (s *goodsOffice) adminGoods(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	q := query{values: r.URL.Query()}
	cursor := q.id("cursor")
	if err := q.err(); err != nil {
		return err
	}
	items, next, err := s.admin.Goods(r.Context(), cursor)
	if err != nil {
		return err
	}
	out := struct {
		Goods []staffItem `json:"goods"`
		Next  int64       `json:"next,omitempty"` // the cursor of the next page
	}{make([]staffItem, 0, len(items)), next}
	for _, it := range items {
		out.Goods = append(out.Goods, staffItem{it, s.desk.assets.url(it.Image)})
	}
	return ok(w, 200, out)
}

// adminItem answers with one entry.
func (s *goodsOffice) adminItem(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	return s.answerItem(w, r, id)
}

func (s *goodsOffice) answerItem(w http.ResponseWriter, r *http.Request, id int64) error {
	it, err := s.admin.Item(r.Context(), id)
	if err != nil {
		return err
	}
	return ok(w, 200, staffItem{it, s.desk.assets.url(it.Image)})
}

func itemID(r *http.Request) (int64, error) { return pathID(r, goods.ErrNoItem) }

// itemInput are the fields of an item in a body.
type itemInput struct {
	Title     string `json:"title"`
	TitleEN   string `json:"title_en"`
	Image     string `json:"image"`
	Detail    string `json:"detail"`
	DetailEN  string `json:"detail_en"`
	ListPrice number `json:"list_price"`
}

// item returns the item, or an error that names every wrong field.
func (s *goodsOffice) item(ctx context.Context, in itemInput) (goods.Item, error) {
	it := goods.Item{Title: typed.Line(in.Title), TitleEN: typed.Line(in.TitleEN), Image: in.Image,
		Detail: strings.TrimSpace(in.Detail), DetailEN: strings.TrimSpace(in.DetailEN), ListPrice: int64(in.ListPrice)}
	return it, errors.Join(it.Validate(), s.checkImage(ctx, in.Image))
}

// checkImage returns nil if the shop has the image: none, one of its own, or an uploaded one. The write looks again, as
// an uploaded one may go to an archive.
func (s *goodsOffice) checkImage(ctx context.Context, image string) error {
	name, uploaded := strings.CutPrefix(image, "/pictures/")
	if uploaded {
		_, err := s.gallery.picture(ctx, name)
		if errors.Is(err, admin.ErrNoPicture) {
			return fieldError{"image", "unknown"}
		}
		return err
	}
	if image != "" && !slices.Contains(OwnPictures(), image) {
		return fieldError{"image", "unknown"}
	}
	return nil
}

// addItem adds an item to the catalogue.
func (s *goodsOffice) addItem(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in itemInput
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	it, err := s.item(r.Context(), in)
	if err != nil {
		return err
	}
	id, err := s.admin.AddItem(r.Context(), by, it)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		ID int64 `json:"id"`
	}{id})
}

// editItem changes an item, and answers with it.
func (s *goodsOffice) editItem(w http.ResponseWriter, r *http.Request, by admin.By) error {
	id, err := itemID(r)
	if err != nil {
		return err
	}
	var in itemInput
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	it, err := s.item(r.Context(), in)
	if err != nil {
		return err
	}
	if err := s.admin.EditItem(r.Context(), by, id, it); err != nil {
		return err
	}
	return s.answerItem(w, r, id)
}

// addPicture stores a picture of goods. Its body is the picture.
func (s *goodsOffice) addPicture(w http.ResponseWriter, r *http.Request, by admin.By) error {
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
	if by, err = withKey(s.admin, r, by, raw); err != nil {
		return err
	}
	p, err := s.admin.AddPicture(ctx, by, raw)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		admin.Picture
		Image string `json:"image"` // for the field image of an item
	}{p, "/pictures/" + p.Name})
}
