package experiments

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runLoad measures the same stall with two load tests. A purchase is one statement on one row. After 0.4 s another
// transaction holds the row for 0.3 s, as a forgotten transaction or a long lock does. Both tests plan a click every 2
// ms.
//
// Closed loop: one user clicks, waits for the reply, and clicks again. In the stall this user sends one click and
// waits. The 150 buyers whose clicks were planned in that time are never sent, so no one measures how long they would
// have waited. One slow click among hundreds is less than one in a hundred, and p99 is that of a shop without a stall.
// This is called coordinated omission: the test stops asking just when the shop is slow.
//
// The second row is the same run, counted again: a click that took longer than the plan's pause stands for the clicks
// that it kept from being sent, each of which would have waited 2 ms less than the one before.
//
// Open loop: the clicks are sent when they are planned, whatever the shop does, as buyers do. Each wait is counted from
// the planned time. No correction is needed.
//
// The figures are asked: clicks that were counted; late: those that waited for more than 100 ms; p50_ms, p99_ms,
// longest_ms: their waits.
func runLoad(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table item (sold int not null); insert into item values (0)`, loadConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	var closed *loadTest
	return tryAll(ctx, []variant{
		{"closed loop", paced(func(ctx context.Context) (_ Finding, err error) {
			closed, err = testLoad(ctx, w.db, clickAfterReply)
			row := closed.finding()
			if row.Figures["asked"] <= 100 { // so few that the one slow click is the slowest hundredth
				row.Verdict = Busy
			}
			return row, err
		})},
		{"the same run, with the clicks that it left out", func(context.Context) (Finding, error) {
			return closed.corrected().finding(), nil
		}},
		{"open loop", paced(func(ctx context.Context) (Finding, error) {
			open, err := testLoad(ctx, w.db, clickOnTime)
			return open.finding(), err
		})},
	})
}

const (
	loadTime    = 1500 * time.Millisecond
	loadPause   = 2 * time.Millisecond // from one planned click to the next
	loadStallAt = 400 * time.Millisecond
	loadStall   = 300 * time.Millisecond
	loadLate    = 100 * time.Millisecond
	loadSlice   = 10 * time.Millisecond // the drawing has the longest wait in each
	loadConns   = 8
)

// loadTest is what a load test has measured.
type loadTest struct {
	began time.Time
	buy   func() error
	mu    sync.Mutex
	waits []loadWait
}

// loadWait is the wait of one click. planned is the time since the test began.
type loadWait struct{ planned, took time.Duration }

// testLoad sends clicks, and stalls the row meanwhile.
func testLoad(ctx context.Context, db *pgxpool.Pool, click func(context.Context, *loadTest) error) (*loadTest, error) {
	l := &loadTest{began: time.Now()}
	l.buy = func() error {
		_, err := db.Exec(ctx, `update item set sold = sold + 1`)
		return err
	}
	show(ctx, func() map[string]float64 { return l.finding().Figures })
	locker, err := db.Begin(ctx)
	if err != nil {
		return l, err
	}
	var both errgroup.Group
	both.Go(func() error {
		lab.Pause(ctx, loadStallAt)
		_, err := locker.Exec(ctx, `update item set sold = sold`)
		lab.Pause(ctx, loadStall)
		return errors.Join(err, locker.Commit(ctx))
	})
	both.Go(func() error { return click(ctx, l) })
	return l, errors.Join(both.Wait(), ctx.Err())
}

// clickAfterReply is the closed loop.
func clickAfterReply(ctx context.Context, l *loadTest) error {
	//lab:here
	for time.Since(l.began) < loadTime && ctx.Err() == nil {
		sent := time.Now()
		if err := l.buy(); err != nil {
			return err
		}
		l.count(sent.Sub(l.began), time.Since(sent))
		lab.Pause(ctx, loadPause-time.Since(sent))
	}
	//lab:end
	return nil
}

// clickOnTime is the open loop.
func clickOnTime(ctx context.Context, l *loadTest) error {
	var clicks errgroup.Group
	//lab:here
	for planned := time.Duration(0); planned < loadTime && ctx.Err() == nil; planned += loadPause {
		lab.Pause(ctx, planned-time.Since(l.began))
		clicks.Go(func() error {
			err := l.buy()
			l.count(planned, time.Since(l.began)-planned)
			return err
		})
	}
	//lab:end
	return clicks.Wait()
}

func (l *loadTest) count(planned, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, loadWait{planned, took})
}

// corrected returns the test with the clicks that a closed loop has left out.
func (l *loadTest) corrected() *loadTest {
	all := new(loadTest)
	for _, w := range l.waits {
		//lab:here
		for ; w.took > 0; w = (loadWait{w.planned + loadPause, w.took - loadPause}) {
			all.waits = append(all.waits, w)
		}
		//lab:end
	}
	return all
}

func (l *loadTest) finding() Finding {
	l.mu.Lock()
	waits := slices.Clone(l.waits)
	l.mu.Unlock()
	var took []time.Duration
	var longest [loadTime/loadSlice + 1][2]float64
	for i := range longest {
		longest[i][0] = lab.Millis(time.Duration(i) * loadSlice)
	}
	late := 0
	for _, w := range waits {
		took = append(took, w.took)
		if slice := &longest[min(w.planned, loadTime)/loadSlice]; slice[1] < inMS(w.took) {
			slice[1] = inMS(w.took)
		}
		if w.took > loadLate {
			late++
		}
	}
	p99 := lab.Percentile(took, 99)
	return Finding{Verdict: verdict(p99 > loadStall/2, Wrong), Series: []Series{{"longest_ms", longest[:]}},
		Span: &Span{"stall", lab.Millis(loadStallAt), lab.Millis(loadStallAt + loadStall)},
		Figures: map[string]float64{"asked": float64(len(waits)),
			"late": float64(late), "p50_ms": inMS(lab.Percentile(took, 50)), "p99_ms": inMS(p99),
			"longest_ms": inMS(lab.Percentile(took, 100))}}
}

// inMS returns a time in milliseconds, to a tenth.
func inMS(d time.Duration) float64 { return lab.Round(d.Seconds()*1000, 1) }
