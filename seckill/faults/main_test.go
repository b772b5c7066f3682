//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// seed is the seed of all random decisions of the suite. MIAOSHA_SEED repeats a run as far as processes can be repeated.
var seed = func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("MIAOSHA_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}()

func TestMain(m *testing.M) {
	go startChildren()
	redis.SetLogger(quietLogger{})
	var err error
	if shared.dir, err = makeDir(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("MIAOSHA_SEED=%d\n", seed)
	if err := ownOrphans(true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	judged.say()
	os.RemoveAll(shared.dir)
	os.Exit(code)
}

// quietLogger drops the log of the Redis client, which has a line for every refused connection.
type quietLogger struct{}

func (quietLogger) Printf(context.Context, string, ...any) {}

func makeDir() (string, error) {
	dir, err := os.MkdirTemp("", "miaosha-faults-")
	if err != nil {
		return "", err
	}
	// Root cannot run Postgres. The user that does needs to enter this folder.
	return dir, os.Chmod(dir, 0o711)
}
