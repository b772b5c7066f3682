package user

import (
	"errors"
	"fmt"
	"testing"
)

// fill fills the door with log-ins, each from a network and to an account of its own, and returns the
// functions that end them.
func fill(t *testing.T, d *door) (leave []func()) {
	t.Helper()
	for i := range d.everybody.room {
		_, l, err := d.admit(fmt.Sprint("phone ", i), fmt.Sprint("network ", i), false, false)
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	return leave
}

func TestOneNetworkDoesNotFillTheQueue(t *testing.T) {
	d := newDoor(17)
	var leave []func()
	for {
		_, l, err := d.admit(phone, "192.0.2.1", false, false)
		if err != nil {
			break
		}
		leave = append(leave, l)
	}
	if len(leave) != 8 {
		t.Errorf("one network has %d places of 17, want 8", len(leave))
	}
	if _, l, err := d.admit(phone, "192.0.2.2", false, false); err != nil {
		t.Errorf("another network: %v", err)
	} else {
		l()
	}
	leave[0]()
	if _, leave[0], _ = d.admit(phone, "192.0.2.1", false, false); leave[0] == nil {
		t.Fatal("a place that was left is not free")
	}
	if _, _, err := d.admit(phone, "192.0.2.1", false, false); !errors.Is(err, ErrSolveFirst) {
		t.Errorf("one more log-in of the network: %v, want ErrSolveFirst", err)
	}
	for _, l := range leave {
		l()
	}
	if d.everybody.taken != 0 || len(d.everybody.by) != 0 {
		t.Errorf("%d places are taken, by %v; want none", d.everybody.taken, d.everybody.by)
	}
}

// When the door is full, known devices and solved sums have places of their own, and turns ahead.
func TestTheDoorHasPlacesOfItsOwnForDevicesAndSums(t *testing.T) {
	for _, c := range []struct {
		name           string
		device, solved bool
		share, room    int // of one account or network, and of all
	}{{"devices", true, false, 2, devicePlaces}, {"sums", false, true, 2, solvedPlaces}} {
		t.Run(c.name, func(t *testing.T) {
			d := newDoor(17)
			fill(t, d)
			if _, _, err := d.admit(phone, address, false, false); !errors.Is(err, ErrSolveFirst) {
				t.Fatalf("a stranger at a full door: %v, want ErrSolveFirst", err)
			}
			admitted := 0
			for i := range 2 * c.room {
				for n := range 2 * c.share {
					turn, _, err := d.admit(fmt.Sprint(i), fmt.Sprint(i), c.device, c.solved)
					if err == nil && turn != ahead {
						t.Error("admitted without a turn ahead")
					}
					if want := n < c.share && admitted < c.room; (err == nil) != want {
						t.Errorf("log-in %d of account %d, after %d: %v; want admitted: %v", n, i, admitted, err, want)
					}
					if err == nil {
						admitted++
					}
				}
			}
			if admitted != c.room {
				t.Errorf("%d were admitted, want %d", admitted, c.room)
			}
		})
	}
}
