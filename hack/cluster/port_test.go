package main

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReservedPort(t *testing.T) {
	reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", reserved.number)

	other, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer other.release()
	if other.number == reserved.number {
		t.Errorf("port %d was reserved twice", reserved.number)
	}
	if stranger, err := net.Listen("tcp", address); err == nil {
		_ = stranger.Close()
		t.Error("a stranger could take the reserved port")
	}

	// As the API server listens with --permit-port-sharing.
	sharing := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		controlErr := conn.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		if err == nil {
			err = controlErr
		}
		return err
	}}
	listener, err := sharing.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatalf("sharing the reserved port: %v", err)
	}
	defer listener.Close()
	for range 20 { // all of them reach the listener, none the socket that merely holds the port
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if client.LocalAddr().String() != server.RemoteAddr().String() {
			t.Errorf("%s dialled, %s arrived", client.LocalAddr(), server.RemoteAddr())
		}
		_, _ = client.Close(), server.Close()
	}

	reserved.release()
	if client, err := net.Dial("tcp", address); err != nil {
		t.Errorf("after the release: %v", err)
	} else {
		_ = client.Close()
	}
}
