package lab_test

import (
	"os"
	"testing"

	"miaosha/seckill/lab/boundary"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(boundary.Child) != "" { // the tests start programs in children of themselves
		boundary.RunChild()
	}
	sandboxtest.Main(m)
}
