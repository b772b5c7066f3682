package web

import (
	"testing"
	"time"

	"miaosha/goods"
)

func TestListIsFreshUntilItMayHaveChanged(t *testing.T) {
	now := time.Now()
	read, again := []goods.Sale{{ID: 1}, {ID: 2}}, []goods.Sale{{ID: 1}, {ID: 2}}
	for name, c := range map[string]struct {
		saleList
		rows []goods.Sale
		want bool
	}{
		"unchanged":                 {saleList{rows: read, madeAt: now}, read, true},
		"empty":                     {saleList{madeAt: now}, []goods.Sale{}, true},
		"read again":                {saleList{rows: read, madeAt: now}, again, false},
		"fewer rows":                {saleList{rows: read, madeAt: now}, read[:1], false},
		"other units may be left":   {saleList{rows: read, madeAt: now.Add(-listLife)}, read, false},
		"just before a sale starts": {saleList{rows: read, madeAt: now, changesAt: now.Add(1)}, read, true},
		"the moment a sale starts":  {saleList{rows: read, madeAt: now, changesAt: now}, read, false},
	} {
		if got := c.fresh(c.rows, now); got != c.want {
			t.Errorf("%s: fresh is %t, want %t", name, got, c.want)
		}
	}
}

func TestDetailIsFreshUntilItHasChanged(t *testing.T) {
	now := time.Now()
	sale := goods.Sale{ID: 1, Title: "T", StartsAt: now}
	retitled, moved := sale, sale
	retitled.Title, moved.StartsAt = "U", now.Add(1)
	d := detail{of: sale, left: 3, state: "open"}
	for name, c := range map[string]struct {
		of    goods.Sale
		left  int
		state string
		held  *goods.Held
		want  bool
	}{
		"unchanged":        {sale, 3, "open", nil, true},
		"another title":    {retitled, 3, "open", nil, false},
		"another start":    {moved, 3, "open", nil, false},
		"fewer units left": {sale, 2, "open", nil, false},
		"paused":           {sale, 3, "paused", nil, false},
		"other units held": {sale, 3, "open", &goods.Held{Units: 1}, false},
	} {
		if got := d.fresh(c.of, c.left, c.state, c.held); got != c.want {
			t.Errorf("%s: fresh is %t, want %t", name, got, c.want)
		}
	}
}
