// Package certificate maintains a certificate for the webhooks of a manager without a certificate from another source: it makes an
// authority and a certificate signed by it, renews both in time, writes the authorities into the webhook configurations, and serves the
// certificate. The names of these objects come from its options alone.
//
// Every replica of the manager runs it, because every replica serves. Any replica renews a missing or old certificate. Of two simultaneous
// writes the API server rejects the later one, and that replica then uses the certificate of the other.
package certificate

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The keys of the Secret. The former authority is trusted until it expires, because a replica may still serve a certificate that the former
// authority signed.
const (
	keyAuthority = "ca.crt"
	keySigning   = "ca.key"
	keyFormer    = "former-ca.crt"
)

// The lifetimes for production, see Options.
const (
	defaultAuthority = 10 * 365 * 24 * time.Hour
	defaultValidity  = 365 * 24 * time.Hour
	defaultAhead     = 90 * 24 * time.Hour
	defaultSettle    = 10 * time.Second
	// lookAgain is the interval between checks of the expiry. Changes of the objects are watched.
	lookAgain = 12 * time.Hour
	// backdated is how far clocks may be apart.
	backdated = time.Hour
)

// Options describe the certificate to maintain.
type Options struct {
	// Secret is where the certificate is kept, with the authority that signs it. It is made if it does not exist.
	Secret types.NamespacedName
	// Hosts are the names that the certificate is for.
	Hosts []string
	// Validating and Mutating are the webhook configurations that get the authorities. They need not exist.
	Validating, Mutating string
	// Authority and Validity are how long a new authority and a new certificate are valid, Ahead is how long before its
	// end each is renewed. Defaults: ten years, a year, 90 days.
	Authority, Validity, Ahead time.Duration
	// Settle is how long a certificate of a new authority is held back, for every API server to learn of that. Default: 10 s.
	Settle time.Duration
}

// Keeper keeps a certificate. Make it with New.
type Keeper struct {
	opts   Options
	reader client.Reader
	writer client.Client
	served atomic.Pointer[tls.Certificate]
	// told is the authority that was last written into the webhook configurations; its certificates are held back up to the time until.
	// Reconcile alone uses them.
	told  []byte
	until time.Time
}

// New returns a keeper.
func New(opts Options) *Keeper {
	for given, standard := range map[*time.Duration]time.Duration{
		&opts.Authority: defaultAuthority, &opts.Validity: defaultValidity, &opts.Ahead: defaultAhead, &opts.Settle: defaultSettle,
	} {
		if *given == 0 {
			*given = standard
		}
	}
	return &Keeper{opts: opts}
}

// GetCertificate returns the certificate to serve, for a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.served.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("the certificate does not exist yet")
}

// Ready is a readiness check: it fails until there is a certificate to serve.
func (k *Keeper) Ready(*http.Request) error {
	_, err := k.GetCertificate(nil)
	return err
}

