package harness

import (
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/webhooks"
)

// webhookPatience is the most that an API server waits for a webhook.
const webhookPatience = 30 * time.Second

// WithWebhooks has the manager serve its webhooks, as opts say.
func WithWebhooks(opts webhooks.Options) Option {
	return func(m *Manager, o *controllers.Options) {
		opts.OwnNamespace, opts.Rendering = o.OwnNamespace, o.Rendering
		if opts.Patience == 0 {
			opts.Patience = webhookPatience
		}
		if opts.Arrival == 0 {
			opts.Arrival = webhookPatience
		}
		opts.FollowSecrets = o.FollowSecrets
		var err error
		if m.hooks, err = webhooks.New(opts, "true"); err != nil {
			panic(err) // The namespace is there for a certificate.
		}
		o.WebhookServer = m.hooks.Server()
	}
}

// Webhooks has the API server ask about the resources of a namespace on a port of this machine, and returns the options of
// a manager that answers there. The certificate is in a folder, as one of cert-manager or OLM is.
func (p *Plane) Webhooks(t testing.TB, namespace string) webhooks.Options {
	t.Helper()
	opts, authority := LocalWebhooks(t)
	p.Ask(t, namespace, "-"+namespace, opts.Port, authority)
	return opts
}

// LocalWebhooks returns the options of a manager that answers on a port of this machine, and the authority to trust.
func LocalWebhooks(t testing.TB) (opts webhooks.Options, authority []byte) {
	t.Helper()
	made, err := localCertificate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, corev1.TLSCertKey), made.cert, 0o600),
		os.WriteFile(filepath.Join(dir, corev1.TLSPrivateKeyKey), made.key, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return webhooks.Options{Host: "127.0.0.1", Port: FreePort(t), CertDir: dir}, made.authority
}

// keyPair is a certificate with its key, and the authority that has signed it.
type keyPair struct{ authority, cert, key []byte }

// localCertificate makes a certificate for localhost, once for all tests: keys take long to find.
var localCertificate = sync.OnceValues(func() (*keyPair, error) {
	maker := rotator.CertRotator{CAName: "test", DNSName: "localhost", ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(2*time.Hour)
	authority, err := maker.CreateCACert(begin, end)
	if err != nil {
		return nil, err
	}
	cert, key, err := maker.CreateCertPEM(authority, begin, end)
	return &keyPair{authority.CertPEM, cert, key}, err
})

// Ask installs the webhook configurations of config/webhook for the resources of one namespace, with a suffix behind their
// names. They call a port of this machine, and trust an authority. The API server waits for an answer for longer than in
// production: what was not answered in time would count as allowed.
func (p *Plane) Ask(t testing.TB, namespace, suffix string, port int, authority []byte) {
	t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := Load("config/webhook/manifests.yaml", mutating, validating); err != nil {
		t.Fatal(err)
	}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	here := func(c *admissionregistrationv1.WebhookClientConfig) {
		c.URL = ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(port)) + *c.Service.Path)
		c.Service, c.CABundle = nil, authority
	}
	timeout := ptr.To(int32(webhookPatience / time.Second))
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].NamespaceSelector, mutating.Webhooks[i].TimeoutSeconds = only, timeout
		here(&mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].NamespaceSelector, validating.Webhooks[i].TimeoutSeconds = only, timeout
		here(&validating.Webhooks[i].ClientConfig)
	}
	for _, config := range []client.Object{mutating, validating} {
		config.SetName("app-operator-" + config.GetName() + suffix)
		p.Create(t, config)
		t.Cleanup(func() {
			ctx, cancel := cleanupContext()
			defer cancel()
			if err := p.Client.Delete(ctx, config); err != nil {
				t.Errorf("delete %s: %v", config.GetName(), err)
			}
		})
	}
}
