package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is far longer than a cluster runs; the keys of a cluster are deleted with it.
const validity = 365 * 24 * time.Hour

// keyPair is a certificate and its private key, both as PEM.
type keyPair struct {
	cert, key []byte
}

// authority signs certificates.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

// newAuthority makes a self-signed certificate authority.
func newAuthority(commonName string) (*authority, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority %s: %w", commonName, err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{keyPair{certificatePEM(der), keyPEM}, parsed, key}, nil
}

// server issues a certificate to serve under the given host names and IP addresses.
func (a *authority) server(commonName string, hosts ...string) (keyPair, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

// client issues a certificate that makes its bearer the given user, in the given groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return keyPair{certificatePEM(der), keyPEM}, nil
}

func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // clocks get set back
		NotAfter:     now.Add(validity),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	// SEC 1, not PKCS #8: the API server derives the public key from the service accounts' private key,
	// and can do that for this form only.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// identities are the credentials of the clients of one cluster's API server.
type identities struct {
	ca                                  []byte
	admin, controllerManager, scheduler keyPair
}

// writePKI makes all keys and certificates of a cluster, writes the ones that its components read from files into dir, and returns the ones
// for kubeconfigs.
func writePKI(dir string) (*identities, error) {
	ca, err := newAuthority("app-operator-cluster")
	if err != nil {
		return nil, err
	}
	ids := &identities{ca: ca.cert}
	if ids.admin, err = ca.client("admin", "system:masters"); err != nil {
		return nil, err
	}
	if ids.controllerManager, err = ca.client("system:kube-controller-manager"); err != nil {
		return nil, err
	}
	if ids.scheduler, err = ca.client("system:kube-scheduler"); err != nil {
		return nil, err
	}
	serving, err := ca.server(apiserverName, "127.0.0.1", "localhost", apiserverServiceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return nil, err
	}
	// An authority of its own, so that no client certificate of the cluster passes for the front proxy.
	frontProxyCA, err := newAuthority("app-operator-cluster-front-proxy")
	if err != nil {
		return nil, err
	}
	frontProxy, err := frontProxyCA.client(frontProxyName)
	if err != nil {
		return nil, err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return nil, err
	}
	return ids, writeSecrets(dir, map[string][]byte{
		"ca.crt": ca.cert, "ca.key": ca.key,
		"apiserver.crt": serving.cert, "apiserver.key": serving.key,
		"front-proxy-ca.crt": frontProxyCA.cert,
		"front-proxy.crt":    frontProxy.cert, "front-proxy.key": frontProxy.key,
		"service-account.key": serviceAccountKey,
	})
}

func writeSecrets(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
