package sandboxtest_test

import (
	"fmt"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Redis databases in use at one time are different, and one that is used again is empty.
func TestRedisDatabasesAreSeparate(t *testing.T) {
	for range 2 { // the second round gets the numbers of the first
		t.Run("", func(t *testing.T) {
			for i := range 8 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					c := sandboxtest.Redis(t)
					if n, err := c.Incr(t.Context(), "n").Result(); n != 1 || err != nil {
						t.Errorf("first increment of a key is %d, %v", n, err)
					}
				})
			}
		})
	}
}
