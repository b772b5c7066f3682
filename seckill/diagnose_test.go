package seckill

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/goods"
	"miaosha/seckill/gate"
	"miaosha/seckill/watch"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	sale := goods.SaleState{ID: 1, Stock: 10, Epoch: 5}
	healthy := gate.State{Epoch: 5, Ops: 7, Stock: 10}
	marked, unmarked := goods.Bypass{Bypasses: 4, BypassesKnown: 2}, goods.Bypass{Bypasses: 4, BypassesKnown: 4}
	knows := func(bypasses int64) gate.State { g := healthy; g.Known = bypasses; return g }
	now := time.Now()
	for name, c := range map[string]struct {
		gate    gate.State
		unread  bool
		heard   bool // another process has read it
		far     bool
		facts   watch.SaleFacts
		bypass  goods.Bypass
		repairs []repair
	}{
		"healthy":                     {gate: healthy},
		"a newer gate":                {gate: gate.State{Epoch: 6, Stock: 10}},
		"Redis did not reply":         {gate: gate.State{}, unread: true, facts: watch.SaleFacts{RolledBack: true}, bypass: marked},
		"missing":                     {gate: gate.State{}, repairs: []repair{rebuildGate}},
		"missing, and all else wrong": {gate: gate.State{InFlight: 3}, facts: watch.SaleFacts{RolledBack: true}, bypass: marked, repairs: []repair{rebuildGate}},
		"outdated":                    {gate: gate.State{Epoch: 4, Stock: 10}, repairs: []repair{rebuildGate}},
		"outdated, and not near":      {gate: gate.State{Epoch: 4, Stock: 10}, far: true, repairs: []repair{rebuildGate}},
		"missing, and not near":       {gate: gate.State{}, far: true},
		"wrong, and not near":         {gate: gate.State{Epoch: 5, Stock: 11}, far: true, facts: watch.SaleFacts{RolledBack: true}, bypass: marked},
		"too few units":               {gate: gate.State{Epoch: 5, Stock: 9}, repairs: []repair{fixStock}},
		"too many units":              {gate: gate.State{Epoch: 5, Stock: 11}, repairs: []repair{fixStock}},
		"too many, as another saw it": {gate: gate.State{Epoch: 5, Stock: 11}, heard: true},
		"outdated, as another saw it": {gate: gate.State{Epoch: 4, Stock: 11}, heard: true, repairs: []repair{rebuildGate}},
		"in flight, all settled":      {gate: gate.State{Epoch: 5, Stock: 10, InFlight: 3}},
		"in flight, none settled":     {gate: gate.State{Epoch: 5, Stock: 7, InFlight: 3}},
		"in flight, too few":          {gate: gate.State{Epoch: 5, Stock: 6, InFlight: 3}, repairs: []repair{fixStock}},
		"in flight, too many":         {gate: gate.State{Epoch: 5, Stock: 11, InFlight: 3}, repairs: []repair{fixStock}},
		"marked":                      {gate: healthy, bypass: marked, repairs: []repair{seedDirectOwners}},
		"marked again since":          {gate: knows(3), bypass: marked, facts: watch.SaleFacts{QuietSince: now.Add(-quietFor)}, repairs: []repair{seedDirectOwners}},
		"marked, owners seeded":       {gate: knows(4), bypass: marked, facts: watch.SaleFacts{QuietSince: now.Add(time.Second - quietFor)}},
		"marked, seeded and quiet":    {gate: knows(4), bypass: marked, facts: watch.SaleFacts{QuietSince: now.Add(-quietFor)}, repairs: []repair{clearBypass}},
		"no longer marked":            {gate: knows(4), bypass: unmarked, facts: watch.SaleFacts{QuietSince: now.Add(-quietFor)}},
		"forgot its direct owners":    {gate: healthy, bypass: unmarked, repairs: []repair{seedDirectOwners}},
		"rolled back":                 {gate: healthy, facts: watch.SaleFacts{RolledBack: true}, repairs: []repair{recoverRollback}},
		"rolled back and marked":      {gate: healthy, bypass: marked, facts: watch.SaleFacts{RolledBack: true}, repairs: []repair{recoverRollback}},
		"all at once": {gate: gate.State{Epoch: 5, Stock: 12}, facts: watch.SaleFacts{RolledBack: true}, bypass: marked,
			repairs: []repair{fixStock, recoverRollback}},
	} {
		sale.Bypass, sale.Near = c.bypass, !c.far
		got := diagnose(observation{sale: sale, gate: c.gate, gateRead: !c.unread, own: !c.heard, facts: c.facts, at: now})
		if diff := cmp.Diff(c.repairs, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
