package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHeldBack renews what a keeper serves. A certificate of a new authority waits while the old one is trusted, and no longer.
func TestHeldBack(t *testing.T) {
	k := New(Options{Secret: types.NamespacedName{Namespace: "system", Name: "cert"}, Hosts: []string{"localhost"}, Settle: time.Hour})
	secret, now := &corev1.Secret{}, time.Now()
	for _, c := range []struct {
		what string
		lose func()
		held bool
	}{
		{"the first one", func() {}, false},
		{"another of the same authority", func() { delete(secret.Data, corev1.TLSCertKey) }, false},
		{"one of another authority", func() { delete(secret.Data, keySigning) }, true},
		{"one of a Secret that was removed", func() { secret.Data = nil }, false},
	} {
		before := k.served.Load()
		c.lose()
		secret.ResourceVersion = c.what
		if renewed, err := k.renewExpiring(secret, now); !renewed || err != nil {
			t.Fatalf("%s: renewed is %t, %v", c.what, renewed, err)
		}
		if wait := k.serveCertificate(secret, now); wait > 0 != c.held || c.held != (k.served.Load() == before) {
			t.Errorf("%s is held back for %s, want that to be %t", c.what, wait, c.held)
		}
		if c.held && k.serveCertificate(secret, now.Add(time.Hour)) != 0 {
			t.Errorf("%s is held back for more than an hour", c.what)
		}
		if served := k.served.Load(); !bytes.Equal(served.Leaf.Raw, firstCertificate(secret.Data[corev1.TLSCertKey]).Raw) {
			t.Errorf("%s is not served in the end", c.what)
		}
	}
}

// TestAuthorityOfOthers has an authority whose key is in another form, and another whose key is of another kind. The first signs a certificate; the
// second is replaced once its certificate has to be renewed, and stays trusted as the former one.
func TestAuthorityOfOthers(t *testing.T) {
	k := New(Options{Secret: types.NamespacedName{Namespace: "system", Name: "cert"}, Hosts: []string{"localhost"}, Settle: time.Hour})
	secret, now := &corev1.Secret{}, time.Now()
	if renewed, err := k.renewExpiring(secret, now); !renewed || err != nil {
		t.Fatal(renewed, err)
	}
	block, _ := pem.Decode(secret.Data[keySigning])
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	before := secret.Data[keyAuthority]
	secret.Data[keySigning] = encode(key)
	delete(secret.Data, corev1.TLSCertKey)
	if renewed, err := k.renewExpiring(secret, now); !renewed || err != nil || !bytes.Equal(secret.Data[keyAuthority], before) {
		t.Errorf("another form of the key: renewed is %t, %v", renewed, err)
	}

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := *firstCertificate(before)
	template.SignatureAlgorithm, template.PublicKeyAlgorithm, template.PublicKey = 0, 0, nil
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, other.Public(), other)
	if err != nil {
		t.Fatal(err)
	}
	theirs := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret.Data[keyAuthority], secret.Data[keySigning] = theirs, encode(other)
	delete(secret.Data, corev1.TLSCertKey)
	if renewed, err := k.renewExpiring(secret, now); !renewed || err != nil || !bytes.Equal(secret.Data[keyFormer], theirs) {
		t.Errorf("another kind of key: renewed is %t, %v", renewed, err)
	}
	if renewed, err := k.renewExpiring(secret, now); renewed || err != nil {
		t.Errorf("afterwards: renewed is %t, %v", renewed, err)
	}
}
