package faults

import (
	"net"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestTimeIsTheSubject(t *testing.T) {
	began := time.Now()
	time.Sleep(time.Second)
	if !sandboxtest.PollFor(time.Second, func() bool { return time.Since(began) > 2*time.Second }) {
		t.Error(time.Now().Hour())
	}
	net.Listen("tcp", "127.0.0.1:7000") // want `a fixed port`
}
