package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/util/keyutil"
)

func TestPKI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	ids, err := writePKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	ca, frontProxyCA := pool(t, ids.ca), pool(t, read(t, dir, "front-proxy-ca.crt"))

	serving := certificate(t, read(t, dir, "apiserver.crt"))
	for _, host := range []string{"127.0.0.1", "localhost", apiserverServiceIP, "kubernetes.default.svc"} {
		if _, err := serving.Verify(x509.VerifyOptions{Roots: ca, DNSName: host}); err != nil {
			t.Errorf("serving certificate for %s: %v", host, err)
		}
	}
	if err := verifyClient(serving, ca); err == nil {
		t.Error("the serving certificate passes for a client's")
	}

	for user, id := range map[string]keyPair{
		"admin":                          ids.admin,
		"system:kube-controller-manager": ids.controllerManager,
		"system:kube-scheduler":          ids.scheduler,
	} {
		cert := certificate(t, id.cert)
		if err := verifyClient(cert, ca); err != nil || cert.Subject.CommonName != user {
			t.Errorf("client certificate of %s (for %s): %v", cert.Subject.CommonName, user, err)
		}
		if masters := len(cert.Subject.Organization) == 1; masters != (user == "admin") {
			t.Errorf("groups of %s: %v", user, cert.Subject.Organization)
		}
		if err := verifyClient(cert, frontProxyCA); err == nil {
			t.Errorf("%s passes for the front proxy", user)
		}
	}
	if err := verifyClient(certificate(t, read(t, dir, "front-proxy.crt")), frontProxyCA); err != nil {
		t.Errorf("front proxy: %v", err)
	}

	// As the API server reads it: the public key comes out of the private one.
	keys, err := keyutil.PublicKeysFromFile(filepath.Join(dir, "service-account.key"))
	if err != nil || len(keys) != 1 {
		t.Errorf("service account keys: %v, %v", keys, err)
	}
}

func TestPKIIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := writePKI(dir); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) != 8 {
		t.Errorf("files: %v", paths)
	}
	for _, path := range append(paths, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %s", path, info.Mode())
		}
	}
}

func verifyClient(cert *x509.Certificate, roots *x509.CertPool) error {
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

func pool(t *testing.T, pemData []byte) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, pemData))
	return roots
}

func certificate(t *testing.T, pemData []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(pemData)
	if block == nil {
		t.Fatalf("no PEM: %q", pemData)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
