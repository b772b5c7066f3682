package web

import (
	crand "crypto/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/seckill/alike"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/purpose"
)

const (
	maxClasses  = 8
	maxStudents = 100 // of a class
	// without a look at the page of the class or a request to the lab: a student writes a program meanwhile
	seatLeft   = 10 * time.Minute
	codeLength = 5
	// Digits and capitals that no one takes for another one, neither in print nor read aloud: no 0, O, 1, I, and no B,
	// L, S, Z.
	codeLetters = "23456789ACDEFGHJKMNPQRTUVWXY"
)

// classLife is the life of a class, its code and its seats.
var classLife = purpose.Seat.Life

const seatCookie = "class" // has the token of the browser's seat

// classes are the lessons that administrators hold in this sandbox. They live in the memory of the process and end with
// it.
type classes struct {
	mu  sync.Mutex
	all []*class // the oldest first
}

// class is one lesson: students join it by its code, and its board shows who has solved which exercise.
type class struct {
	code, title    string
	key            classKey   // of the request that opened it
	opened, closed time.Time  // closed is zero while students may join and solve
	locked         bool       // no new name may join
	students       []*student // in the order in which they joined
	removed        []string   // the tokens of the last seats that were taken away: their holders are told
	joined         int        // so far; the id of the last one
	run            *labJob    // the last one that the board shows; nil for none
}

// classKey is the key of a request of a user; the zero classKey is none. See README.md, A request that is sent twice.
type classKey struct {
	user int64
	key  uuid.UUID
}

type student struct {
	id     int
	key    uuid.UUID // of the request that added the seat
	name   string
	looks  alike.Looks // of the name
	token  string      // of the student's browser
	joined time.Time
	from   origin         // of the request that added the seat
	seen   time.Time      // when its browser asked last
	work   []exerciseWork // in the order of the first tries
}

// exerciseWork is what a student has done at one exercise.
type exerciseWork struct {
	Exercise string `json:"exercise"`
	Tries    int    `json:"tries"` // runs until the first that solved it
	Solved   bool   `json:"solved"`
	SolvedAt string `json:"solved_at,omitempty"`
	// of the cheapest run that solved it: fewest SQL per order, then most clicks per second
	Cost *exerciseCost `json:"cost,omitempty"`
}

// exerciseCost is what a run of an exercise cost, as lab.Result has it.
type exerciseCost struct {
	SQLPerOrder float64 `json:"sql_per_order"`
	PerSecond   float64 `json:"per_second"` // clicks
}

// studentView is a student as the board shows one.
type studentView struct {
	ID        int            `json:"id"`
	Nickname  string         `json:"nickname"`
	JoinedAt  string         `json:"joined_at"`
	Exercises []exerciseWork `json:"exercises"`
}

// classView is a class as its teacher sees it.
type classView struct {
	Code     string        `json:"code"`
	Title    string        `json:"title"`
	OpenedAt string        `json:"opened_at"`
	ClosedAt string        `json:"closed_at,omitempty"`
	Locked   bool          `json:"locked"`
	Students []studentView `json:"students"`
	Crowd    *seatCrowd    `json:"crowd,omitempty"`
	run      *labJob
}

// seatCrowd is the address from which most of the seats without work were taken.
type seatCrowd struct {
	Seats   int `json:"seats"`
	Student int `json:"student"` // of one of them
}

// seatView is what a student sees of the own class.
type seatView struct {
	Code     string       `json:"code"`
	Title    string       `json:"title"`
	Closed   bool         `json:"closed"`
	Students int          `json:"students"`
	Removed  bool         `json:"removed,omitempty"` // the seat was taken away; then there is no student
	Ladder   []ladderStep `json:"ladder"`
	studentView
}

// ladderStep is an exercise of the lab as a class shows it.
type ladderStep struct {
	Name  string         `json:"name"`
	Title exercises.Text `json:"title"`
}

// ladder returns all exercises in their order.
func ladder() (steps []ladderStep) {
	for _, e := range exercises.Ladder() {
		steps = append(steps, ladderStep{e.Name, e.Title})
	}
	return steps
}

// open opens a class; with a key that has opened one, it returns that, or an admin.DoneOtherwiseError if it has another
// title. A class of a day ago ends then, and a closed one if there is no other room. It returns errClassesFull if
// maxClasses are open.
func (c *classes) open(title string, key classKey, now time.Time) (classView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		switch {
		case key.key == uuid.Nil || one.key != key:
		case one.title != title:
			return classView{}, admin.DoneOtherwiseError{Action: "class.open", Subject: "class " + one.code}
		default:
			return one.view(), nil
		}
	}
	c.all = slices.DeleteFunc(c.all, func(old *class) bool { return now.Sub(old.opened) > classLife })
	if len(c.all) >= maxClasses {
		i := slices.IndexFunc(c.all, func(old *class) bool { return !old.closed.IsZero() })
		if i < 0 {
			return classView{}, errClassesFull
		}
		c.all = slices.Delete(c.all, i, i+1)
	}
	code := newClassCode()
	for c.find(code) != nil {
		code = newClassCode()
	}
	opened := &class{code: code, title: title, key: key, opened: now}
	c.all = append(c.all, opened)
	return opened.view(), nil
}

