package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox"
)

// goodbyeLimit bounds the questions of Goodbye.
const goodbyeLimit = 2 * time.Second

// Goodbye says what a shop that has stopped leaves behind: the tickets that are not settled. gates is nil for a shop
// without them.
func Goodbye(w io.Writer, s *backend.Stores, gates redis.UniversalClient) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLimit)
	defer cancel()
	text := "no ticket waits in a journal"
	if gates != nil {
		switch tickets, sales, err := audit.Waiting(ctx, s.Web, gates); {
		case err != nil:
			text = "it is not known how many tickets stay in the journals, " +
				"because a store does not answer; the next start settles them"
		case tickets == 0:
		case s.Sandbox != nil && s.Sandbox.RedisKind == sandbox.Embedded && s.Sandbox.Shared == 0:
			text = fmt.Sprintf(
				"tickets in the journals: %d, of %d sales; they end with the Redis inside this process, and their units stay unsold",
				tickets, sales)
		default:
			text = fmt.Sprintf(
				"tickets in the journals: %d, of %d sales; another process of the shop settles them, or the next start",
				tickets, sales)
		}
	}
	fmt.Fprintf(w, "stopped: %s\n", text)
	if b := s.Sandbox; b != nil && b.Shared == 0 {
		fmt.Fprintf(w, "  Postgres and Redis of the sandbox stop too; the data stay in %s\n", b.DataDir)
	}
}
