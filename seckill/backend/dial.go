package backend

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

// dialer makes a connection to a Redis.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// quickDialer returns a dialer whose failures show when the connection is first used. The client
// counts failures of dialing: after PoolSize of them it dials only once a second, and for so long it
// does not see that Redis is back. Whether to ask Redis at all is for the breaker to decide.
func quickDialer(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			end, _ := net.Pipe() // has the methods that nothing depends on
			return unreachable{end, fmt.Errorf("dial: %w", err)}, nil
		}
		return conn, nil
	}
}

// unreachable is a connection that could not be made. If no caller waits for it, the client keeps it for the
// next, and asks SyscallConn whether it still works.
type unreachable struct {
	net.Conn
	err error
}

func (u unreachable) Read([]byte) (int, error)  { return 0, u.err }
func (u unreachable) Write([]byte) (int, error) { return 0, u.err }

// SyscallConn returns the error of dialing.
func (u unreachable) SyscallConn() (syscall.RawConn, error) { return nil, u.err }
