package web

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/captcha"
)

// catalogue shows sales and the time menu. All answers come from memory.
type catalogue struct {
	desk     *desk
	zone     *time.Location // of the time menu
	cache    *goods.Cache
	rush     *seckill.Engine
	orders   *order.Store
	sums     *captcha.Sums
	prepared *prepared
}

func (s *catalogue) rows() []row {
	return []row{
		route(getAndHead, "/api/sales", everyone, free(cached), ownTime, s.listSales),
		route(getAndHead, "/api/sales/{id}", everyone, free(cached), ownTime, s.showSale),
		route(GET, "/api/slots", everyone, free(cached), answerLimit, s.slots),
	}
}

// saleJSON is a sale as the list shows it. Prices are in fen.
type saleJSON struct {
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

// newSaleJSON returns a sale with left units at the shop's time now.
func (s *catalogue) newSaleJSON(g goods.Sale, now time.Time, left int, zh bool) saleJSON {
	out := saleJSON{ID: g.ID, Title: g.Title, Image: s.desk.assets.url(g.Image), Price: g.Price, ListPrice: g.ListPrice,
		Total: g.Total, Left: left, StartAt: formatTime(g.StartsAt), EndAt: formatTime(g.EndsAt),
		State: stateAt(g, now, left)}
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

// slotMenu is the time menu as an answer. It is fresh until a slot ends, or for menuLife.
type slotMenu struct {
	*encoded
	madeAt    time.Time
	changesAt time.Time // by the shop's clock
}

func (s *catalogue) slots(w http.ResponseWriter, r *http.Request) error {
	now := s.rush.Now()
	m, err := s.prepared.menu.get(struct{}{},
		func(m *slotMenu) bool { return time.Since(m.madeAt) < menuLife && now.Before(m.changesAt) },
		func(*slotMenu) (*slotMenu, error) { return s.makeMenu(r.Context(), now) })
	if err != nil {
		return err
	}
	h := w.Header()
	h["Cache-Control"], h["Vary"] = noCache, varyEncoding
	m.send(w, r, jsonType)
	return nil
}

// makeMenu returns the menu. A slot that is over and had no sale is marked as empty, if Postgres answers.
func (s *catalogue) makeMenu(ctx context.Context, now time.Time) (*slotMenu, error) {
	type slot struct {
		StartAt string `json:"start_at"`
		EndAt   string `json:"end_at"`
		State   string `json:"state"`
		Empty   bool   `json:"empty,omitempty"`
	}
	var out []slot
	m := &slotMenu{madeAt: time.Now()}
	known := true
	for _, at := range goods.Slots(now.In(s.zone)) {
		to := slot{formatTime(at.StartAt), formatTime(at.EndAt), at.State, false}
		if known && at.State == "ended" {
			rows, _, err := s.cache.Slot(ctx, at.StartAt)
			known = err == nil
			to.Empty = known && len(rows) == 0
		}
		if m.changesAt.IsZero() && now.Before(at.EndAt) {
			m.changesAt = at.EndAt
		}
		out = append(out, to)
	}
	b, err := encode(out)
	if err != nil {
		return nil, err
	}
	m.encoded = s.prepared.compressor.prepare(b)
	return m, nil
}

const (
	listLife    = 100 * time.Millisecond // how long a list is sent, though the units left may have changed
	menuLife    = 20 * time.Second       // how long the menu is sent, though an old slot may have a sale by now
	listsKept   = 128                    // two days of slots in both languages are about a hundred
	detailsKept = 5000
	heldWait    = 200 * time.Millisecond // how long a sale's details wait for the units that are held
)

// prepared holds the answers about sales, ready to be sent.
type prepared struct {
	compressor *compressor
	lists      responseCache[responseKey, saleList]
	details    responseCache[responseKey, detail]
	menu       responseCache[struct{}, slotMenu]
}

func newPrepared() (*prepared, error) {
	c, err := newCompressor(gzip.DefaultCompression, zstd.SpeedDefault)
	if err != nil {
		return nil, err
	}
	return &prepared{c, newResponseCache[responseKey, saleList](listsKept),
		newResponseCache[responseKey, detail](detailsKept),
		newResponseCache[struct{}, slotMenu](1)}, nil
}

// responseKey names a list of sales, or one sale, in one language. The id of a list is the start of
// its slot, in seconds since 1970; 0 for all sales that have not ended.
type responseKey struct {
	id int64
	zh bool
}

// saleList is a list of sales as an answer, with the rows that it was made of. It is fresh until the cache
// reads the rows again, until a sale starts or ends, or for listLife.
type saleList struct {
	*encoded
	rows      []goods.Sale
	madeAt    time.Time
	changesAt time.Time // when the first sale starts or ends, by the shop's clock; zero if none does
}

func (s *catalogue) listSales(w http.ResponseWriter, r *http.Request) error {
	now, zh := s.rush.Now(), chinese(r)
	slot, rows, age, err := s.saleRows(r, now)
	if err != nil {
		return err
	}
	l, err := s.prepared.lists.get(responseKey{slot, zh},
		func(l *saleList) bool { return l.fresh(rows, now) },
		func(old *saleList) (*saleList, error) { return s.makeList(old, rows, zh) })
	if err != nil {
		return err
	}
	setVaryAndAge(w, age)
	w.Header()["Cache-Control"] = noCache
	l.send(w, r, jsonType)
	return nil
}

// saleRows returns the sales of the slot that the request names, or all that have not ended, and how
// old this data is. slot is the id of its responseKey.
func (s *catalogue) saleRows(
	r *http.Request, now time.Time,
) (slot int64, rows []goods.Sale, age time.Duration, err error) {
	if r.URL.RawQuery == "" || r.URL.Query().Get("slot") == "" {
		rows, age, err = s.cache.Live(r.Context())
		return 0, rows, age, err
	}
	start, err := s.slotAt(r.URL.Query().Get("slot"), now)
	if err != nil {
		return 0, nil, 0, err
	}
	rows, age, err = s.cache.Slot(r.Context(), start)
	return start.Unix(), rows, age, err
}

// fresh reports whether the list may be sent at the shop's time now, if rows are the rows in the cache.
func (l *saleList) fresh(rows []goods.Sale, now time.Time) bool {
	same := len(l.rows) == len(rows) && (len(rows) == 0 || &l.rows[0] == &rows[0]) // from the same read
	return same && time.Since(l.madeAt) < listLife && (l.changesAt.IsZero() || now.Before(l.changesAt))
}

// makeList returns a new list. If its body is the old one, the list takes over what is compressed already.
func (s *catalogue) makeList(old *saleList, rows []goods.Sale, zh bool) (*saleList, error) {
	l, now := &saleList{rows: rows, madeAt: time.Now()}, s.rush.Now()
	out := make([]saleJSON, 0, len(rows))
	for _, g := range rows {
		out = append(out, s.newSaleJSON(g, now, s.rush.Left(g), zh))
		for _, at := range []time.Time{g.StartsAt, g.EndsAt} {
			if at.After(now) && (l.changesAt.IsZero() || at.Before(l.changesAt)) {
				l.changesAt = at
			}
		}
	}
	b, err := encode(out)
	if err != nil {
		return nil, err
	}
	if old != nil && bytes.Equal(b, old.plain.bytes) {
		l.encoded = old.encoded
		return l, nil
	}
	l.encoded = s.prepared.compressor.prepare(b)
	return l, nil
}

// slotAt returns the slot of the menu that starts at the given time. Any other time is a bad request,
// so that no client fills the cache with slots that no menu shows.
func (s *catalogue) slotAt(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+")) // a + that was not escaped
	slots := goods.Slots(now.In(s.zone))
	i := slices.IndexFunc(slots, func(slot goods.Slot) bool { return slot.StartAt.Equal(at) })
	if err != nil || i < 0 {
		return time.Time{}, fieldError{"slot", "value"}
	}
	return slots[i].StartAt, nil
}

// detail is the answer about one sale, all but its last field, and everything that it was made of. It
// is fresh until one of these changes.
type detail struct {
	body   []byte
	length []string // of the whole answer, in the form of a header
	of     goods.Sale
	left   int
	state  string
	held   *goods.Held // of one that is sold out
}

func (d *detail) fresh(of goods.Sale, left int, state string, held *goods.Held) bool {
	return d.left == left && d.state == state && d.held == held && d.of == of
}

// showSale answers with one sale. There is no ETag: each answer has the time, with which pages count
// down, and after a 304 a browser would use the time of its old copy. The answer is not compressed
// either: the demo's details have 384 to 455 bytes, or 277 to 347 as gzip, and both fit one packet.
func (s *catalogue) showSale(w http.ResponseWriter, r *http.Request) error {
	id, err := saleID(r)
	if err != nil {
		return err
	}
	g, age, err := s.cache.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	now, left, zh := s.rush.Now(), s.rush.Left(g), chinese(r)
	state := stateAt(g, now, left)
	var held *goods.Held
	if state == "sold_out" && g.Stock == 0 { // otherwise the last orders are not all in Postgres yet
		limited, cancel := context.WithTimeout(r.Context(), heldWait)
		if h, err := s.cache.Held(limited, id); err == nil { // without it buyers see no figure
			held = h
		}
		cancel()
	}
	d, err := s.prepared.details.get(responseKey{id, zh},
		func(d *detail) bool { return d.fresh(g, left, state, held) },
		func(*detail) (*detail, error) { return s.makeDetail(g, now, left, held, zh) })
	if err != nil {
		return err
	}
	setVaryAndAge(w, age)
	h := w.Header()
	h["Cache-Control"], h["Content-Type"], h["Content-Length"] = noStore, jsonType, d.length
	w.Write(d.body)
	w.Write(serverTimeField(now))
	return nil
}

func (s *catalogue) makeDetail(g goods.Sale, now time.Time, left int, held *goods.Held, zh bool) (*detail, error) {
	out := struct {
		saleJSON
		Detail    string `json:"detail"`
		Captcha   bool   `json:"captcha"`
		PayWithin int    `json:"pay_within"` // seconds
		Held      *int   `json:"held,omitempty"`
		BackAt    string `json:"back_at,omitempty"`
	}{saleJSON: s.newSaleJSON(g, now, left, zh), Detail: g.Detail, Captcha: s.sums.On(), PayWithin: int(
		s.orders.PayWithin().Seconds())}
	if !zh && g.DetailEN != "" {
		out.Detail = g.DetailEN
	}
	if held != nil {
		out.Held, out.BackAt = &held.Units, formatOrNone(held.BackAt)
	}
	b, err := encode(out)
	if err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(b, []byte("}}"))
	return &detail{body, []string{strconv.Itoa(len(body) + len(serverTimeField(now)))}, g, left, out.State, held}, nil
}

// serverTimeField returns the last field of a detail, and its end. Its length is always the same.
func serverTimeField(now time.Time) []byte {
	return []byte(`,"server_time":"` + formatTime(now) + `"}}`)
}

// setVaryAndAge sets the headers that name what an answer about sales depends on, and how old its data
// is while Postgres does not answer.
func setVaryAndAge(w http.ResponseWriter, age time.Duration) {
	h := w.Header()
	h["Vary"] = varySales
	if age > 0 {
		h.Set("Age", strconv.Itoa(int(age.Seconds())))
		h.Set("Warning", `110 - "Response is Stale"`)
	}
}
