package web

// tally counts what holders have, and knows how much the one has that has most, without a search.
type tally[K comparable] struct {
	of   map[K]int
	with []int // with[n]: holders that have n, for n of 1 and more
	most int   // the largest n with such a holder
}

func newTally[K comparable]() tally[K] { return tally[K]{of: map[K]int{}, with: []int{0}} }

// count adds one to what a holder has, or takes one away: by is 1 or -1.
func (t *tally[K]) count(holder K, by int) {
	was := t.of[holder]
	is := was + by
	if t.of[holder] = is; is == 0 {
		delete(t.of, holder)
	}
	if is == len(t.with) {
		t.with = append(t.with, 0)
	}
	t.with[was]--
	t.with[is]++
	if is > t.most || was == t.most && t.with[was] == 0 {
		t.most = is
	}
}
