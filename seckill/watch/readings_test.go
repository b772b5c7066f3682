package watch

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miaosha/seckill/gate"
)

// reader is a process that reads gates and does nothing else.
type reader struct {
	*testing.T
	*Readings
	asked map[string]int // commands that Redis has carried out, by name
	hold  string         // a command whose reply is held back
	held  chan struct{}  // until this is closed
	sales []int64
}

// readersOf returns so many processes with the gates of so many sales, in a Redis of their own.
func readersOf(t *testing.T, processes, sales int) (s *miniredis.Miniredis, all []*reader) {
	s = miniredis.NewMiniRedis()
	t.Cleanup(s.Close)
	ids := []int64{}
	for sale := range int64(sales) {
		ids = append(ids, sale+1)
		setGate(s, sale+1, "epoch", 1, "ops", 10, "stock", 5, "in_flight", 0, "seeded", 1)
	}
	for n := range processes {
		r := &reader{T: t, asked: map[string]int{}, sales: ids}
		rdb := redis.NewClient(&redis.Options{Protocol: 2, DisableIdentity: true, ConnMaxIdleTime: -1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				c, err := s.Dial()
				return pipe{c}, err
			}})
		rdb.AddHook(r)
		t.Cleanup(func() { rdb.Close() })
		name := fmt.Sprint("p", n)
		r.Readings = NewReadings(gate.New(rdb, name, time.Second).Background(), name, func(doing string, err error) { t.Error(doing, err) })
		all = append(all, r)
	}
	return s, all
}

// pipe is a connection to a Redis in this process. A pipe holds nothing, so a client that waited until its pipeline is read would wait
// for a server that waits until its replies are read.
type pipe struct{ net.Conn }

func (p pipe) Write(b []byte) (int, error) {
	go p.Conn.Write(bytes.Clone(b))
	return len(b), nil
}

func (r *reader) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *reader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.replied(cmd)
		return err
	}
}

func (r *reader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		r.replied(cmds...)
		return err
	}
}

// replied counts commands, and holds the reply back if it is to be.
func (r *reader) replied(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if r.asked[cmd.Name()]++; cmd.Name() == r.hold {
			<-r.held
		}
	}
}

const readingsKey = "ms:{shop}:readings"

func setGate(s *miniredis.Miniredis, sale int64, fields ...any) {
	setHash(s, gate.GateKey(sale), fields...)
}

func setHash(s *miniredis.Miniredis, key string, fields ...any) {
	for i := 0; i < len(fields); i += 2 {
		s.HSet(key, fields[i].(string), fmt.Sprint(fields[i+1]))
	}
}

// see makes a tick, and returns the gate of sale 1.
func (r *reader) see() Reading {
	r.Helper()
	gates, err := r.Read(r.Context(), r.sales, func(int64) bool { return false })
	if err != nil {
		r.Fatal(err)
	}
	return gates[1]
}

// The gates are read as often with ten processes as with one: those at which nothing happens once a second, with one command.
func TestEachGateHasOneReader(t *testing.T) {
	for _, processes := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			const sales, seconds = 100, 6
			_, all := readersOf(t, processes, sales)
			ticks := 0
			round := func() {
				for _, r := range all {
					r.see()
				}
				ticks++
				time.Sleep(Every)
			}
			for range 20 {
				round()
			}
			for _, r := range all {
				clear(r.asked)
			}
			for range seconds * int(time.Second/Every) {
				round()
			}
			read, mine := 0, 0
			for _, r := range all {
				read += r.asked["hmget"]
				for _, sale := range r.sales {
					if r.Reads(sale) {
						mine++
					}
				}
				if n := r.asked["xlen"]; n > 2*sales {
					t.Errorf("%d journals were counted", n)
				}
			}
			if mine != sales {
				t.Errorf("%d processes are the readers of %d gates, want %d", processes, mine, sales)
			}
			if read < sales*(seconds-1) || read > sales*(seconds+1) {
				t.Errorf("%d processes read %d gates in %d s, want %d", processes, read, seconds, sales*seconds)
			}
		})
	}
}

// pair returns two processes, of which the first is the reader of sale 1. Both have seen it.
func pair(t *testing.T) (s *miniredis.Miniredis, reads, other *reader) {
	s, all := readersOf(t, 2, 1)
	for range 3 {
		for _, r := range all {
			r.see()
		}
		time.Sleep(Every)
	}
	if all[1].Reads(1) {
		all[0], all[1] = all[1], all[0]
	}
	if !all[0].Reads(1) || all[1].Reads(1) {
		t.Fatal("not one reader")
	}
	clear(all[0].asked)
	clear(all[1].asked)
	return s, all[0], all[1]
}

// What the reader reads is what the other process sees, without a command for the gate.
func TestAReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, other := pair(t)
		for ops := 11; ops < 20; ops++ {
			setGate(s, 1, "ops", ops, "in_flight", 1)
			reads.Stirred = map[int64]bool{1: true}
			reads.see()
			if g := other.see(); g.Ops != int64(ops) || g.Own || other.asked["hmget"] > 0 {
				t.Fatalf("the other process sees %+v and has read %d times, want %d ops and not once", g, other.asked["hmget"], ops)
			}
			time.Sleep(Every)
		}
	})
}

