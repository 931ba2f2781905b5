package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	metricsGroup   = "metrics.k8s.io"
	metricsVersion = metricsGroup + "/v1beta1"
)

// podMetrics is a PodMetrics of metrics.k8s.io/v1beta1.
type podMetrics struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Timestamp         metav1.Time        `json:"timestamp"`
	Window            metav1.Duration    `json:"window"`
	Containers        []containerMetrics `json:"containers"`
}

type containerMetrics struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage"`
}

// load is the work that the pods of a namespace share evenly, in thousandths of a cpu.
type load struct{ millicores atomic.Int64 }

// metricsAPI is the resource metrics API, which the API server forwards to this process. It stands in for a metrics server:
// simulated nodes have no kubelet that measures, so what a pod uses is its share of a load that the test sets. All that comes after
// it is the cluster's own: the aggregation of the API, the controller of the autoscalers and the Deployment's. A namespace
// without a load has no metrics.
type metricsAPI struct {
	t     *testing.T
	loads map[string]*load
}

// serveMetrics makes the cluster have metrics for the namespaces of the loads until the test ends.
func serveMetrics(t *testing.T, loads map[string]*load) {
	t.Helper()
	api := &metricsAPI{t: t, loads: loads}
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	// Endpoints may not be loopback addresses. The name of a Service may.
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	ns := plane.Namespace(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "metrics"}}
	service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1",
		"kind":       "APIService",
		"metadata":   map[string]any{"name": "v1beta1." + metricsGroup},
		"spec": map[string]any{
			"group": metricsGroup, "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": ns, "name": service.Name, "port": int64(port)},
		},
	}}
	plane.Create(t, service, registration)
	t.Cleanup(func() {
		if err := plane.Client.Delete(context.Background(), registration); err != nil {
			t.Error(err)
		}
	})
	plane.Until(t, registration, func() error {
		conditions, _, err := unstructured.NestedSlice(registration.Object, "status", "conditions")
		available := slices.ContainsFunc(conditions, func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == "Available" && fields["status"] == "True"
		})
		if !available {
			return fmt.Errorf("the metrics API is not available: %v, %w", conditions, err)
		}
		return nil
	})
}

// ServeHTTP answers the API server: what there is, and the metrics of the pods of a namespace.
func (a *metricsAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	namespace, found := strings.CutPrefix(req.URL.Path, "/apis/"+metricsVersion+"/namespaces/")
	namespace, ofPods := strings.CutSuffix(namespace, "/pods")
	var answer any
	switch {
	case req.URL.Path == "/apis/"+metricsVersion:
		answer = &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: metricsVersion,
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
		}
	case found && ofPods:
		items, err := a.measure(req, namespace)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = map[string]any{"apiVersion": metricsVersion, "kind": "PodMetricsList", "metadata": map[string]any{}, "items": items}
	default:
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Logf("answer %s: %v", req.URL.Path, err)
	}
}

// measure shares the load of a namespace out among its pods that are ready.
func (a *metricsAPI) measure(req *http.Request, namespace string) ([]podMetrics, error) {
	of := a.loads[namespace]
	if of == nil {
		return []podMetrics{}, nil
	}
	selector, err := labels.Parse(req.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = plane.Client.List(req.Context(), &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	items := make([]podMetrics, 0, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		share := apiresource.NewMilliQuantity(of.millicores.Load()/int64(len(list.Items)), apiresource.DecimalSI)
		item := podMetrics{
			TypeMeta:   metav1.TypeMeta{APIVersion: metricsVersion, Kind: "PodMetrics"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name, Labels: pod.Labels},
			Timestamp:  metav1.NewTime(time.Now()),
		}
		for j := range pod.Spec.Containers {
			item.Containers = append(item.Containers, containerMetrics{
				Name: pod.Spec.Containers[j].Name, Usage: corev1.ResourceList{corev1.ResourceCPU: *share},
			})
		}
		items = append(items, item)
	}
	return items, nil
}
