package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/admin"
)

// salesOffice is where the staff makes and changes sales.
type salesOffice struct {
	desk  *desk
	admin *admin.Store
	cache *goods.Cache
	rush  *seckill.Engine
	goods *goodsOffice
}

func (s *salesOffice) rows() []row {
	keyed := keyedAdmins(s.admin)
	return []row{
		route(GET, "/api/admin/sales", theStaff, first(searches), answerLimit, s.adminSales),
		route(POST, "/api/admin/sales", keyed, first(staff), answerLimit, s.addSale),
		route(GET, "/api/admin/sales/{id}", theStaff, first(searches), answerLimit, s.adminSale),
		route(POST, "/api/admin/sales/{id}", keyed, first(staff), answerLimit, s.editDraft),
		route(POST, "/api/admin/sales/{id}/publish", keyed, first(staff),
			answerLimit, s.changeSale((*admin.Store).PublishDraft)),
		route(POST, "/api/admin/sales/{id}/pause", keyed, first(staff),
			answerLimit, s.changeSale((*admin.Store).Pause)),
		route(POST, "/api/admin/sales/{id}/resume", keyed, first(staff),
			answerLimit, s.changeSale((*admin.Store).Resume)),
		route(POST, "/api/admin/sales/{id}/close", keyed, first(staff),
			answerLimit, s.changeSale((*admin.Store).Close)),
		route(POST, "/api/admin/sales/{id}/units", keyed, first(searches), answerLimit, s.addUnits),
		route(POST, "/api/admin/sales/{id}/window", keyed, first(staff), answerLimit, s.moveSale),
		route(POST, "/api/admin/sales/{id}/price", keyed, first(staff), answerLimit, s.setPrice),
		route(POST, "/api/admin/sales/{id}/plans", keyed, first(searches), answerLimit, s.addPlan),
		route(POST, "/api/admin/plans/{id}/cancel", keyed, first(staff), answerLimit, s.cancelPlan),
	}
}

// staffSale is a sale as the staff's pages show it.
type staffSale struct {
	admin.Sale
	Picture string `json:"picture"` // the image's URL
}

func (s *salesOffice) newStaffSale(sale admin.Sale) staffSale {
	return staffSale{sale, s.desk.assets.url(sale.Image)}
}

// adminSales answers with a page of sales, newest first.
func (s *salesOffice) adminSales(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	q := query{values: r.URL.Query()}
	f := admin.SaleFilter{State: q.oneOf("state", goods.Draft, goods.Published, goods.Paused, goods.Closed),
		GoodsID: q.typedID("goods"), Cursor: q.id("cursor")}
	if err := q.err(); err != nil {
		return err
	}
	sales, next, err := s.admin.Sales(r.Context(), f)
	if err != nil {
		return err
	}
	out := struct {
		Sales []staffSale `json:"sales"`
		Next  int64       `json:"next,omitempty"` // the cursor of the next page
	}{make([]staffSale, 0, len(sales)), next}
	for _, sale := range sales {
		out.Sales = append(out.Sales, s.newStaffSale(sale))
	}
	return ok(w, 200, out)
}

// adminSale answers with one sale.
func (s *salesOffice) adminSale(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	id, err := saleID(r)
	if err != nil {
		return err
	}
	return s.answerSale(w, r, id)
}

// answerSale answers with a sale, its plans, and whether gate and catalogue have followed its last change.
func (s *salesOffice) answerSale(w http.ResponseWriter, r *http.Request, id int64) error {
	sale, err := s.admin.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	plans, err := s.admin.Plans(r.Context(), id)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		staffSale
		Gate       admin.Gate   `json:"gate"`
		Shown      bool         `json:"shown"` // buyers of this process see the sale as it is here
		Plans      []admin.Plan `json:"plans"`
		ServerTime string       `json:"server_time"`
	}{s.newStaffSale(sale), s.admin.Gate(r.Context(), id), s.shows(r.Context(), sale), plans, formatTime(s.rush.Now())})
}

// shows reports whether the catalogue shows a sale as it is. It does not show a draft.
func (s *salesOffice) shows(ctx context.Context, sale admin.Sale) bool {
	g, _, err := s.cache.Sale(ctx, sale.ID)
	if sale.State == goods.Draft {
		return errors.Is(err, goods.ErrNoSale)
	}
	return err == nil && g.State == sale.State && g.Price == sale.Price && g.Total == sale.Total &&
		g.Title == sale.Title && g.Image == sale.Image &&
		g.StartsAt.Equal(sale.StartsAt) && g.EndsAt.Equal(sale.EndsAt)
}

// addSale adds a sale, of a new item or of goods that exist.
func (s *salesOffice) addSale(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		GoodsID number `json:"goods_id"`
		State   string `json:"state"`
		itemInput
		termsInput
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	sale := admin.NewSale{GoodsID: int64(in.GoodsID), State: in.State}
	var err, noItem, noTerms error
	if in.GoodsID == 0 {
		sale.Item, noItem = s.goods.item(r.Context(), in.itemInput)
	} else if in.itemInput != (itemInput{}) {
		noItem = fieldError{"goods_id", "alone"}
	}
	if sale.Terms, noTerms = in.terms(by.At); in.State != goods.Draft && in.State != goods.Published {
		err = fieldError{"state", "value"}
	}
	if err = errors.Join(noItem, noTerms, err); err != nil {
		return err
	}
	id, err := s.admin.AddSale(r.Context(), by, sale)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		ID int64 `json:"id"`
	}{id})
}

