//go:build gateway

package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"huolala.cn/app-operator/test/harness"
)

// The ports of containers: the first is that of fixture.NewApp.
const (
	containerPort = 80
	adminPort     = 81
)

// answer is what a pod says of a request.
type answer struct {
	// Pod is the address at which it was asked, Port the port.
	Pod  string `json:"pod"`
	Port string `json:"port"`
	Path string `json:"path"`
	// Status is that of the response. The rest is empty unless it is 200.
	Status int `json:"-"`
	// Certificate is the name in the certificate of the proxy, by TLS.
	Certificate string `json:"-"`
}

// servePods answers in place of all pods, at the ports of their containers.
func servePods() (*http.Server, error) {
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		host, port, _ := net.SplitHostPort(local)
		_ = json.NewEncoder(w).Encode(answer{Pod: host, Port: port, Path: r.URL.Path})
	})}
	for _, port := range []int{containerPort, adminPort} {
		listener, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
		if err != nil {
			return nil, err
		}
		go func() { _ = server.Serve(listener) }()
	}
	return server, nil
}

// proxy is a running Traefik.
type proxy struct {
	http, https int
	client      *http.Client
}

// startProxy starts Traefik with its providers for Ingresses and HTTPRoutes. It ends with the test.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{http: harness.FreePort(t), https: harness.FreePort(t)}
	cmd := exec.Command(os.Getenv("TRAEFIK"),
		"--log.level=INFO", "--global.checknewversion=false", "--global.sendanonymoususage=false",
		fmt.Sprintf("--entrypoints.web.address=127.0.0.1:%d", p.http), fmt.Sprintf("--entrypoints.secure.address=127.0.0.1:%d", p.https),
		"--providers.providersthrottleduration=100ms",
		"--providers.kubernetesingress", "--providers.kubernetesingress.ingressclass=traefik",
		"--providers.kubernetesgateway",
	)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"KUBECONFIG=" + harness.WriteKubeconfig(t, plane.Config)}
	var output harness.Output
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait() // It was killed.
		if t.Failed() {
			t.Logf("the log of the proxy:\n%s", &output)
		}
	})
	// A name is resolved to the proxy, as the DNS of the hosts would do.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		port := p.http
		if ctx.Value(secure{}) != nil {
			port = p.https
		}
		return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
	}
	p.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // Its name is compared.
	}}
	harness.Eventually(t, func() error {
		_, err := p.get(t.Context(), "http://nothing.test/")
		return err
	})
	return p
}

// secure marks the context of a request by TLS.
type secure struct{}

// get sends a request to the proxy.
func (p *proxy) get(ctx context.Context, url string) (a answer, err error) {
	if strings.HasPrefix(url, "https:") {
		ctx = context.WithValue(ctx, secure{}, true)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return a, err
	}
	a.Status = response.StatusCode
	if response.TLS != nil {
		a.Certificate = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if a.Status == http.StatusOK {
		err = json.Unmarshal(body.Bytes(), &a)
	}
	return a, err
}

// until asks until the answer is as wanted.
func (p *proxy) until(t *testing.T, url string, wanted func(answer) error) {
	t.Helper()
	harness.Eventually(t, func() error {
		a, err := p.get(t.Context(), url)
		if err != nil {
			return err
		}
		if err := wanted(a); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		return nil
	})
}

// status wants a response of this status.
func status(want int) func(answer) error {
	return func(a answer) error {
		if a.Status != want {
			return fmt.Errorf("status %d, want %d", a.Status, want)
		}
		return nil
	}
}

// visitors ask all the time, one after the other.
type visitors struct {
	cancel       context.CancelFunc
	done         chan struct{}
	asked, wrong atomic.Int64
	last         atomic.Value
}

// visit lets visitors ask until they are sent home.
func (p *proxy) visit(t *testing.T, url string) *visitors {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v := &visitors{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for ctx.Err() == nil {
			a, err := p.get(ctx, url)
			if ctx.Err() != nil {
				return
			}
			v.asked.Add(1)
			if err = errors.Join(err, status(http.StatusOK)(a)); err != nil {
				v.wrong.Add(1)
				v.last.Store(err.Error())
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(cancel)
	return v
}

// leave ends the visits. It fails the test if there were none, or if one had no answer of a pod.
func (v *visitors) leave(t *testing.T, what string) {
	t.Helper()
	v.cancel()
	<-v.done
	if v.asked.Load() == 0 || v.wrong.Load() > 0 {
		t.Errorf("%s: %d of %d requests failed, the last one: %v", what, v.wrong.Load(), v.asked.Load(), v.last.Load())
	}
	t.Logf("%s: %d requests, %d failed", what, v.asked.Load(), v.wrong.Load())
}
