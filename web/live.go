package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/live"
	"miaosha/user"
)

const (
	maxGuests  = 500 // event streams of the live view with a link, or of everyone if it is public
	linkHeader = "X-Live-Link"
)

// liveView streams what the shop does, to the staff and to those with a link.
type liveView struct {
	desk    *desk
	live    *live.Monitor
	admin   *admin.Store
	key     []byte // signs links
	public  bool   // no link is needed
	streams *streamPlaces
	guests  *streamPlaces
}

func (s *liveView) rows() []row {
	link := audience[openHandler]{"a link", everyone.door} // or anyone, if the live view is public
	const makesRoom = ", where the largest network makes room"
	return []row{
		route(GET, "/api/admin/live", theStaff, first(staff).then(
			"at most 5 open streams of a user and 10,000 of a process"+makesRoom),
			ownTime, s.adminLive),
		route(POST, "/api/admin/live/link", keyedAdmins(s.admin), first(staff), answerLimit, s.shareLive),
		route(GET, "/api/live", link, ahead(ownNetwork).then("at most 500 open streams of a process"+makesRoom),
			ownTime, s.guestLive),
	}
}

// adminLive is the live view for the staff. The stream ends with the session.
func (s *liveView) adminLive(w http.ResponseWriter, r *http.Request, by admin.By) error {
	sale, err := liveSale(r)
	if err != nil {
		return err
	}
	place, err := s.streams.take(s.desk.originOf(r), by.UserID)
	if err != nil {
		return err
	}
	defer s.streams.leave(place)
	return s.pushLive(w, r, sale, place, false, func() bool {
		session, err := s.desk.sessions.Get(r.Context(), s.desk.token(r))
		if err != nil { // a store that is away ends no stream
			return !errors.Is(err, user.ErrNoSession)
		}
		return session.Role != user.RoleBuyer
	})
}

// guestLive is the live view for those with a link, or for everyone. It has figures only.
//
// The link comes in a header. An EventSource could send it in the URL only, which proxies write into their logs; so the
// page reads the stream with fetch. In the page's own address it is behind the #, which no browser sends.
func (s *liveView) guestLive(w http.ResponseWriter, r *http.Request) error {
	sale, err := liveSale(r)
	if err != nil {
		return err
	}
	link := r.Header.Get(linkHeader)
	mayWatch := func() bool { return s.public || s.goodLink(link, time.Now()) }
	if !mayWatch() {
		return errLink
	}
	place, err := s.guests.take(s.desk.originOf(r), 0)
	if err != nil {
		return err
	}
	defer s.guests.leave(place)
	return s.pushLive(w, r, sale, place, true, mayWatch)
}

// liveSale returns the sale in the query, 0 for the whole shop.
func liveSale(r *http.Request) (int64, error) {
	q := query{values: r.URL.Query()}
	sale := q.id("sale")
	return sale, q.err()
}

// pushLive writes a live event at once, the history, and a live event a second, until the client leaves, the place is
// lost, mayWatch returns false or the server stops.
func (s *liveView) pushLive(
	w http.ResponseWriter, r *http.Request, sale int64, at *streamPlace, guest bool, mayWatch func() bool,
) error {
	view, next := s.live.Latest()
	if view == nil { // the process has just begun
		select {
		case <-next:
			view, next = s.live.Latest()
		case <-r.Context().Done():
			return r.Context().Err()
		case <-s.desk.closing:
			return seckill.ErrBusy
		case <-at.lost:
			return seckill.ErrBusy
		}
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, rc: http.NewResponseController(w)}
	for first := true; out.err == nil && mayWatch(); first = false {
		event, err := view.Event(sale, guest)
		if err != nil {
			return err
		}
		out.send("live", event)
		if first {
			if event, err = s.live.History(sale); err != nil {
				return err
			}
			out.send("history", event)
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.desk.closing:
			return nil
		case <-at.lost:
			return nil
		case <-next:
		}
		view, next = s.live.Latest()
	}
	return nil
}

// shareLive makes a link to the live view for people without an account.
func (s *liveView) shareLive(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Hours number `json:"hours"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if in.Hours < 1 || in.Hours > maxLinkHours {
		return fieldError{"hours", "link"}
	}
	expires := time.Now().Add(time.Duration(in.Hours) * time.Hour).Truncate(time.Second)
	expires, err := s.admin.ShareLive(r.Context(), by, expires)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		URL       string `json:"url"`
		ExpiresAt string `json:"expires_at"`
	}{"/live.html#" + s.newLink(expires), formatTime(expires)})
}

// newLink returns what shows that its holder may watch until expires: that time, signed.
func (s *liveView) newLink(expires time.Time) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(at, s.signLink(at)...))
}

func (s *liveView) signLink(at []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(at)
	return mac.Sum(nil)[:16]
}

// goodLink reports whether a link was made by this shop and has not expired at a time.
func (s *liveView) goodLink(link string, now time.Time) bool {
	raw, err := base64.RawURLEncoding.DecodeString(link)
	if err != nil || len(raw) != 24 || !hmac.Equal(raw[8:], s.signLink(raw[:8])) {
		return false
	}
	return now.Before(time.Unix(int64(binary.BigEndian.Uint64(raw)), 0))
}
