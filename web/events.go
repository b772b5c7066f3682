package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/user"
)

const (
	maxListeners = 10_000           // event streams at once
	maxOfOne     = 5                // of them of one user
	eventEvery   = time.Second      // how often what is left, and a result of another process, is looked for
	eventLimit   = 10 * time.Second // for a listener to take an event
	eventBeat    = 15               // looks without news until a sign of life is sent
)

// listen is the push beside the poll: a stream of `result` (as GET result gives it, whenever it changes) and `left`
// (`{"left": 12}`). It goes on until the client leaves, the session ends or the server stops; a page closes it when it knows
// enough.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, who user.Session) error {
	id, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	sale, _, err := s.Cache.Sale(r.Context(), id)
	if err != nil {
		return err
	}
	select {
	case s.events <- struct{}{}:
		defer func() { <-s.events }()
	default:
		return seckill.ErrBusy
	}
	if !s.mine.enter(who.UserID) {
		return seckill.TooManyError{RetryAfter: time.Second}
	}
	defer s.mine.leave(who.UserID)
	news, stop := s.Rush.Watch(id, who.UserID)
	defer stop()
	st, err := s.Rush.Result(r.Context(), id, who.UserID)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, rc: http.NewResponseController(w)}
	out.send("result", json.RawMessage(appendStatus(nil, "", st)))
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	left, quiet := -1, 0
	for out.err == nil {
		if now := s.Rush.Left(sale); now != left {
			left, quiet = now, 0
			out.send("left", struct {
				Left int `json:"left"`
			}{left})
		}
		var next seckill.Status
		select {
		case <-r.Context().Done():
			return nil
		case <-s.closing:
			return nil
		case next = <-news:
		case <-tick.C:
			if _, err := s.Sessions.Get(r.Context(), s.token(r)); errors.Is(err, user.ErrNoSession) {
				return nil
			}
			if next = st; !st.Final() {
				if next, err = s.Rush.Result(r.Context(), id, who.UserID); err != nil {
					next = st // nothing is known: say nothing
				}
			}
			if quiet++; quiet >= eventBeat {
				quiet = 0
				out.comment()
			}
		}
		if next.State != st.State || next.Ahead != st.Ahead {
			out.send("result", json.RawMessage(appendStatus(nil, "", next)))
		}
		st = next
	}
	return nil
}

// listeners counts each user's streams.
type listeners struct {
	mu sync.Mutex
	of map[int64]int
}

func (l *listeners) enter(user int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[user] >= maxOfOne {
		return false
	}
	l.of[user]++
	return true
}

func (l *listeners) leave(user int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[user]--; l.of[user] == 0 {
		delete(l.of, user)
	}
}

// stream writes server-sent events; after a first failure it writes nothing more.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

func (s *stream) send(event string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		s.err = err
		return
	}
	s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, b))
}

func (s *stream) comment() { s.write(":\n\n") }

func (s *stream) write(text string) {
	if s.err == nil {
		if s.err = s.rc.SetWriteDeadline(time.Now().Add(eventLimit)); s.err == nil {
			if _, s.err = s.w.Write([]byte(text)); s.err == nil {
				s.err = s.rc.Flush()
			}
		}
	}
}
