package sandboxtest

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"
)

// reservePort returns an address of 127.0.0.1, whose port belongs to the returned file until that is closed. A
// server that sets SO_REUSEADDR, as Go, Redis and Postgres do, may listen at it as often as it likes. The system
// has the port for no other process, and refuses a client while no server listens there.
func reservePort() (at string, port *os.File, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	port = os.NewFile(uintptr(fd), "reserved port")
	defer func() {
		if err != nil {
			port.Close()
			port, err = nil, fmt.Errorf("reserve a port: %w", err)
		}
	}()
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", port, err
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", port, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", port, err
	}
	own := name.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port)).String(), port, nil
}
