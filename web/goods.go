package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"miaosha/goods"
)

// sale is a sale as the list shows it. Prices in fen.
type sale struct {
	ID        int64  `json:"id"`
	Title     string `json:"title"`
	Image     string `json:"image"`
	Price     int64  `json:"price"`
	ListPrice int64  `json:"list_price"`
	Total     int    `json:"total"`
	Left      int    `json:"left"`
	StartAt   string `json:"start_at"`
	EndAt     string `json:"end_at"`
	State     string `json:"state"` // upcoming, open, sold_out, ended, paused
}

func (s *Server) shown(g goods.Sale, now time.Time, zh bool) sale {
	out := sale{ID: g.ID, Title: g.Title, Image: s.assets.url(g.Image), Price: g.Price, ListPrice: g.ListPrice,
		Total: g.Total, Left: s.Rush.Left(g), StartAt: stamp(g.StartsAt), EndAt: stamp(g.EndsAt), State: "open"}
	if !zh && g.TitleEN != "" {
		out.Title = g.TitleEN
	}
	switch {
	case g.State == goods.Closed || !now.Before(g.EndsAt):
		out.State = "ended"
	case g.State == goods.Paused:
		out.State = "paused"
	case now.Before(g.StartsAt):
		out.State = "upcoming"
	case out.Left <= 0:
		out.State = "sold_out"
	}
	return out
}

func (s *Server) slots(w http.ResponseWriter, r *http.Request) error {
	type slot struct {
		StartAt string `json:"start_at"`
		EndAt   string `json:"end_at"`
		State   string `json:"state"`
	}
	var out []slot
	for _, at := range goods.Slots(s.Rush.Now().In(s.cfg.zone)) {
		out = append(out, slot{stamp(at.StartAt), stamp(at.EndAt), at.State})
	}
	return ok(w, 200, out)
}

func (s *Server) listSales(w http.ResponseWriter, r *http.Request) error {
	now := s.Rush.Now()
	var list []goods.Sale
	var old time.Duration
	var err error
	if slot := r.URL.Query().Get("slot"); slot == "" {
		list, old, err = s.Cache.Live(r.Context())
	} else {
		var start time.Time
		if start, err = s.slotAt(slot, now); err != nil {
			return err
		}
		list, old, err = s.Cache.Slot(r.Context(), start)
	}
	if err != nil {
		return err
	}
	out, zh := make([]sale, 0, len(list)), chinese(r)
	for _, g := range list {
		out = append(out, s.shown(g, now, zh))
	}
	mark(w, old)
	return ok(w, 200, out)
}

// slotAt finds the slot of the menu that begins at the given time; another time is a bad request, so that nobody makes
// the cache hold what no menu shows.
func (s *Server) slotAt(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+")) // a + that was not escaped
	if err == nil {
		for _, slot := range goods.Slots(now.In(s.cfg.zone)) {
			if slot.StartAt.Equal(at) {
				return slot.StartAt, nil
			}
		}
	}
	return time.Time{}, fieldError{field: "slot"}
}

func (s *Server) showSale(w http.ResponseWriter, r *http.Request) error {
	id, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	g, old, err := s.Cache.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	now, zh := s.Rush.Now(), chinese(r)
	detail := g.Detail
	if !zh && g.DetailEN != "" {
		detail = g.DetailEN
	}
	mark(w, old)
	return ok(w, 200, struct {
		sale
		Detail     string `json:"detail"`
		ServerTime string `json:"server_time"`
		Captcha    bool   `json:"captcha"`
	}{s.shown(g, now, zh), detail, stamp(now), s.Rush.CaptchaOn()})
}

// mark tells that an answer is old because Postgres did not answer.
func mark(w http.ResponseWriter, old time.Duration) {
	w.Header().Set("Vary", "Accept-Language")
	if old > 0 {
		w.Header().Set("Age", strconv.Itoa(int(old.Seconds())))
		w.Header().Set("Warning", `110 - "Response is Stale"`)
	}
}
