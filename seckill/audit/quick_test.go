package audit_test

import (
	"testing"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestQuickFindsNothingInAnActiveShop(t *testing.T) {
	db, _, _ := activeShop(t)
	found, err := audit.Quick(t.Context(), db, sandboxtest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		t.Errorf("Quick found %v", found)
	}
}