// Reconcile implements reconcile.Reconciler: it renews missing or expiring keys and certificates, writes the authorities into the webhook
// configurations, and then serves the certificate.
func (k *Keeper) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	if err := client.IgnoreNotFound(k.reader.Get(ctx, k.opts.Secret, secret)); err != nil {
		return ctrl.Result{}, fmt.Errorf("read the Secret of the certificate: %w", err)
	}
	now := time.Now()
	renewed, err := k.renewExpiring(secret, now)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("create a certificate: %w", err)
	}
	if renewed {
		// The watch of the Secret requeues the request.
		return ctrl.Result{}, k.writeSecret(ctx, secret)
	}
	switch err := k.injectBundles(ctx, caBundle(secret, now)); {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if wait := k.serveCertificate(secret, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{RequeueAfter: k.renewalDelay(secret, now)}, nil
}

// renewExpiring replaces the parts of the Secret that expire too soon, and reports whether it replaced any.
func (k *Keeper) renewExpiring(secret *corev1.Secret, now time.Time) (bool, error) {
	maker := rotator.CertRotator{
		CAName: k.opts.Secret.Name + "-ca", CAOrganization: k.opts.Secret.Name,
		DNSName: k.opts.Hosts[0], ExtraDNSNames: k.opts.Hosts[1:],
		ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	data, soon := secret.Data, now.Add(k.opts.Ahead)
	valid := isValidCert(data[keyAuthority], data[keyAuthority], data[keySigning], maker.CAName, nil, soon)
	if valid && !slices.ContainsFunc(k.opts.Hosts, func(host string) bool {
		return !isValidCert(data[keyAuthority], data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], host, maker.ExtKeyUsages, soon)
	}) {
		return false, nil
	}
	signing, usable := readAuthority(data)
	if !valid || !usable {
		var err error
		if signing, err = maker.CreateCACert(now.Add(-backdated), now.Add(k.opts.Authority)); err != nil {
			return false, err
		}
		secret.Data = map[string][]byte{keyFormer: data[keyAuthority], keyAuthority: signing.CertPEM, keySigning: signing.KeyPEM}
	}
	cert, key, err := maker.CreateCertPEM(signing, now.Add(-backdated), now.Add(k.opts.Validity))
	if err != nil {
		return false, err
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = cert, key
	return true, nil
}

// isValidCert reports whether the authority signed a certificate for a host, with its key, and the certificate is valid at a time.
func isValidCert(authority, cert, key []byte, host string, usages *[]x509.ExtKeyUsage, at time.Time) bool {
	ok, err := rotator.ValidCert(authority, cert, key, host, usages, at)
	return ok && err == nil
}

// readAuthority returns the authority, and whether it can sign: an authority of others may have a key of another kind, and is replaced.
func readAuthority(data map[string][]byte) (*rotator.KeyPairArtifacts, bool) {
	pair, err := tls.X509KeyPair(data[keyAuthority], data[keySigning])
	if err != nil {
		return nil, false
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	return &rotator.KeyPairArtifacts{Cert: pair.Leaf, Key: key, CertPEM: data[keyAuthority], KeyPEM: data[keySigning]}, ok
}

// writeSecret stores the Secret. If another replica was quicker, the watch delivers the Secret of that replica.
func (k *Keeper) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	var err error
	if secret.ResourceVersion == "" {
		secret.Namespace, secret.Name = k.opts.Secret.Namespace, k.opts.Secret.Name
		err = k.writer.Create(ctx, secret)
	} else {
		err = k.writer.Update(ctx, secret)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("write the Secret of the certificate: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Renewed the webhook certificate")
	return nil
}

// caBundle returns the authorities to trust: the signing authority, and the former authority while it is valid.
func caBundle(secret *corev1.Secret, now time.Time) []byte {
	if former := firstCertificate(secret.Data[keyFormer]); former == nil || former.NotAfter.Before(now) {
		return secret.Data[keyAuthority]
	}
	return bytes.Join([][]byte{secret.Data[keyAuthority], secret.Data[keyFormer]}, nil)
}

// serveCertificate serves the certificate of the Secret. A certificate of a new authority takes the place of another that is still trusted only
// after a while; serveCertificate returns how long that is from now. Where the Secret was removed the authority of before is trusted
// no longer.
func (k *Keeper) serveCertificate(secret *corev1.Secret, now time.Time) time.Duration {
	served := k.served.Load()
	if !bytes.Equal(k.told, secret.Data[keyAuthority]) {
		k.told, k.until = secret.Data[keyAuthority], now
		if served != nil && isTrusted(served.Leaf, caBundle(secret, now), now.Add(k.opts.Settle)) {
			k.until = now.Add(k.opts.Settle)
		}
	}
	if wait := k.until.Sub(now); wait > 0 {
		return wait
	}
	// It was found to be valid.
	if pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err == nil {
		k.served.Store(&pair)
	}
	return 0
}

// isTrusted reports whether a certificate is one of the authorities', at a time.
func isTrusted(cert *x509.Certificate, authorities []byte, at time.Time) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
	return err == nil
}

// renewalDelay is how long from now something in the Secret is to be renewed, or is no longer to be trusted.
func (k *Keeper) renewalDelay(secret *corev1.Secret, now time.Time) time.Duration {
	wait := lookAgain
	for key, ahead := range map[string]time.Duration{keyAuthority: k.opts.Ahead, corev1.TLSCertKey: k.opts.Ahead, keyFormer: 0} {
		if cert := firstCertificate(secret.Data[key]); cert != nil && cert.NotAfter.After(now) {
			wait = min(wait, cert.NotAfter.Add(-ahead).Sub(now)+time.Second)
		}
	}
	return max(wait, time.Second)
}

// firstCertificate reads the first certificate of a file, nil if there is none.
func firstCertificate(data []byte) *x509.Certificate {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return cert
}
