package watch

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"miaosha/seckill/alive"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
)

const (
	calmEvery = time.Second            // how often a gate is read at which nothing happens
	calmFor   = 2 * time.Second        // how long such a reading is believed
	movingFor = 4 * Every              // how long another one is
	readerFor = 400 * time.Millisecond // a process reads for the others for as long after its last publication
	// how often the entries of a journal are counted that has none as far as its gate knows
	countEvery = 5 * time.Second
	forgetFor  = 30 * time.Second // after so long the publication of a process that is gone is removed
)

// Readings has the gates as this process, or another one, has read them. Each gate has one reader among the processes
// that publish: the one with the highest hash of its name and the sale. It reads the gate at each tick, or once a
// second while nothing happens there, and publishes all that it reads as one value. So the reads grow with the sales
// and not with the processes.
//
// No process waits for a reader. A reading that is too old counts as not read, and this process reads that gate itself,
// in the same tick. The age counts from a time of Redis that the reader asked for before it read, to one that this
// process has asked for: so a reader that stops between its read and its publication, for however long, publishes what
// no process believes. A reading that seems older than what this process knows of the gate is not believed either: it
// reads the gate itself. Two readers of one gate do no harm.
//
// One goroutine calls Read, Reads, Forget and Leave, and sets the fields.
type Readings struct {
	Facts   *Facts
	Rows    bool           // the last tick has read the rows: this process can repair, so it may be a reader
	Stirred map[int64]bool // at the last tick the sale's row had changed, or its gate needed a repair

	gate  *gate.Gate
	name  string // of this process
	fault func(doing string, err error)

	bySale map[int64]Reading
	others map[string]string // what each other process that publishes has published last
	mine   map[int64]bool    // whether this process is the reader of a sale, among those in others
	stamp  time.Time         // of this process's last publication; zero: Redis need not have one

	mu   sync.Mutex
	also []int64           // sales whose gates are read too: those that may have a journal
	left map[int64]Reading // of the last tick; nil if it could not read
}

// Reading is a gate as a process has read it.
type Reading struct {
	gate.State
	Own bool // this process has read it in this tick

	at      time.Time // by the clock of Redis, before it was read
	calm    bool      // nothing had happened since the reading before
	until   time.Time // till then it is believed, by this process's own clock
	counted time.Time // when the entries of its journal were counted, by the same
}

// NewReadings returns the Readings of the process with this name, and its Facts. fault logs what Redis did not do.
func NewReadings(g *gate.Gate, name string, fault func(doing string, err error)) *Readings {
	return &Readings{Facts: newFacts(), Rows: true, gate: g, name: name, fault: fault, mine: map[int64]bool{}}
}

// Read returns the gates of sales, and publishes those of which this process is the reader. must says which gates this
// process has to read itself. A gate that cannot be read is left out; after an error of Redis no former reading is
// believed.
func (r *Readings) Read(ctx context.Context, sales []int64, must func(sale int64) bool) (map[int64]Reading, error) {
	gates, err := r.tick(ctx, r.andAlso(sales), must)
	if err != nil {
		r.Forget()
	} else {
		r.Facts.compare(gates)
	}
	r.show(gates)
	return gates, err
}

// Forget makes the next Read read all gates itself.
func (r *Readings) Forget() { r.bySale, r.stamp = nil, time.Time{} }

func (r *Readings) tick(ctx context.Context, sales []int64, must func(sale int64) bool) (map[int64]Reading, error) {
	began := time.Now()
	now, published, err := r.gate.Published(ctx)
	if err != nil {
		return nil, err
	}
	r.hear(ctx, now, published)
	gates, ask := make(map[int64]Reading, len(sales)), []int64(nil)
	for _, sale := range sales {
		if r.asks(sale, now, must) {
			ask = append(ask, sale)
		} else {
			gates[sale] = r.bySale[sale]
		}
	}
	counts := func(sale int64) bool {
		was := r.bySale[sale]
		return was.Entries > 0 || began.Sub(was.counted) > countEvery
	}
	read, err := r.gate.Read(ctx, ask, counts)
	if err != nil {
		return nil, err
	}
	for sale, g := range read {
		was := r.bySale[sale]
		is := Reading{State: g, at: now, Own: true, counted: was.counted}
		is.calm = was.State == g && g.InFlight == 0 && !was.at.IsZero() && !r.Stirred[sale]
		if counts(sale) {
			is.counted = began
		}
		gates[sale] = is
	}
	for sale, g := range gates {
		g.until = began.Add(g.believedFor() - now.Sub(g.at))
		gates[sale] = g
	}
	r.bySale = gates
	body := r.body(sales)
	if body != "" && failpoint.Hit(failpoint.BeforePublish) != nil {
		return gates, nil
	}
	if r.Rows {
		err := r.gate.Publish(ctx, r.name, strconv.FormatInt(now.UnixMicro(), 10)+"\n"+body)
		if r.stamp = now; err != nil { // out of memory, perhaps: then each process reads for itself
			r.stamp = time.Time{}
			r.fault("publish", err)
		}
	}
	return gates, nil
}

// asks reports whether this process reads a gate itself in this tick.
func (r *Readings) asks(sale int64, now time.Time, must func(int64) bool) bool {
	g, has := r.bySale[sale]
	age := now.Sub(g.at)
	switch {
	case !has, age < 0, age > g.believedFor(), must(sale), r.Facts.Back(sale, g.State):
		return true
	case !r.Reads(sale):
		return false
	}
	return !g.calm || r.Stirred[sale] || age >= calmEvery
}

