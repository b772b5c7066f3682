package operator

import (
	"os"
	"slices"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A shop without one defence breaks the invariants that the page says, and no other. With all of them, and with what they
// refuse, it breaks none.
func TestEachDefenceKeepsItsInvariants(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	stores := lab.Stores{DatabaseURL: sandboxtest.DatabaseURL(t), Redis: sandboxtest.Redis(t), Schema: string(schema), Audit: labAudit}
	for without, want := range map[string]struct {
		broken  []string
		refused []string // what is refused with all defences, and went through
		rows    int      // that the audit names; 0: any number
	}{
		"":                            {},
		"one_order_per_user_and_sale": {[]string{"I2"}, []string{"second order"}, 0},
		"one_order_per_ticket":        {[]string{"I2"}, []string{"ticket again"}, 0},
		"stock_within_total":          {[]string{"I1"}, []string{"big order"}, 0},
		"orders_begin_as_pending":     {[]string{"I7", "I8"}, []string{"paid order"}, 0},
		"orders_updated":              {[]string{"I8"}, nil, 2}, // the cancelled order, and the one that timed out
		"sales_changed":               {[]string{"I9"}, nil, 0},
		"sweeper":                     {[]string{"I5"}, nil, 0},
	} {
		t.Run(without, func(t *testing.T) {
			r, err := experiments.RunWithout(t.Context(), stores, without)
			if err != nil {
				t.Fatal(err)
			}
			var broken, through []string
			for _, b := range r.Broken {
				broken = append(broken, b.Invariant)
			}
			for _, h := range r.Happenings {
				if h.Refused == "" && slices.Contains([]string{"second order", "ticket again", "paid order", "big order"}, h.Name) {
					through = append(through, h.Name)
				}
			}
			if slices.Sort(broken); !slices.Equal(slices.Compact(broken), want.broken) {
				t.Errorf("broken: %v, want %v: %+v", broken, want.broken, r.Broken)
			}
			if want.rows > 0 && (len(r.Broken) != 1 || len(r.Broken[0].Rows) != want.rows) {
				t.Errorf("not %d rows: %+v", want.rows, r.Broken)
			}
			if !slices.Equal(through, want.refused) {
				t.Errorf("not refused: %v, want %v: %+v", through, want.refused, r.Happenings)
			}
			if r.Orders != 30 || len(r.Happenings) != 7 {
				t.Errorf("%d orders, %d happenings", r.Orders, len(r.Happenings))
			}
		})
	}
	if names := experiments.Defences(); len(names) != 7 {
		t.Errorf("this test knows seven defences, the lab has %v", names)
	}
	if _, err := experiments.RunWithout(t.Context(), stores, "luck"); err == nil {
		t.Error("an unknown defence was left out")
	}
}
