package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/certificate"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/webhooks"
)

// drain is longer than a client of a busy machine may pause between two reviews on a connection.
const drain = 10 * time.Second

// settle is how long the certificate of a new authority is held back.
const settle = 10 * time.Second

// front stands before managers as a Service does: each new connection goes to the next one of those that are ready.
type front struct {
	net.Listener
	// mu is held for reading while a connection is made, so that a manager that was removed gets none afterwards.
	mu       sync.RWMutex
	backends []int
	next     atomic.Int32
}

func newFront(t *testing.T, backends ...int) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{Listener: l, backends: backends}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.forward(conn)
		}
	}()
	return f
}

func (f *front) forward(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // The other side sees it.
	back, err := f.connect()
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(back, conn)
		_ = back.Close()
	}()
	_, _ = io.Copy(conn, back)
}

// connect returns a connection to the next manager.
func (f *front) connect() (net.Conn, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.backends[int(f.next.Add(1))%len(f.backends)])))
}

// add sends connections to a manager as well.
func (f *front) add(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = append(slices.Clone(f.backends), port)
}

// remove sends no new connection to a manager any more, and waits for those that are being made.
func (f *front) remove(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = slices.DeleteFunc(slices.Clone(f.backends), func(p int) bool { return p == port })
}

func (f *front) port() int { return f.Addr().(*net.TCPAddr).Port }

// keptSecret returns the Secret of the certificate, to be read.
func keptSecret() *corev1.Secret {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = harness.SystemNamespace, "app-operator-webhook-cert"
	return secret
}

