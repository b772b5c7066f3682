package seckill

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	sale := goods.SaleState{ID: 1, Stock: 10, Epoch: 5}
	healthy := gate.State{Epoch: 5, Ops: 7, Stock: 10}
	for name, c := range map[string]struct {
		gate    gate.State
		unread  bool
		facts   saleFacts
		repairs []repair
	}{
		"healthy":                     {gate: healthy},
		"a newer gate":                {gate: gate.State{Epoch: 6, Stock: 10}},
		"Redis did not reply":         {gate: gate.State{}, unread: true, facts: saleFacts{bypassed: 1, inDoubt: 3, rolledBack: true}},
		"missing":                     {gate: gate.State{}, repairs: []repair{rebuildGate}},
		"missing, and all else wrong": {gate: gate.State{InFlight: 3}, facts: saleFacts{bypassed: 1, inDoubt: 3, rolledBack: true}, repairs: []repair{rebuildGate}},
		"outdated":                    {gate: gate.State{Epoch: 4, Stock: 10}, repairs: []repair{rebuildGate}},
		"too few units":               {gate: gate.State{Epoch: 5, Stock: 9}, repairs: []repair{fixStock}},
		"too many units":              {gate: gate.State{Epoch: 5, Stock: 11}, repairs: []repair{fixStock}},
		"in flight, all settled":      {gate: gate.State{Epoch: 5, Stock: 10, InFlight: 3}},
		"in flight, none settled":     {gate: gate.State{Epoch: 5, Stock: 7, InFlight: 3}},
		"in flight, too few":          {gate: gate.State{Epoch: 5, Stock: 6, InFlight: 3}, repairs: []repair{fixStock}},
		"in flight, too many":         {gate: gate.State{Epoch: 5, Stock: 11, InFlight: 3}, repairs: []repair{fixStock}},
		"in doubt":                    {gate: healthy, facts: saleFacts{inDoubt: 1}, repairs: []repair{recoverInDoubt}},
		"bypassed":                    {gate: healthy, facts: saleFacts{bypassed: 2}, repairs: []repair{seedDirectOwners}},
		"rolled back":                 {gate: healthy, facts: saleFacts{rolledBack: true}, repairs: []repair{recoverRollback}},
		"rolled back and bypassed":    {gate: healthy, facts: saleFacts{rolledBack: true, bypassed: 1}, repairs: []repair{recoverRollback}},
		"all at once": {gate: gate.State{Epoch: 5, Stock: 12}, facts: saleFacts{bypassed: 1, inDoubt: 9, rolledBack: true},
			repairs: []repair{fixStock, recoverInDoubt, recoverRollback}},
	} {
		got := diagnose(observation{sale: sale, gate: c.gate, gateRead: !c.unread, facts: c.facts})
		if diff := cmp.Diff(c.repairs, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