// termsInput are the terms of a sale in a body.
type termsInput struct {
	Price   *number `json:"price"`
	Stock   *number `json:"stock"`
	StartAt string  `json:"start_at"`
	EndAt   string  `json:"end_at"`
}

// terms returns the terms, or an error that names every wrong field. now is when the request came: an end that was over
// then is refused.
func (in termsInput) terms(now time.Time) (t goods.Terms, err error) {
	f := inputs{}
	t.Price, t.Total = int64(needed(&f, "price", in.Price)), int(needed(&f, "stock", in.Stock))
	t.StartsAt, t.EndsAt = f.time("start_at", in.StartAt), f.time("end_at", in.EndAt)
	if !t.EndsAt.After(now) {
		err = fieldError{"end_at", "past"}
	}
	return t, errors.Join(f.err(), t.Validate(), err)
}

// editDraft sets the terms of a draft.
func (s *salesOffice) editDraft(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in termsInput
	return s.changeSaleTo(w, r, by, "edit", &in, func() (admin.SaleChange, error) {
		terms, err := in.terms(by.At)
		return func(g *goods.Store, ctx context.Context, id int64) (int64, error) {
			return g.EditDraft(ctx, id, terms)
		}, err
	})
}

// setPrice sets the price of a sale that does not open soon.
func (s *salesOffice) setPrice(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Price *number `json:"price"`
	}
	return s.changeSaleTo(w, r, by, "price", &in, func() (admin.SaleChange, error) {
		f := inputs{}
		price := int64(needed(&f, "price", in.Price))
		return func(g *goods.Store, ctx context.Context, id int64) (int64, error) { return g.SetPrice(ctx, id, price) },
			f.err()
	})
}

// addUnits adds units to a sale, or takes unsold ones off.
func (s *salesOffice) addUnits(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Delta *number `json:"delta"`
	}
	return s.changeSaleTo(w, r, by, "units", &in, func() (admin.SaleChange, error) {
		f := inputs{}
		delta := int(needed(&f, "delta", in.Delta))
		return func(g *goods.Store, ctx context.Context, id int64) (int64, error) { return g.AddUnits(ctx, id, delta) },
			f.err()
	})
}

// moveSale sets the window of a sale.
func (s *salesOffice) moveSale(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		StartAt string `json:"start_at"`
		EndAt   string `json:"end_at"`
	}
	return s.changeSaleTo(w, r, by, "window", &in, func() (admin.SaleChange, error) {
		f := inputs{}
		from, to := f.time("start_at", in.StartAt), f.time("end_at", in.EndAt)
		return func(g *goods.Store, ctx context.Context, id int64) (int64, error) { return g.Move(ctx, id, from, to) },
			f.err()
	})
}

// changeSaleTo reads a body into in, makes the change that read returns then, and answers with the sale.
func (s *salesOffice) changeSaleTo(
	w http.ResponseWriter, r *http.Request, by admin.By, do string, in any, read func() (admin.SaleChange, error),
) error {
	id, err := saleID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, in, false); err != nil {
		return err
	}
	change, err := read()
	if err != nil {
		return err
	}
	if _, err := s.admin.ChangeSale(r.Context(), by, do, id, change); err != nil {
		return err
	}
	return s.answerSale(w, r, id)
}

// changeSale makes a handler of a change of a sale's state. It answers with the sale.
func (s *salesOffice) changeSale(
	change func(*admin.Store, context.Context, admin.By, int64) (int64, error),
) adminHandler {
	return func(w http.ResponseWriter, r *http.Request, by admin.By) error {
		if err := refuseBody(w, r); err != nil {
			return err
		}
		id, err := saleID(r)
		if err != nil {
			return err
		}
		if _, err := change(s.admin, r.Context(), by, id); err != nil {
			return err
		}
		return s.answerSale(w, r, id)
	}
}

// addPlan plans a change of a sale.
func (s *salesOffice) addPlan(w http.ResponseWriter, r *http.Request, by admin.By) error {
	id, err := saleID(r)
	if err != nil {
		return err
	}
	var in struct {
		Action string `json:"action"`
		At     string `json:"at"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	f := inputs{}
	at := f.time("at", in.At)
	if err := f.err(); err != nil {
		return err
	}
	if _, err := s.admin.AddPlan(r.Context(), by, id, in.Action, at); err != nil {
		return err
	}
	return s.answerSale(w, r, id)
}

// cancelPlan takes a plan back.
func (s *salesOffice) cancelPlan(w http.ResponseWriter, r *http.Request, by admin.By) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	id, err := pathID(r, admin.ErrNoPlan)
	if err != nil {
		return err
	}
	if err := s.admin.CancelPlan(r.Context(), by, id); err != nil {
		return err
	}
	return ok(w, 200, struct{}{})
}