// serialOf tells one certificate from another.
func serialOf(t testing.TB, data []byte) string {
	t.Helper()
	block, _ := pem.Decode(data)
	cert := &x509.Certificate{}
	err := errors.New("no certificate")
	if block != nil {
		cert, err = x509.ParseCertificate(block.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert.NotAfter.String() + string(cert.Signature[:8])
}

// servedSerial returns which certificate a port serves now.
func servedSerial(port int) (*x509.Certificate, error) {
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is looked at below.
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // Nothing was sent.
	return conn.ConnectionState().PeerCertificates[0], nil
}

// trustPorts connects again to the ports of managers, again and again, and trusts what the webhook configuration said a moment
// before, as an API server does that learns of a change late. It returns the first error about a certificate. An authority that was read longer
// than settle ago may be trusted no longer.
func trustPorts(ctx context.Context, ports ...int) error {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := client.ObjectKey{Name: "app-operator-validating-webhook-configuration"}
	var known []byte
	var read time.Time
	late := time.NewTicker(300 * time.Millisecond)
	defer late.Stop()
	for ctx.Err() == nil {
		<-late.C
		pool := x509.NewCertPool()
		for _, port := range ports {
			if !pool.AppendCertsFromPEM(known) {
				break // Nothing was read yet.
			}
			conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{RootCAs: pool, ServerName: "localhost"})
			var wrong *tls.CertificateVerificationError
			if errors.As(err, &wrong) && time.Since(read) < settle {
				return fmt.Errorf("port %d: %w", port, err)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
		began := time.Now()
		if err := plane.Client.Get(ctx, key, config); err == nil {
			read = began
			known = config.Webhooks[0].ClientConfig.CABundle
		}
	}
	return nil
}

// TestCertificate has two managers keep the certificate of their webhooks by themselves, with one that is renewed every eleven seconds, and
// an authority that is renewed every 45; for one of them the API server is one before Kubernetes 1.34. A client that
// keeps trying must be refused each time, while both are renewed and one of the managers ends. When a user takes the Secret
// away, what was in it is trusted no longer; and when he takes the trust away, that is found and stated again.
//
// It is one test, as the objects have the names that they have in an installation: there is one of each in the cluster. A certificate
// is renewed almost two minutes ahead of its end: that is how late a manager may be on a busy machine.
func TestCertificate(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	one, two := harness.FreePort(t), harness.FreePort(t)
	f := newFront(t, one, two)
	options := func(port int) webhooks.Options {
		return webhooks.Options{Host: "127.0.0.1", Port: port, Drain: drain, Certificate: certificate.Options{
			Hosts: []string{"localhost"}, Authority: 159 * time.Second, Validity: 125 * time.Second, Ahead: 114 * time.Second, Settle: settle,
		}}
	}
	lease := harness.WithElection(ns)
	probes := []string{harness.FreeAddress(t), harness.FreeAddress(t)}
	first := plane.Start(t, ns, lease, harness.WithWebhooks(options(one)), harness.WithProbes(probes[0]))
	second := plane.Start(t, ns, lease, harness.WithWebhooks(options(two)), harness.WithProbes(probes[1]), harness.WithFault(withoutStreams))
	for _, probe := range probes {
		awaitProbe(t, probe, "readyz", 200)
	}
	plane.Ask(t, ns, "", f.port(), nil)
	awaitWebhooks(t, ns)

	ctx, stop := context.WithCancel(t.Context())
	type tally struct {
		refusals int
		longest  time.Duration
		err      error
	}
	done, verified := make(chan tally), make(chan error, 1)
	go func() { verified <- trustPorts(ctx, one, two) }()
	go func() {
		var n tally
		next := time.NewTicker(20 * time.Millisecond)
		defer next.Stop()
		for ctx.Err() == nil {
			<-next.C
			began := time.Now()
			err := checkTurnedAway(plane.Client.Create(ctx, invalidApp(ns, "web"), client.DryRunAll))
			if ctx.Err() != nil {
				break
			}
			n.longest = max(n.longest, time.Since(began))
			n.refusals++
			if err != nil {
				n.err = errors.Join(n.err, fmt.Errorf("at %s: %w", began.Format(time.StampMilli), err))
			}
		}
		done <- n
	}()

	authorities, certificates := map[string]bool{}, map[string]bool{}
	look := func() {
		secret := keptSecret()
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err == nil {
			authorities[serialOf(t, secret.Data["ca.crt"])], certificates[serialOf(t, secret.Data["tls.crt"])] = true, true
		}
	}
	until := func(n int) {
		harness.Eventually(t, func() error {
			look()
			if len(authorities) < n || len(certificates) <= n {
				return fmt.Errorf("%d authorities and %d certificates so far", len(authorities), len(certificates))
			}
			return nil
		})
	}
	until(fixture.Of(2, 3))
	// Both serve what is kept.
	harness.Eventually(t, func() error {
		secret := keptSecret()
		plane.Read(t, secret)
		for _, port := range []int{one, two} {
			cert, err := servedSerial(port)
			if err != nil {
				return err
			}
			if is := cert.NotAfter.String() + string(cert.Signature[:8]); is != serialOf(t, secret.Data["tls.crt"]) {
				return fmt.Errorf("port %d serves another certificate", port)
			}
		}
		return nil
	})

	// The leader ends, and its Service sends it nothing any more: the other one goes on.
	f.remove(one)
	t.Logf("the first manager ends at %s", time.Now().Format(time.StampMilli))
	first.Stop(t)
	until(len(authorities) + 1)

	stop()
	n := <-done
	if err := <-verified; err != nil {
		t.Error(err)
	}
	if n.err != nil {
		t.Errorf("not refused: %v", n.err)
	}
	t.Logf("%d authorities, %d certificates, %d refusals, the longest took %s", len(authorities), len(certificates), n.refusals, n.longest.Round(time.Millisecond))

	// A user takes the Secret away.
	secret := keptSecret()
	plane.Read(t, secret)
	before := secret.Data["ca.crt"]
	plane.Delete(t, secret)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	config.Name = "app-operator-validating-webhook-configuration"
	plane.Until(t, config, func() error {
		for _, w := range config.Webhooks {
			if bytes.Contains(w.ClientConfig.CABundle, before) {
				return errors.New("what was in the Secret is still trusted")
			}
		}
		return nil
	})
	awaitWebhooks(t, ns)

	// And the trust.
	plane.Change(t, config, func() {
		for i := range config.Webhooks {
			config.Webhooks[i].ClientConfig.CABundle = nil
		}
	})
	plane.Until(t, config, func() error {
		for _, w := range config.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return errors.New("no authority is trusted")
			}
		}
		return nil
	})
	second.Stop(t)
	for _, q := range second.Requests.All() {
		if strings.HasPrefix(q.Resource, "secrets") && q.Verb != "create" && !strings.Contains(q.Path, harness.SystemNamespace) {
			t.Errorf("Secrets of others are read: %s", q)
		}
	}
}

// TestManagersEndWhileTheyAreAsked replaces managers one after the other, as a rollout does, while clients keep trying what must be
// refused. A question that is lost with a connection would let it pass.
func TestManagersEndWhileTheyAreAsked(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	start := func() (*harness.Manager, int, []byte) {
		opts, authority := harness.LocalWebhooks(t)
		opts.Drain = drain
		probe := harness.FreeAddress(t)
		m := plane.Start(t, ns, harness.WithElection(ns), harness.WithWebhooks(opts), harness.WithProbes(probe))
		awaitProbe(t, probe, "readyz", 200)
		return m, opts.Port, authority
	}
	m, port, authority := start()
	f := newFront(t, port)
	plane.Ask(t, ns, "-"+ns, f.port(), authority)
	awaitWebhooks(t, ns)

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked atomic.Int32
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				err := checkTurnedAway(plane.Client.Create(ctx, invalidApp(ns, "web"), client.DryRunAll))
				if asked.Add(1); err != nil && ctx.Err() == nil {
					t.Errorf("at %s: %v", began.Format(time.StampMilli), err)
				}
			}
		})
	}
	for range fixture.Of(3, 8) {
		next, at, _ := start()
		f.add(at)
		f.remove(port)
		t.Logf("a manager ends at %s", time.Now().Format(time.StampMilli))
		m.Stop(t)
		m, port = next, at
	}
	stop()
	clients.Wait()
	t.Logf("asked %d times", asked.Load())
}
