package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// A verdict that no script returns is a fault, never a refusal.
func TestUnknownVerdicts(t *testing.T) {
	for _, reply := range []string{"", "OK", "new", "EARLY x"} {
		verdict, argument, _ := strings.Cut(reply, " ")
		if err := refusal(verdict, argument); err == nil || IsRefusal(err) {
			t.Errorf("%q: %v, want a fault", reply, err)
		}
	}
}

// What Redis replies while it moves a sale, fails over or starts is a fault: buyers are answered "busy", and the breaker opens. It is
// never a refusal, and never a gate that is missing.
func TestRepliesOfAFailoverAreFaults(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer rdb.Close()
	requests := []Request{{UserID: 1, Nonce: uuid.NewString()}}
	for _, reply := range []string{"MOVED 5 127.0.0.1:1", "ASK 5 127.0.0.1:1", "TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN The cluster is down", "CLUSTERDOWN Hash slot not served", "LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOREPLICAS Not enough good replicas to write."} {
		g := New(rdb, "here", time.Minute)
		server.SetError(reply)
		for range 5 {
			if _, err := g.Reserve(t.Context(), 1, requests); err == nil || IsRefusal(err) || !isReply(err) {
				t.Errorf("%s: a reserve call returns %v, want the reply as a fault", reply, err)
			}
			if _, err := g.Background().States(t.Context(), []int64{1}); err == nil || errors.Is(err, ErrNoGate) {
				t.Errorf("%s: the states of the gates are read, with %v", reply, err)
			}
		}
		if g.Available() {
			t.Errorf("%s: the breaker is closed after five of them", reply)
		}
		if _, err := g.Reserve(t.Context(), 1, requests); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: then a reserve call returns %v, want ErrUnavailable", reply, err)
		}
		server.SetError("")
	}
}
