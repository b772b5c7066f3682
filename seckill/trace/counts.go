package trace

import "sync/atomic"

// Counts are what the process has counted of one sale since it began. A batch that is settled again counts again.
type Counts struct {
	Granted int64 // tickets
	Ordered int64 // tickets that became an order
	Refused int64 // tickets with another result
}

// counts are counted once per batch.
type counts struct{ granted, ordered, refused atomic.Int64 }

func (t *Trace) ofSale(sale int64) *counts {
	if c, ok := t.bySale.Load(sale); ok {
		return c.(*counts)
	}
	c, _ := t.bySale.LoadOrStore(sale, &counts{})
	return c.(*counts)
}

// Sales returns the counts of each sale for which this process has granted or settled a ticket.
func (t *Trace) Sales() map[int64]Counts {
	sales := map[int64]Counts{}
	if t == nil {
		return sales
	}
	for sale, c := range t.bySale.Range {
		c := c.(*counts)
		sales[sale.(int64)] = Counts{c.granted.Load(), c.ordered.Load(), c.refused.Load()}
	}
	return sales
}
