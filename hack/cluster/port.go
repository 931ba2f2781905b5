package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reservedPort is a free TCP port of 127.0.0.1, held until it is released. "Listen on :0, note the number, close"
// would leave a gap for someone else to take it; this one stays bound, without listening, and with SO_REUSEPORT,
// so that the API server, which is told to set that too, can also bind it and gets every connection.
type reservedPort struct {
	number int
	fd     int
}

// reservePort finds and holds a free port.
func reservePort() (*reservedPort, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", os.NewSyscallError("socket", err))
	}
	number, err := bindFreePort(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return &reservedPort{number: number, fd: fd}, nil
}

// newSocket makes a TCP socket that children don't inherit.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

func bindFreePort(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

// release lets go of the port.
func (p *reservedPort) release() {
	_ = unix.Close(p.fd)
}
