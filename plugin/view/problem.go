package view

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// The reasons why a request has failed, in place of errors that have addresses in them.
const (
	failedCertificate = "the certificate of the API server cannot be verified"
	failedName        = "the name of the API server is not found"
	failedTime        = "the API server has not answered in time"
	failedEnd         = "the connection to the API server has ended"
	failedOther       = "the API server cannot be reached; the commands of the plug-in say why"
)

// ErrorText returns the words of an error as a page shows them: without the address of the API server, and without what gets the credentials, which are of the
// kubeconfig.
func ErrorText(err error) string {
	text := err.Error()
	for _, failed := range failedRequests(err) {
		words, reason := failed.Error(), requestFailure(failed)
		if !strings.Contains(text, words) {
			return reason
		}
		text = strings.ReplaceAll(text, words, reason)
	}
	return CleanText(text)
}

// failedRequests returns the errors of requests and connections in an error, the outermost ones alone.
func failedRequests(err error) []error {
	switch err := err.(type) { //nolint:errorlint // It looks at each error of the chain.
	case *url.Error, *net.OpError, *net.DNSError, *tls.CertificateVerificationError:
		return []error{err}
	case interface{ Unwrap() error }:
		return failedRequests(err.Unwrap())
	case interface{ Unwrap() []error }:
		var all []error
		for _, below := range err.Unwrap() {
			all = append(all, failedRequests(below)...)
		}
		return all
	}
	return nil
}

// requestFailure returns why a request or a connection has failed.
func requestFailure(err error) string {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var number syscall.Errno
	var timed interface{ Timeout() bool }
	switch {
	case errors.As(err, &certificate):
		return failedCertificate
	case errors.As(err, &name):
		return failedName
	case errors.As(err, &timed) && timed.Timeout():
		return failedTime
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return failedEnd
	}
	return failedOther
}
