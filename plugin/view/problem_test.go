package view

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestErrorText has errors of requests, which have the address of the API server in them, in other errors. No text has an address, or a command for
// credentials.
func TestErrorText(t *testing.T) {
	const address = "https://10.1.2.3:6443/apis/apps/v1/namespaces/shop/pods"
	here, there := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 41234}, &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6443}
	request := func(err error) error { return &url.Error{Op: "Get", URL: address, Err: err} }
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	certificate := &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"kube.example"}}, Host: "10.1.2.3"}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"refused":           {fmt.Errorf("list Apps in shop: %w", request(refused)), "list Apps in shop: connection refused"},
		"reset":             {reset, "connection reset by peer"},
		"no name":           {request(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "kube.example", Server: "10.0.0.2:53"}}), failedName},
		"a certificate":     {request(certificate), failedCertificate},
		"a time limit":      {request(context.DeadlineExceeded), failedTime},
		"an end":            {request(io.EOF), failedEnd},
		"credentials":       {request(errors.New("getting credentials: exec: executable kube-login failed with exit code 1")), failedOther},
		"two errors":        {errors.Join(fmt.Errorf("a: %w", request(refused)), fmt.Errorf("b: %w", reset)), "a: connection refused\nb: connection reset by peer"},
		"a text of its own": {changedText{request(refused)}, "connection refused"},
		"no request":        {errors.New("no revision 5"), "no revision 5"},
	} {
		got := ErrorText(c.err)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, secret := range []string{"10.", "6443", "kube.example", "https:", "kube-login"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q has %q", name, got, secret)
			}
		}
	}
}

// changedText is an error whose text differs from the text of the error in it.
type changedText struct{ error }

// Error implements error.
func (e changedText) Error() string { return strings.ReplaceAll(e.error.Error(), "tcp", "TCP") }

// Unwrap returns the error itself.
func (e changedText) Unwrap() error { return e.error }
