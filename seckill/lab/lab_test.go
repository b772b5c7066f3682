package lab

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	good := Plan{Buyers: 10, Stock: 1, Seconds: 1}
	if err := good.Validate([]string{"lua", "shop"}); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Plan){
		"buyers":        func(p *Plan) { p.Buyers = MaxBuyers + 1 },
		"stock":         func(p *Plan) { p.Stock = 0 },
		"double_clicks": func(p *Plan) { p.DoubleClicks = 101 },
		"seconds":       func(p *Plan) { p.Seconds = 31 },
		"nodes":         func(p *Plan) { p.Nodes = -1 },
		"faults":        func(p *Plan) { p.Faults = []string{"flood"} },
		"strategies":    func(p *Plan) { p.Strategies = []string{"shop", "hope"} },
		// a name that is in the list twice
		"strategies, twice": func(p *Plan) { p.Strategies = []string{"shop", "lua", "shop"} },
		"faults, twice":     func(p *Plan) { p.Faults = []string{Kill, Kill} },
	} {
		p := good
		spoil(&p)
		want, _, _ := strings.Cut(field, ",")
		if invalid := (InvalidError{}); !errors.As(p.Validate([]string{"lua", "shop"}), &invalid) || invalid.Field != want {
			t.Errorf("%s: %v", field, p.Validate([]string{"lua", "shop"}))
		}
	}
}