func newClassCode() string {
	code := make([]byte, codeLength)
	for i := range code {
		code[i] = codeLetters[rand.IntN(len(codeLetters))]
	}
	return string(code)
}

// find returns the class with this code, or nil. The caller has locked c.
func (c *classes) find(code string) *class {
	for _, one := range c.all {
		if one.code == code {
			return one
		}
	}
	return nil
}

// list returns all classes, the newest first, without their students.
func (c *classes) list() []classView {
	c.mu.Lock()
	defer c.mu.Unlock()
	views := []classView{}
	for _, one := range slices.Backward(c.all) {
		v := one.view()
		v.Students = nil
		views = append(views, v)
	}
	return views
}

// board returns a class, or errNoPage.
func (c *classes) board(code string) (classView, error) {
	return c.change(code, func(*class) error { return nil })
}

// change runs do with a class and returns the class after it, or errNoPage.
func (c *classes) change(code string, do func(*class) error) (classView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.find(code)
	if one == nil {
		return classView{}, errNoPage
	}
	if err := do(one); err != nil {
		return classView{}, err
	}
	return one.view(), nil
}

// close ends a class: no one joins it and solves in it any more. Its board stays.
func (c *classes) close(code string, now time.Time) (classView, error) {
	return c.change(code, func(one *class) error {
		if one.closed.IsZero() {
			one.closed = now
		}
		return nil
	})
}

// lock lets no new name into a class, or lets them in again. Those who are in go on.
func (c *classes) lock(code string, locked bool) (classView, error) {
	return c.change(code, func(one *class) error {
		one.locked = locked
		return nil
	})
}

// remove takes a student off a class, and with idle also each seat without work that was taken from the student's
// address. Their browsers are told. They may join again.
func (c *classes) remove(code string, id int, idle bool) (classView, error) {
	return c.change(code, func(one *class) error {
		i := slices.IndexFunc(one.students, func(s *student) bool { return s.id == id })
		if i < 0 {
			return fieldError{"student", "value"}
		}
		from := one.students[i].from
		one.free(func(s *student) bool { return s.id == id || idle && len(s.work) == 0 && s.from == from })
		return nil
	})
}

// free takes the seats away for which gone returns true.
func (one *class) free(gone func(*student) bool) {
	one.students = slices.DeleteFunc(one.students, func(s *student) bool {
		if !gone(s) {
			return false
		}
		one.removed = append(one.removed[max(0, len(one.removed)+1-maxStudents):], s.token)
		return true
	})
}

// makeRoom takes a seat of a full class away for a newcomer: the one whose browser was away longest, if that is
// seatLeft, and else one of the network or the address that has more than its share, see givesWay. A seat with work is
// never taken away. It reports whether there is room.
func (one *class) makeRoom(from origin, now time.Time) bool {
	if len(one.students) < maxStudents {
		return true
	}
	var idle []*student
	taken := newShares()
	var left *student
	for _, s := range one.students {
		if len(s.work) > 0 {
			continue
		}
		idle = append(idle, s)
		taken.count(s.from, 1)
		if now.Sub(s.seen) >= seatLeft && (left == nil || s.seen.Before(left.seen)) {
			left = s
		}
	}
	if i := taken.givesWay(len(idle), func(i int) origin { return idle[i].from }, from); left == nil && i >= 0 {
		left = idle[i]
	}
	if left == nil {
		return false
	}
	one.free(func(s *student) bool { return s == left })
	return true
}

// show puts a run on the board of a class.
func (c *classes) show(code string, run *labJob) (classView, error) {
	return c.change(code, func(one *class) error {
		one.run = run
		return nil
	})
}

