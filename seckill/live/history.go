package live

import (
	"math"
	"time"
)

// What a point of the history has. Rates are per second; a figure that was not known is NaN, never zero.
const (
	rateRequests = iota // buy requests
	rateRefused         // buy requests that were refused
	rateTickets
	rateOrders
	ratePaid
	unitsLeft
	oldestMS
	buyP99
	redisP99
	postgresP99
	pointSize
)

// pointNames are the names in JSON, in the same order.
var pointNames = [pointSize]string{"requests", "refused", "tickets", "orders", "paid", "left", "oldest_ms", "buy_p99",
	"redis_p99", "postgres_p99"}

type point [pointSize]float32

// steps of the history: each second of the last ten minutes, each ten seconds of two hours, each minute of a day.
var levels = [...]struct {
	step time.Duration
	keep int // points
}{{time.Second, 600}, {10 * time.Second, 720}, {time.Minute, 1440}}

// series is the history of one scope. Its memory is bounded by levels: 120 kB.
type series struct{ levels [len(levels)]level }

type level struct {
	points []timedPoint // oldest first
	open   gathered     // the step that has not ended
}

type timedPoint struct {
	at int64 // Unix seconds of the step's begin
	point
}

// gathered are the points of one step.
type gathered struct {
	at    int64
	known [pointSize]float32 // how many were known
	point                    // sums of rates; of the others the last, or the highest
}

// add adds the point of a second to every level.
func (s *series) add(now time.Time, p point) {
	for i := range s.levels {
		l, step := &s.levels[i], int64(levels[i].step/time.Second)
		if at := now.Unix() / step * step; at != l.open.at {
			if l.open.at != 0 {
				if len(l.points) == levels[i].keep {
					l.points = append(l.points[:0], l.points[1:]...)
				}
				l.points = append(l.points, l.open.close())
			}
			l.open = gathered{at: at}
		}
		l.open.add(p)
	}
}

func (g *gathered) add(p point) {
	for i, v := range p {
		if math.IsNaN(float64(v)) {
			continue
		}
		g.known[i]++
		switch {
		case i <= ratePaid:
			g.point[i] += v
		case i == unitsLeft:
			g.point[i] = v
		default:
			g.point[i] = max(g.point[i], v)
		}
	}
}

// close returns the mean of the rates, the last units left, and the highest of the others.
func (g gathered) close() timedPoint {
	for i, n := range g.known {
		if n == 0 {
			g.point[i] = float32(math.NaN())
		} else if i <= ratePaid {
			g.point[i] /= n
		}
	}
	return timedPoint{g.at, g.point}
}

// all returns the history, oldest first: of each time the finest step that is kept, and the open second.
func (s *series) all() (points []timedPoint) {
	for i := len(levels) - 1; i >= 0; i-- {
		finer := int64(math.MaxInt64) // where the finer level begins
		for j := range i {
			if ps := s.levels[j].points; len(ps) > 0 {
				finer = min(finer, ps[0].at)
			}
		}
		step := int64(levels[i].step / time.Second)
		for _, p := range s.levels[i].points {
			if p.at+step <= finer || i == 0 {
				points = append(points, p)
			}
		}
	}
	if open := s.levels[0].open; open.at != 0 {
		points = append(points, open.close())
	}
	return points
}

// history is what a page gets of it: columns, with null for what was not known.
type history struct {
	At      []int64               `json:"at"` // Unix seconds
	Columns map[string][]*float32 `json:"columns"`
}

func (s *series) history() history {
	points := s.all()
	h := history{make([]int64, len(points)), map[string][]*float32{}}
	for c, name := range pointNames {
		column := make([]*float32, len(points))
		for i := range points {
			h.At[i] = points[i].at
			if v := points[i].point[c]; !math.IsNaN(float64(v)) {
				column[i] = &v
			}
		}
		h.Columns[name] = column
	}
	return h
}
