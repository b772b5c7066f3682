//go:build !linux

package sandboxtest

import (
	"net"
	"os"
)

// reservePort returns an address of 127.0.0.1 at which nothing listens at this moment. Only Linux reserves it.
func reservePort() (at string, port *os.File, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	defer l.Close() //timing: only Linux can keep a port without listening
	return l.Addr().String(), nil, nil
}