func (g Reading) believedFor() time.Duration {
	if g.calm {
		return calmFor
	}
	return movingFor
}

// Reads reports whether this process is the reader of a sale: of all that publish it has the highest hash.
func (r *Readings) Reads(sale int64) bool {
	is, known := r.mine[sale]
	if !known {
		is = alive.Highest(r.name, strconv.FormatInt(sale, 10), maps.Keys(r.others))
		r.mine[sale] = is
	}
	return is
}

// hear takes in what the other processes have published, each gate's newest reading. A Redis that has gone back, or has
// lost all, shows it by this process's own publication. Then, and after an error, this process hears no other one in
// this tick, and reads all gates itself: no reading of before that is believed, because it is older.
func (r *Readings) hear(ctx context.Context, now time.Time, published map[string]string) {
	if stamp, _, _ := cutStamp(published[r.name]); r.bySale == nil || r.stamp.IsZero() || !stamp.Equal(r.stamp) {
		r.bySale, r.others, r.mine = map[int64]Reading{}, map[string]string{}, map[int64]bool{}
		return
	}
	for sale, g := range r.bySale {
		g.Own = false
		r.bySale[sale] = g
	}
	heard, gone := map[string]string{}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(published)) {
		stamp, body, ok := cutStamp(published[name])
		age := now.Sub(stamp)
		switch {
		case name == r.name:
			continue
		case !ok || age < 0 || age > forgetFor: // from the future: the clock of Redis went back, and so may Redis
			gone = append(gone, name)
			continue
		case age > readerFor:
			continue
		}
		if was, had := r.others[name]; !had || was != body {
			gates, ok := parseReadings(body)
			if !ok { // of a release with another form
				continue
			}
			r.take(now, gates)
		}
		heard[name] = body
	}
	if !maps.EqualFunc(heard, r.others, func(_, _ string) bool { return true }) {
		r.mine = map[int64]bool{}
	}
	r.others = heard
	if len(gone) > 0 {
		_ = r.gate.Unpublish(ctx, gone...) // if it fails, another tick does it
	}
}

// take keeps the readings that are newer than what this process has. After a failover the clock of Redis may be behind.
func (r *Readings) take(now time.Time, gates map[int64]Reading) {
	for sale, g := range gates {
		if was := r.bySale[sale]; g.at.After(was.at) || was.at.After(now) {
			r.bySale[sale] = g
		}
	}
}

// body returns the readings of those sales of which this process is the reader, a line each.
func (r *Readings) body(sales []int64) string {
	var b []byte
	for _, sale := range sales {
		g, has := r.bySale[sale]
		if !has || !r.Reads(sale) {
			continue
		}
		calm := int64(0)
		if g.calm {
			calm = 1
		}
		for _, n := range [...]int64{sale, g.at.UnixMicro(), calm, g.Epoch, g.Ops, int64(g.Stock), int64(g.InFlight),
			int64(g.Entries), g.Known, g.Seeded} {
			b = append(strconv.AppendInt(b, n, 10), ' ')
		}
		b = append(b, '\n')
	}
	return string(b)
}

func parseReadings(body string) (gates map[int64]Reading, ok bool) {
	gates = map[int64]Reading{}
	for line := range strings.Lines(body) {
		var n [10]int64
		i := 0
		for word := range strings.FieldsSeq(line) {
			if i == len(n) {
				return nil, false
			}
			number, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, false
			}
			n[i], i = number, i+1
		}
		if i < len(n) {
			return nil, false
		}
		gates[n[0]] = Reading{at: time.UnixMicro(n[1]), calm: n[2] == 1,
			State: gate.State{Epoch: n[3], Ops: n[4], Stock: int(n[5]), InFlight: int(n[6]), Entries: int(n[7]),
				Known: n[8], Seeded: n[9]}}
	}
	return gates, true
}

func cutStamp(text string) (stamp time.Time, body string, ok bool) {
	first, body, ok := strings.Cut(text, "\n")
	micros, err := strconv.ParseInt(first, 10, 64)
	if err != nil || !ok {
		return time.Time{}, "", false
	}
	return time.UnixMicro(micros), body, true
}

// andAlso adds the sales that reclaim asks for.
func (r *Readings) andAlso(sales []int64) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(slices.Clone(sales), r.also...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *Readings) show(gates map[int64]Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = maps.Clone(gates)
}

// WithEntries returns those of the sales whose journals may have entries, and has the gates of all of them read from
// now on.
func (r *Readings) WithEntries(sales []int64) (with []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.also = slices.Clone(sales)
	for _, sale := range sales {
		if g, known := r.left[sale]; !known || g.Entries > 0 {
			with = append(with, sale)
		}
	}
	return with
}

// InFlight returns the tickets in each journal, or false if the last tick could not read.
func (r *Readings) InFlight() (bySale map[int64]int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bySale = make(map[int64]int, len(r.left))
	for sale, g := range r.left {
		bySale[sale] = g.InFlight
	}
	return bySale, r.left != nil
}

// Leave removes what this process has published, so that the others read its sales at once.
func (r *Readings) Leave(ctx context.Context) error {
	if r.stamp.IsZero() {
		return nil
	}
	return r.gate.Unpublish(ctx, r.name)
}
