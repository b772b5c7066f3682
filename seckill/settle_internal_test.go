package seckill

import (
	"fmt"
	"testing"

	"miaosha/order"
)

func TestABatchIsDividedBetweenEntries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries []int // tickets in each
		want    int
	}{{[]int{5}, 0}, {[]int{1, 7}, 1}, {[]int{7, 1}, 7}, {[]int{3, 2, 2}, 3}, {[]int{2, 2}, 2}} {
		var batch []order.Ticket
		for entry, n := range c.entries {
			for range n {
				batch = append(batch, order.Ticket{ID: fmt.Sprintf("1:1-%d:%d", entry, len(batch))})
			}
		}
		if got := betweenEntries(batch); got != c.want {
			t.Errorf("entries of %v tickets are divided at %d, want %d", c.entries, got, c.want)
		}
	}
}
