package webhooks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// fixedAnswer answers each review in the same way.
type fixedAnswer admission.Response

// Handle implements admission.Handler.
func (a fixedAnswer) Handle(context.Context, admission.Request) admission.Response {
	return admission.Response(a)
}

// TestReviewsAreCounted has each answer passed on as it is, and counted by what it says.
func TestReviewsAreCounted(t *testing.T) {
	for result, answer := range map[string]admission.Response{
		"allowed": admission.Allowed(""),
		"warned":  admission.Allowed("").WithWarnings("a field has no effect"),
		"denied":  {AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Warnings: []string{"and so on"}}},
	} {
		reviews.Reset()
		got := counted{fixedAnswer(answer), "App"}.Handle(t.Context(), admission.Request{})
		if got.Allowed != answer.Allowed || len(got.Warnings) != len(answer.Warnings) {
			t.Errorf("%s: the answer is %+v", result, got)
		}
		if n := testutil.ToFloat64(reviews.WithLabelValues("App", result)); n != 1 || testutil.CollectAndCount(reviews) != 1 {
			t.Errorf("%s: counted %g times, in %d series", result, n, testutil.CollectAndCount(reviews))
		}
	}
}

// TestCertificateExpiry reads the end of a certificate in a folder at each scrape, as another component renews it.
func TestCertificateExpiry(t *testing.T) {
	dir := t.TempDir()
	w, err := New(Options{CertDir: dir}, "true")
	if err != nil {
		t.Fatal(err)
	}
	m := &expiryMetric{desc: expiry.desc}
	expect := func(when string, want int) {
		t.Helper()
		if n := testutil.CollectAndCount(m); n != want {
			t.Errorf("%s there are %d series, want %d", when, n, want)
		}
	}
	expect("without webhooks", 0)
	m.webhooks.Store(w)
	expect("without a certificate", 0)
	maker := rotator.CertRotator{CAName: "test", DNSName: "localhost"}
	for _, end := range []time.Time{time.Unix(2_000_000_000, 0), time.Unix(2_100_000_000, 0)} {
		authority, err := maker.CreateCACert(time.Unix(1_000_000_000, 0), end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tls.crt"), authority.CertPEM, 0o600); err != nil {
			t.Fatal(err)
		}
		expect("with a certificate", 1)
		if got := testutil.ToFloat64(m); got != float64(end.Unix()) {
			t.Errorf("it expires at %g, want %d", got, end.Unix())
		}
	}
	for _, broken := range []string{"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("with a broken file", 0)
	}
	if w, err = New(Options{OwnNamespace: "system"}, "true"); err != nil {
		t.Fatal(err)
	}
	m.webhooks.Store(w)
	expect("before the manager has made one", 0)
}