// A process without a reader reads itself: at once what moves, and what is calm when it is old. The dead reader is none soon.
func TestADeadReaderIsReplaced(t *testing.T) {
	for _, calm := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, reads, other := pair(t)
			if !calm {
				setGate(s, 1, "in_flight", 1)
				reads.Stirred = map[int64]bool{1: true}
				reads.see()
				other.see()
			}
			for died := time.Now(); time.Since(died) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
				g := other.see()
				if most := g.believedFor(); g.calm != calm && !calm || time.Since(g.at) > most {
					t.Fatalf("%v after the death a reading of %v ago is believed", time.Since(died), time.Since(g.at))
				}
				if since := time.Since(died); since > readerFor+Every && !other.Reads(1) {
					t.Fatalf("%v after the death the other process is no reader", since)
				}
			}
			if other.asked["hmget"] == 0 {
				t.Error("the other process has never read")
			}
		})
	}
}

// stopAfterRead makes a tick of which the reply to the read is held back, as if the process stopped there, until goOn is called.
func (r *reader) stopAfterRead() (goOn func()) {
	r.hold, r.held = "hmget", make(chan struct{})
	r.Stirred = map[int64]bool{1: true}
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.see() }()
	synctest.Wait()
	return func() { close(r.held); <-stopped }
}

// A reader stops between its read and its publication. No process believes what it publishes then.
func TestAReadingThatIsPublishedLateIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, other := pair(t)
		setGate(s, 1, "ops", 11)
		goOn := reads.stopAfterRead()
		setGate(s, 1, "ops", 10) // an older snapshot, with which the other process does not notice it
		time.Sleep(readerFor / 2)
		goOn()
		time.Sleep(readerFor/2 + time.Millisecond)
		if g := other.see(); g.Ops != 10 {
			t.Errorf("a late reading is believed: %+v", g)
		}
	})
}

// A reading that comes after a newer one is ignored.
func TestAReadingIsNotReplacedByAnOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, other := pair(t)
		setGate(s, 1, "ops", 11)
		goOn := reads.stopAfterRead()
		setGate(s, 1, "ops", 12)
		time.Sleep(time.Millisecond)
		if _, err := other.Read(t.Context(), other.sales, func(int64) bool { return true }); err != nil {
			t.Fatal(err)
		}
		goOn()
		if g := other.see(); g.Ops != 12 || g.Own {
			t.Errorf("%+v, want the newer reading, which is not read again", g)
		}
	})
}

// A Redis that goes back, or loses all, shows it by a process's own publication. Then the process reads every gate at once.
func TestARedisThatGoesBackIsReadAtOnce(t *testing.T) {
	for _, name := range []string{"older", "empty"} {
		synctest.Test(t, func(t *testing.T) {
			s, reads, other := pair(t)
			reads.see()
			other.see()
			published := []any{reads.name, s.HGet(readingsKey, reads.name), other.name, s.HGet(readingsKey, other.name)}
			time.Sleep(Every)
			reads.see()
			other.see()
			s.FlushAll()
			if name == "older" {
				setHash(s, readingsKey, published...)
				setGate(s, 1, "epoch", 1, "ops", 7, "stock", 5, "in_flight", 0, "seeded", 1)
			}
			time.Sleep(Every)
			for _, r := range []*reader{other, reads} {
				if g := r.see(); !g.Own || g.Ops > 7 {
					t.Errorf("%s: a reading of before is believed: %+v", name, g)
				}
			}
		})
	}
}

// A reading with fewer ops than this process was told of shows nothing: its reader may have read before it. So this process reads too.
func TestAReadingThatSeemsOlderIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, other := pair(t)
		other.Facts.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Seeded: 1, Ops: 30}}})
		if g := other.see(); !g.Own || !other.Facts.Of(1).RolledBack {
			t.Errorf("the other process sees %+v", g)
		}
		setGate(s, 1, "ops", 40)
		if g := reads.see(); g.Ops != 10 || reads.Facts.Of(1).RolledBack {
			t.Errorf("the reader sees %+v, want what it read a moment ago", g)
		}
	})
}

// Entries of a journal are found also where the gate counts none, and where there is no gate.
func TestEntriesThatNoGateCountsAreFound(t *testing.T) {
	for name, lose := range map[string]func(s *miniredis.Miniredis){
		"the count is wrong": func(*miniredis.Miniredis) {},
		"no gate":            func(s *miniredis.Miniredis) { s.Del(gate.GateKey(1)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, reads, _ := pair(t)
			if _, err := s.XAdd(gate.JournalKey(1), "*", []string{"n", "1"}); err != nil {
				t.Fatal(err)
			}
			lose(s)
			for wrote := time.Now(); len(reads.WithEntries([]int64{1})) == 0; time.Sleep(Every) {
				if reads.see(); time.Since(wrote) > countEvery+2*calmEvery {
					t.Fatalf("%s: the entry is not found", name)
				}
			}
		})
	}
}

// What a process of another release publishes is no reason to fail, and its sales have another reader.
func TestAPublicationInAnotherFormIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, other := pair(t)
		for _, text := range []string{"", "x", "1", "\n", fmt.Sprint(time.Now().UnixMicro(), "\n1 2 3\n"), fmt.Sprint(time.Now().UnixMicro(), "\n1 2 3 4 5 6 7 8 9 10 11\n")} {
			s.HSet(readingsKey, reads.name, text)
			if other.see(); !other.Reads(1) {
				t.Errorf("%q makes its process a reader", text)
			}
		}
	})
}
