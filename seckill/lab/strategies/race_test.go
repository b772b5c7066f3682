package strategies

import (
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
)

func race(t *testing.T, strategy string, seed uint64) (lab.Recording, error) {
	labtest.ParallelRuns <- struct{}{}
	defer func() { <-labtest.ParallelRuns }()
	return Race(t.Context(), labtest.Stores(t), strategy, seed)
}

// A race shows a strategy's verdict: two clicks, every statement, the replies.
func TestRacesShowTheVerdict(t *testing.T) {
	t.Parallel()
	for _, info := range All() {
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel()
			rec, err := race(t, info.Name, 1)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Right != info.Right {
				t.Errorf("right is %v, of a strategy whose verdict is %v: %+v", rec.Right, info.Right, rec)
			}
			if rec.Tries < 1 || rec.Seed != uint64(rec.Tries) {
				t.Errorf("%d tries from seed 1 to %d", rec.Tries, rec.Seed)
			}
			kinds := map[string]int{}
			for i, s := range rec.Steps {
				kinds[s.Kind]++
				if s.Text == "" || strings.Contains(s.Text, "\n") {
					t.Errorf("the text of step %d is not one line: %+v", i, s)
				}
				if s.Buyer < 1 || s.Buyer > 2 {
					t.Errorf("step %d has another buyer: %+v", i, s)
				}
				if i > 0 && s.At < rec.Steps[i-1].At {
					t.Errorf("step %d is out of order: %+v", i, s)
				}
			}
			if kinds["answer"] < 2 || kinds["code"] < 1 {
				t.Errorf("replies or code are missing: %v", kinds)
			}
			if (kinds["redis"] > 0) != (info.Store != "postgres") {
				t.Errorf("a strategy on %s has the steps %v", info.Store, kinds)
			}
		})
	}
}

// The steps contain the values read: both buyers of an oversold unit have read the same 1.
func TestARaceShowsTheValuesRead(t *testing.T) {
	t.Parallel()
	rec, err := race(t, "read-then-write", 1)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, s := range rec.Steps {
		if s.Text == "select stock from item" && s.Result == "1" {
			read++
		}
	}
	if read != 2 || rec.Sold != 2 {
		t.Errorf("%d buyers read a 1, %d units are sold: %+v", read, rec.Sold, rec.Steps)
	}
}
