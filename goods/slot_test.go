package goods

import (
	"maps"
	"testing"
	"time"
	_ "time/tzdata" // for machines without time zone files

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestSlots(t *testing.T) {
	berlin, shanghai := zone(t, "Europe/Berlin"), zone(t, "Asia/Shanghai")
	for _, test := range []struct {
		name                         string
		now                          time.Time
		slots, ended, open, upcoming int
	}{
		{"at midnight", time.Date(2026, 11, 11, 0, 0, 0, 0, shanghai), 24, 0, 1, 23},
		{"at noon", time.Date(2026, 11, 11, 12, 0, 0, 0, shanghai), 24, 6, 1, 17},
		{"just before noon", time.Date(2026, 11, 11, 12, 0, 0, -1, shanghai), 24, 5, 1, 18},
		{"the last instant of a year", time.Date(2026, 12, 31, 24, 0, 0, -1, shanghai), 24, 11, 1, 12},
		{"a normal day in Berlin", time.Date(2026, 6, 1, 13, 0, 0, 0, berlin), 24, 6, 1, 17},
		// 47 hours: the 24th slot reaches an hour into the day after tomorrow.
		{"the day before the clocks go forward", time.Date(2026, 3, 28, 13, 0, 0, 0, berlin), 24, 6, 1, 17},
		{"the day the clocks go forward", time.Date(2026, 3, 29, 13, 0, 0, 0, berlin), 24, 6, 1, 17},
		{"the day after", time.Date(2026, 3, 30, 13, 0, 0, 0, berlin), 24, 6, 1, 17},
		// 49 hours.
		{"the day before the clocks go back", time.Date(2026, 10, 24, 13, 0, 0, 0, berlin), 25, 6, 1, 18},
		{"the day the clocks go back", time.Date(2026, 10, 25, 13, 0, 0, 0, berlin), 25, 7, 1, 17},
		{"the repeated hour, first time", time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(berlin), 25, 1, 1, 23},
		{"the repeated hour, second time", time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC).In(berlin), 25, 1, 1, 23},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]int{}
			for _, s := range Slots(test.now) {
				got["slots"]++
				got[s.State]++
			}
			want := map[string]int{"slots": test.slots, "ended": test.ended, "open": test.open, "upcoming": test.upcoming}
			maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// In every time zone and on every day: slots of two hours without a gap, from today's midnight to
// the end of tomorrow, and now is in the open slot.
func TestSlotsCoverTodayAndTomorrow(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "Asia/Shanghai"), zone(t, "America/New_York"),
		zone(t, "Australia/Lord_Howe"), zone(t, "Asia/Kathmandu")}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(1577836800, 1893456000).Draw(t, "second") // 2020 to 2030
		now := time.Unix(at, 0).In(rapid.SampledFrom(zones).Draw(t, "zone"))
		slots := Slots(now)
		if h, m, s := slots[0].StartAt.Clock(); h+m+s != 0 || slots[0].StartAt.YearDay() != now.YearDay() {
			t.Fatalf("the first slot begins at %v", slots[0].StartAt)
		}
		if last := slots[len(slots)-1]; !last.StartAt.Before(slots[0].StartAt.AddDate(0, 0, 2)) || last.EndAt.Before(slots[0].StartAt.AddDate(0, 0, 2)) {
			t.Fatalf("the last slot is %v to %v", last.StartAt, last.EndAt)
		}
		for i, s := range slots {
			if s.EndAt.Sub(s.StartAt) != SlotLength {
				t.Fatalf("slot %d is %v long", i, s.EndAt.Sub(s.StartAt))
			}
			if i > 0 && !s.StartAt.Equal(slots[i-1].EndAt) {
				t.Fatalf("slot %d begins at %v, the previous slot ends at %v", i, s.StartAt, slots[i-1].EndAt)
			}
			want := "open"
			if s.StartAt.After(now) {
				want = "upcoming"
			} else if !s.EndAt.After(now) {
				want = "ended"
			}
			if s.State != want {
				t.Fatalf("at %v, the slot of %v is %s, want %s", now, s.StartAt, s.State, want)
			}
		}
	})
}
