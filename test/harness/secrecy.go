package harness

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/controllers"
)

// Log is all that a manager has logged, at every level.
type Log struct {
	mu   sync.Mutex
	said strings.Builder
}

func (l *Log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.WriteString(line + "\n")
}

// String is what was logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// WithLog notes what the manager logs.
func WithLog(l *Log) Option {
	return func(_ *Manager, o *controllers.Options) {
		o.Logger = funcr.NewJSON(l.add, funcr.Options{Verbosity: allLevels})
	}
}

// allLevels is a verbosity that no message exceeds.
const allLevels = 100

// forms are the ways in which a text could give a value away: as it is, encoded, or as a hash, which can be tried.
func forms(value string) []string {
	sum := sha256.Sum256([]byte(value))
	return []string{
		value,
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "="),
		hex.EncodeToString([]byte(value)),
		hex.EncodeToString(sum[:8]),
		base64.StdEncoding.EncodeToString(sum[:9]),
	}
}

// Undisclosed fails the test if a value stands anywhere but in the objects named, each as "Kind/name": in any object of the
// namespace, whatever its kind, in what was logged, or in a metric. Of the Secrets named, the metadata is searched too.
func (p *Plane) Undisclosed(t testing.TB, namespace, value string, l *Log, except ...string) {
	t.Helper()
	p.undisclosed(t, namespace, value, l, []string{"CloudManager", "Secret", "StatefulSet", "Service", "Event"}, except)
}

// UndisclosedApps is Undisclosed for a namespace of Apps.
func (p *Plane) UndisclosedApps(t testing.TB, namespace, value string, l *Log, except ...string) {
	t.Helper()
	p.undisclosed(t, namespace, value, l, []string{"App", "Secret", "Deployment", "Service", "Event"}, except)
}

// undisclosed is Undisclosed for a namespace with objects of some kinds at least.
func (p *Plane) undisclosed(t testing.TB, namespace, value string, l *Log, kinds, except []string) {
	t.Helper()
	searched := map[string]int{}
	for _, obj := range p.everything(t, namespace) {
		where := obj.GetKind() + "/" + obj.GetName()
		searched[obj.GetKind()]++
		if slices.Contains(except, where) {
			if obj.GetKind() != "Secret" {
				continue
			}
			delete(obj.Object, "data")
		}
		data, err := json.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		search(t, where, string(data), value)
	}
	for _, kind := range kinds {
		if searched[kind] == 0 {
			t.Errorf("no %s was searched", kind)
		}
	}
	searchProcess(t, value, l)
}

// Unreported fails the test if a value stands in what the operator says: in the status of a custom resource of the
// namespace, in an event, in what was logged, or in a metric.
func (p *Plane) Unreported(t testing.TB, namespace, value string, l *Log) {
	t.Helper()
	searched := map[string]int{}
	for _, obj := range p.everything(t, namespace) {
		said := obj.Object
		switch {
		case obj.GroupVersionKind().Group == appv1.GroupVersion.Group:
			said, _, _ = unstructured.NestedMap(obj.Object, "status")
			searched["status"]++
		case obj.GetKind() == "Event":
			searched["Event"]++
		default:
			continue
		}
		data, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		search(t, obj.GetKind()+"/"+obj.GetName(), string(data), value)
	}
	if searched["status"] == 0 || searched["Event"] == 0 {
		t.Errorf("too little was searched: %v", searched)
	}
	searchProcess(t, value, l)
}

// searchProcess looks for a value in what the manager has logged, and in its metrics.
func searchProcess(t testing.TB, value string, l *Log) {
	t.Helper()
	if l.String() == "" {
		t.Error("nothing was logged")
	}
	search(t, "the log", l.String(), value)
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		search(t, "metric "+family.GetName(), family.String(), value)
	}
}

// search looks for every form of a value in a text.
func search(t testing.TB, where, text, value string) {
	t.Helper()
	for _, form := range forms(value) {
		if at := strings.Index(text, form); at >= 0 {
			t.Errorf("%s discloses the value: …%s…", where, text[max(0, at-80):min(len(text), at+len(form)+20)])
		}
	}
}

// everything returns all objects of a namespace, but those of a kind whose definition another test deletes meanwhile.
func (p *Plane) everything(t testing.TB, namespace string) []unstructured.Unstructured {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := d.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	var all []unstructured.Unstructured
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found := &unstructured.UnstructuredList{}
			found.SetGroupVersionKind(version.WithKind(resource.Kind))
			err := p.Client.List(t.Context(), found, client.InNamespace(namespace))
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found.Items...)
		}
	}
	return all
}
