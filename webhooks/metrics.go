package webhooks

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"huolala.cn/app-operator/internal/metrics"
)

// reviews counts the answers.
var reviews = metrics.AdmissionReviews.NewCounter()

// expiry is the metric of the certificate that this process serves.
var expiry = &expiryMetric{desc: metrics.CertificateExpiry.Desc()}

func init() { ctrlmetrics.Registry.MustRegister(reviews, expiry) }

// counted counts the answers of another handler.
type counted struct {
	admission.Handler
	kind string
}

// Handle implements admission.Handler.
func (c counted) Handle(ctx context.Context, req admission.Request) admission.Response {
	answer := c.Handler.Handle(ctx, req)
	result := "allowed"
	switch {
	case !answer.Allowed:
		result = "denied"
	case len(answer.Warnings) > 0:
		result = "warned"
	}
	reviews.WithLabelValues(c.kind, result).Inc()
	return answer
}

// expiryMetric reports the certificate's expiry at each scrape.
type expiryMetric struct {
	desc     *prometheus.Desc
	webhooks atomic.Pointer[Webhooks]
}

// Describe implements prometheus.Collector.
func (m *expiryMetric) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *expiryMetric) Collect(ch chan<- prometheus.Metric) {
	if w := m.webhooks.Load(); w != nil {
		if at, ok := w.certificateExpiry(); ok {
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(at.Unix()))
		}
	}
}

// certificateExpiry returns when the certificate expires, and whether there is one: the keeper's certificate, or the certificate in
// CertDir, which another component renews.
func (w *Webhooks) certificateExpiry() (time.Time, bool) {
	if w.keeper != nil {
		served, err := w.keeper.GetCertificate(nil)
		if err != nil {
			return time.Time{}, false
		}
		return served.Leaf.NotAfter, true
	}
	file, err := os.ReadFile(filepath.Join(w.opts.CertDir, corev1.TLSCertKey))
	if err != nil {
		return time.Time{}, false
	}
	block, _ := pem.Decode(file)
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}
