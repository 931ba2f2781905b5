package integration

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"huolala.cn/app-operator/test/harness"
)

// errRefused is what a request returns that reaches no API server.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// mishaps are the ways in which a request can go wrong.
var mishaps = map[string]harness.Fault{
	"refused": func(harness.Request, func() (*http.Response, error)) (*http.Response, error) { return nil, errRefused },
	"lost": func(_ harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err == nil {
			// The API server has done all that it does.
			_, err = io.Copy(io.Discard, resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	},
	"error": answerRequests(func(harness.Request) apierrors.APIStatus {
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	}),
	"conflict": answerRequests(func(q harness.Request) apierrors.APIStatus {
		return apierrors.NewConflict(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("the object has been modified"))
	}),
	"busy": answerRequests(func(harness.Request) apierrors.APIStatus {
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	}),
}
