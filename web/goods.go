package web

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

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

// shown is a sale as it is at the shop's time now, with left units.
func (s *Server) shown(g goods.Sale, now time.Time, left int, zh bool) sale {
	out := sale{ID: g.ID, Title: g.Title, Image: s.assets.url(g.Image), Price: g.Price, ListPrice: g.ListPrice,
		Total: g.Total, Left: left, StartAt: stamp(g.StartsAt), EndAt: stamp(g.EndsAt), State: stateAt(g, now, left)}
	if !zh && g.TitleEN != "" {
		out.Title = g.TitleEN
	}
	return out
}

func stateAt(g goods.Sale, now time.Time, left int) string {
	switch {
	case g.State == goods.Closed || !now.Before(g.EndsAt):
		return "ended"
	case g.State == goods.Paused:
		return "paused"
	case now.Before(g.StartsAt):
		return "upcoming"
	case left <= 0:
		return "sold_out"
	}
	return "open"
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

const (
	listLife    = 100 * time.Millisecond // how long a prepared list is given, beside what this process itself hears late
	listsKept   = 128                    // two days of slots in both languages are about a hundred
	detailsKept = 5000
)

// prepared are the answers about sales, ready to be sent.
type prepared struct {
	packer  *packer
	lists   shelves[listKey, list]
	details shelves[detailKey, detail]
}

func newPrepared() (*prepared, error) {
	p, err := newPacker(gzip.DefaultCompression, zstd.SpeedDefault)
	if err != nil {
		return nil, err
	}
	return &prepared{p, newShelves[listKey, list](listsKept), newShelves[detailKey, detail](detailsKept)}, nil
}

// listKey is a list of which there is a prepared answer.
type listKey struct {
	slot int64 // when it begins, seconds since 1970; 0 for all that have not ended
	zh   bool
}

// list is the answer to who asks for the sales, and what it was made of. It is good until its rows are read anew, a sale
// begins or ends, or listLife is over.
type list struct {
	*packed
	rows []goods.Sale
	made time.Time
	turn time.Time // the first moment, by the shop's clock, at which a state changes by itself; zero for none
}

func (s *Server) listSales(w http.ResponseWriter, r *http.Request) error {
	now, key := s.Rush.Now(), listKey{zh: chinese(r)}
	var rows []goods.Sale
	var old time.Duration
	var err error
	if r.URL.RawQuery == "" || r.URL.Query().Get("slot") == "" {
		rows, old, err = s.Cache.Live(r.Context())
	} else {
		var start time.Time
		if start, err = s.slotAt(r.URL.Query().Get("slot"), now); err != nil {
			return err
		}
		key.slot = start.Unix()
		rows, old, err = s.Cache.Slot(r.Context(), start)
	}
	if err != nil {
		return err
	}
	l, err := s.prepared.lists.get(key, func(l *list) bool { return l.good(rows, now) }, func(was *list) (*list, error) { return s.makeList(was, rows, key.zh) })
	if err != nil {
		return err
	}
	mark(w, old)
	w.Header()["Cache-Control"] = noCache
	l.send(w, r, jsonType)
	return nil
}

// good tells whether the list can be given at the shop's time now, when rows are what the cache has.
func (l *list) good(rows []goods.Sale, now time.Time) bool {
	same := len(l.rows) == len(rows) && (len(rows) == 0 || &l.rows[0] == &rows[0]) // the same read, not just the same figures
	return same && time.Since(l.made) < listLife && (l.turn.IsZero() || now.Before(l.turn))
}

func (s *Server) makeList(was *list, rows []goods.Sale, zh bool) (*list, error) {
	l, now := &list{rows: rows, made: time.Now()}, s.Rush.Now()
	out := make([]sale, 0, len(rows))
	for _, g := range rows {
		out = append(out, s.shown(g, now, s.Rush.Left(g), zh))
		for _, at := range []time.Time{g.StartsAt, g.EndsAt} {
			if at.After(now) && (l.turn.IsZero() || at.Before(l.turn)) {
				l.turn = at
			}
		}
	}
	b, err := encode(out)
	if err != nil {
		return nil, err
	}
	if was != nil && bytes.Equal(b, was.plain.bytes) {
		l.packed = was.packed
		return l, nil
	}
	l.packed, err = s.prepared.packer.pack(b)
	return l, err
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

// detailKey is a sale in one of the languages.
type detailKey struct {
	id int64
	zh bool
}

// detail is the answer to who asks for a sale, and all it was made of. It is good until one of these changes.
type detail struct {
	*unended
	of    goods.Sale
	left  int
	state string
}

func (d *detail) good(of goods.Sale, left int, state string) bool {
	return d.left == left && d.state == state && d.of == of
}

// showSale has no ETag: each answer tells the time, by which pages count down, and with a 304 a browser would go on with
// the time of the copy it has.
func (s *Server) showSale(w http.ResponseWriter, r *http.Request) error {
	id, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	g, old, err := s.Cache.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	now, left, zh := s.Rush.Now(), s.Rush.Left(g), chinese(r)
	state := stateAt(g, now, left)
	d, err := s.prepared.details.get(detailKey{id, zh}, func(d *detail) bool { return d.good(g, left, state) }, func(*detail) (*detail, error) {
		text := g.Detail
		if !zh && g.DetailEN != "" {
			text = g.DetailEN
		}
		b, err := encode(struct {
			sale
			Detail  string `json:"detail"`
			Captcha bool   `json:"captcha"`
		}{s.shown(g, now, left, zh), text, s.Rush.CaptchaOn()})
		if err != nil {
			return nil, err
		}
		u, err := s.prepared.packer.unended(bytes.TrimSuffix(b, []byte("}}")), len(ending(now)))
		return &detail{u, g, left, state}, err
	})
	if err != nil {
		return err
	}
	mark(w, old)
	w.Header()["Cache-Control"] = noStore
	d.send(w, r, ending(now))
	return nil
}

// ending is what is left of a detail to be written: the time.
func ending(now time.Time) []byte { return []byte(`,"server_time":"` + stamp(now) + `"}}`) }

// mark tells on what an answer about sales depends, and that it is old if Postgres did not answer.
func mark(w http.ResponseWriter, old time.Duration) {
	h := w.Header()
	h["Vary"] = variesOfSales
	if old > 0 {
		h.Set("Age", strconv.Itoa(int(old.Seconds())))
		h.Set("Warning", `110 - "Response is Stale"`)
	}
}
