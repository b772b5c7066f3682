package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/user"
)

const (
	maxStreams     = 10_000 // event streams of buyers and of the staff at once
	maxUserStreams = 5      // of one user
	// between two looks at the units left, and at results which another process has settled
	eventEvery = time.Second
	eventLimit = 10 * time.Second // for a client to take an event
	eventBeat  = 15               // looks without news until a comment is sent, to keep the connection open
)

func (s *purchases) eventRows() []row {
	return []row{
		route(GET, "/api/sales/{id}/events", buyers,
			first(rush, rushNetwork).then(
				"at most 5 open streams of a user and 10,000 of a process, where the largest network makes room"),
			ownTime, s.saleEvents),
	}
}

// saleEvents is the push beside the poll: a stream of `result` (the data of GET result, whenever it
// changes) and `left` (`{"left": 12}`). It ends when the client leaves, the session ends or the server
// stops. A page closes it when it has its final result.
func (s *purchases) saleEvents(w http.ResponseWriter, r *http.Request, session user.Session, id int64) error {
	sale, _, err := s.cache.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	place, err := s.streams.take(s.desk.originOf(r), session.UserID)
	if err != nil {
		return err
	}
	defer s.streams.leave(place)
	news, stop := s.rush.Watch(id, session.UserID)
	defer stop()
	st, err := s.rush.Result(r.Context(), id, session.UserID)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, rc: http.NewResponseController(w)}
	s.pushEvents(&out, r, sale, place, st, news)
	return nil
}

// pushEvents writes events until the stream ends, or loses its place. st is the user's first result. It looks for later
// ones at news, and at each tick until one is final.
func (s *purchases) pushEvents(
	out *stream, r *http.Request, sale goods.Sale, at *streamPlace, st seckill.Status, news <-chan struct{},
) {
	out.send("result", appendStatus(nil, "", st))
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	left, quiet, look := -1, 0, false
	for out.err == nil {
		if now := s.rush.Left(sale); now != left {
			left, quiet = now, 0
			out.send("left", fmt.Appendf(nil, `{"left":%d}`, left))
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.desk.closing:
			return
		case <-at.lost:
			return
		case <-news:
			look = true
		case <-tick.C:
			if _, err := s.desk.sessions.Get(r.Context(), s.desk.token(r)); errors.Is(err, user.ErrNoSession) {
				return
			}
			look = look || !st.Final()
			if quiet++; quiet >= eventBeat {
				quiet = 0
				out.write(":\n\n") // a comment
			}
		}
		if !look {
			continue
		}
		next, err := s.rush.Result(r.Context(), sale.ID, at.user)
		if err != nil {
			continue // the next tick looks again
		}
		if next.State != st.State || next.Ahead != st.Ahead {
			out.send("result", appendStatus(nil, "", next))
		}
		st, look = next, false
	}
}

// stream writes server-sent events. After the first failure it writes nothing more.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

// send sends an event with JSON data.
func (s *stream) send(event string, data []byte) {
	s.write("event: %s\ndata: %s\n\n", event, data)
}

// write sends text at once, or sets err.
func (s *stream) write(format string, args ...any) {
	if s.err == nil {
		s.err = s.rc.SetWriteDeadline(time.Now().Add(eventLimit))
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
	if s.err == nil {
		s.err = s.rc.Flush()
	}
}
