package rebuild

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/goods"
)

// A process that stops waits for the calls that have their sale's turn, and not for those that wait for it.
func TestTheRebuilderClosesWithoutTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		release, ended, began := make(chan struct{}), make(chan error), 0
		for _, doing := range []string{"one", "two", "three", "four", "five", "six"} { // more than may try at once
			go func() {
				ended <- r.once(t.Context(), 1, doing, func(progress, time.Duration) error {
					began++
					<-release
					return nil
				})
			}()
			synctest.Wait()
		}
		atOnce := began
		closed := make(chan struct{})
		go func() { r.Close(); close(closed) }()
		for range 6 - atOnce {
			if err := <-ended; !errors.Is(err, goods.ErrLocked) {
				t.Errorf("%v, want ErrLocked", err)
			}
		}
		close(release)
		for range atOnce {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		<-closed
		if atOnce == 0 || atOnce == 6 || began != atOnce {
			t.Errorf("%d calls began, %d of them before the process stopped", began, atOnce)
		}
	})
}