// join adds a seat for the browser with the token to an open class, under a name that looks like none that the class
// has, and returns the token of the seat: a new one unless this browser has this name there already. A browser whose
// answer was lost has no token: its key finds the seat, and a name that was changed meanwhile is the seat's then. In a
// full class another seat may have to make room. It returns errNoClass, errClassLocked and errClassFull.
func (c *classes) join(code, name, token string, key uuid.UUID, from origin, now time.Time) (string, seatView, error) {
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.find(code)
	if one == nil || !one.closed.IsZero() {
		return "", seatView{}, errNoClass
	}
	looks := alike.LooksOf(name)
	for _, s := range one.students {
		if s.looks.Like(looks) {
			if s.token == token || key != uuid.Nil && s.key == key {
				return s.token, one.seat(s), nil
			}
			return "", seatView{}, fieldError{"nickname", "taken"}
		}
	}
	if one.locked {
		return "", seatView{}, errClassLocked
	}
	if i := slices.IndexFunc(one.students, func(s *student) bool { return key != uuid.Nil && s.key == key }); i >= 0 {
		one.students[i].name, one.students[i].looks = name, looks
		return one.students[i].token, one.seat(one.students[i]), nil
	}
	if !one.makeRoom(from, now) {
		return "", seatView{}, errClassFull
	}
	one.joined++
	s := &student{id: one.joined, name: name, looks: looks, key: key, token: crand.Text(), joined: now,
		from: from, seen: now}
	one.students = append(one.students, s)
	return s.token, one.seat(s), nil
}

// seatOf returns the class and the student of a token; nil if there is none. The caller has locked c.
func (c *classes) seatOf(token string) (*class, *student) {
	if token == "" {
		return nil, nil
	}
	for _, one := range c.all {
		for _, s := range one.students {
			if s.token == token {
				return one, s
			}
		}
	}
	return nil, nil
}

// attend notes that the browser with the token is there: it asks the lab, or for what became of its run.
func (c *classes) attend(token string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, s := c.seatOf(token); s != nil {
		s.seen = now
	}
}

// seat returns what the student with the token sees; nil if there is none.
func (c *classes) seat(token string, now time.Time) *seatView {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, s := c.seatOf(token)
	if s != nil {
		s.seen = now
		v := one.seat(s)
		return &v
	}
	i := slices.IndexFunc(c.all, func(one *class) bool { return slices.Contains(one.removed, token) })
	if i < 0 {
		return nil
	}
	return &seatView{Code: c.all[i].code, Title: c.all[i].title, Closed: !c.all[i].closed.IsZero(), Removed: true,
		Ladder: []ladderStep{}}
}

// judged notes on the board that the lab has judged a run of an exercise, which a browser with this token (see
// classToken) has asked for. Without a seat in an open class it does nothing, and reports whether the browser had one
// that was taken away. Only the server calls it: no browser says what it has solved.
func (c *classes) judged(token, exercise string, solved bool, cost exerciseCost) (lost bool) {
	return c.judgedAt(token, exercise, solved, cost, time.Now())
}

func (c *classes) judgedAt(token, exercise string, solved bool, cost exerciseCost, now time.Time) (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, s := c.seatOf(token)
	if s == nil {
		return slices.ContainsFunc(c.all, func(one *class) bool {
			return one.closed.IsZero() && slices.Contains(one.removed, token)
		})
	}
	if !one.closed.IsZero() {
		return false
	}
	i := slices.IndexFunc(s.work, func(w exerciseWork) bool { return w.Exercise == exercise })
	if i < 0 {
		i, s.work = len(s.work), append(s.work, exerciseWork{Exercise: exercise})
	}
	w := &s.work[i]
	if !w.Solved {
		w.Tries++
	}
	if !solved {
		return false
	}
	if !w.Solved {
		w.Solved, w.SolvedAt = true, formatTime(now)
	}
	if w.Cost == nil || cost.cheaper(*w.Cost) {
		w.Cost = &cost
	}
	return false
}

func (c exerciseCost) cheaper(than exerciseCost) bool {
	if c.SQLPerOrder != than.SQLPerOrder {
		return c.SQLPerOrder < than.SQLPerOrder
	}
	return c.PerSecond > than.PerSecond
}

func (one *class) view() classView {
	v := classView{Code: one.code, Title: one.title, OpenedAt: formatTime(one.opened), Locked: one.locked,
		Students: []studentView{}, Crowd: one.crowd(), run: one.run}
	if !one.closed.IsZero() {
		v.ClosedAt = formatTime(one.closed)
	}
	for _, s := range one.students {
		v.Students = append(v.Students, s.view())
	}
	return v
}

// crowd returns the address from which most of the seats without work were taken; nil if none has two.
func (one *class) crowd() *seatCrowd {
	idle, most := map[origin]int{}, seatCrowd{Seats: 1}
	for _, s := range one.students {
		if len(s.work) == 0 {
			if idle[s.from]++; idle[s.from] > most.Seats {
				most = seatCrowd{idle[s.from], s.id}
			}
		}
	}
	if most.Student == 0 {
		return nil
	}
	return &most
}

func (one *class) seat(s *student) seatView {
	return seatView{Code: one.code, Title: one.title, Closed: !one.closed.IsZero(), Students: len(one.students),
		Ladder: ladder(), studentView: s.view()}
}

// view returns a copy: the student goes on.
func (s *student) view() studentView {
	return studentView{s.id, s.name, formatTime(s.joined), append([]exerciseWork{}, s.work...)}
}
