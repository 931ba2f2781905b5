package certificate

import (
	"bytes"
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
