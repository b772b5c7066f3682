package goods

import "time"

// SlotLength is the length of a slot of the time menu.
const SlotLength = 2 * time.Hour

// Slot is two hours of the time menu.
type Slot struct {
	StartAt time.Time
	EndAt   time.Time
	State   string // ended, open, upcoming
}

// Slots returns the time menu of today and tomorrow in the time zone of now: 24 slots, or 25 when
// an hour is repeated because the clocks go back.
func Slots(now time.Time) []Slot {
	var slots []Slot
	y, m, d := now.Date()
	end := time.Date(y, m, d+2, 0, 0, 0, 0, now.Location())
	for at := time.Date(y, m, d, 0, 0, 0, 0, now.Location()); at.Before(end); at = at.Add(SlotLength) {
		slot := Slot{StartAt: at, EndAt: at.Add(SlotLength), State: "upcoming"}
		switch {
		case !now.Before(slot.EndAt):
			slot.State = "ended"
		case !now.Before(slot.StartAt):
			slot.State = "open"
		}
		slots = append(slots, slot)
	}
	return slots
}
