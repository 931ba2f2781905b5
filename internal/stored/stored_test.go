package stored

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
)

// plainSpec and plainStatus are those of a plain App.
const (
	plainSpec = `{"replicas":2,"image":"registry.example.com/team/web:1.4.2","ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}],` +
		`"envs":[{"name":"LOG_LEVEL","value":"info"},{"name":"TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"web"}}}],` +
		`"resources":{"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"250m","memory":"256Mi"}},"rollingUpdate":"25%"}`
	plainStatus = `{"availableReplicas":2,"conditions":[` +
		`{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"2 pods available","observedGeneration":3,"reason":"Ready","status":"True","type":"Ready"},` +
		`{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"","observedGeneration":3,"reason":"Settled","status":"False","type":"Reconciling"},` +
		`{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"","observedGeneration":3,"reason":"NotStalled","status":"False","type":"Stalled"}],` +
		`"endpoint":"web.default.svc:80","observedGeneration":3,"ready":"2/2","readyReplicas":2,"rendering":2,"replicas":2,"selector":"app.huolala.cn/app=web","updatedReplicas":2}`
)

func plainApp() []byte {
	return []byte(`{"apiVersion":"app.huolala.cn/v1","kind":"App","metadata":{"name":"web","namespace":"default","uid":"3d0cf9a1-3e0a-4f65-9b2f-1e9f3f7f7b7e",` +
		`"resourceVersion":"123456","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"team":"a"}},"spec":` + plainSpec + `,"status":` + plainStatus + `}`)
}

// TestStoredIsTyped checks that the stored App decodes to what the typed one decodes to, and to the same after a copy and after
// it was encoded.
func TestStoredIsTyped(t *testing.T) {
	var want appv1.App
	if err := kjson.UnmarshalCaseSensitivePreserveInts(plainApp(), &want); err != nil {
		t.Fatal(err)
	}
	var app, again App
	if err := kjson.UnmarshalCaseSensitivePreserveInts(plainApp(), &app); err != nil {
		t.Fatal(err)
	}
	app.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	app.SetManagedFields(nil)
	copied, ok := app.DeepCopyObject().(*App)
	if !ok {
		t.Fatal("the copy has another type")
	}
	data, err := json.Marshal(&app)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string]*App{"itself": &app, "a copy": copied, "encoded": &again} {
		got, err := stored.Decode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	copied.Labels["team"], copied.Status.Value.Conditions[0].Reason = "b", "Other"
	if app.Labels["team"] != "a" || app.Status.Value.Conditions[0].Reason != "Ready" {
		t.Error("a copy shares what may be written to")
	}
}

// TestStatusIsTolerant checks that no status keeps a resource, or the list that it is in, from being decoded.
func TestStatusIsTolerant(t *testing.T) {
	for _, status := range []string{
		`null`, `"x"`, `[]`, `5`, `{"replicas":99999999999}`, `{"conditions":{}}`, `{"conditions":[{"lastTransitionTime":"soon"}]}`,
		`{"ready":"` + strings.Repeat("x", bounds.MaxStatus) + `"}`,
	} {
		var list AppList
		data := `{"items":[{"metadata":{"name":"web"},"spec":{},"status":` + status + `}]}`
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(data), &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%.40s: %v", status, err)
		}
		if !reflect.DeepEqual(list.Items[0].Status.Value, appv1.AppStatus{}) {
			t.Errorf("%.40s is %+v, want an empty one", status, list.Items[0].Status.Value)
		}
	}
}

// TestLongSpecIsNotKept checks that a spec which is never decoded takes no memory, that it counts as changed once it is, and
// that it is never written back.
func TestLongSpecIsNotKept(t *testing.T) {
	var one, same, other App
	for app, content := range map[*App]string{&one: "a", &same: "a", &other: "b"} {
		data := `{"metadata":{"name":"web"},"spec":{"image":"` + strings.Repeat(content, bounds.MaxSpec) + `"}}`
		if err := json.Unmarshal([]byte(data), app); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(one.Spec.json); n > 100 {
		t.Errorf("%d bytes are kept", n)
	}
	if !one.Raw().Equal(same.Raw()) || one.Raw().Equal(other.Raw()) {
		t.Error("long specs are compared wrongly")
	}
	if _, err := json.Marshal(&one); err == nil {
		t.Error("a spec that was not kept is encoded")
	}
}

// TestSchemeHasEachKind checks that the scheme has each kind that api/v1 has, and its list.
func TestSchemeHasEachKind(t *testing.T) {
	typed, kept := k8sruntime.NewScheme(), k8sruntime.NewScheme()
	if err := appv1.AddToScheme(typed); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(kept); err != nil {
		t.Fatal(err)
	}
	names := func(scheme *k8sruntime.Scheme) map[string]bool {
		found := map[string]bool{}
		for kind := range scheme.KnownTypes(appv1.GroupVersion) {
			found[kind] = true
		}
		return found
	}
	if diff := cmp.Diff(names(typed), names(kept)); diff != "" {
		t.Errorf("kinds (-typed +stored):\n%s", diff)
	}
	for kind, of := range kept.KnownTypes(appv1.GroupVersion) {
		obj, ok := reflect.New(of).Interface().(k8sruntime.Object)
		if !ok {
			t.Fatalf("%s is no object", kind)
		}
		if got := reflect.TypeOf(obj.DeepCopyObject()).Elem(); got != of {
			t.Errorf("a copy of a %s is a %s", kind, got)
		}
	}
}

// BenchmarkTyped is what it took to decode the typed App.
func BenchmarkTyped(b *testing.B) {
	data := plainApp()
	b.ReportAllocs()
	for b.Loop() {
		var app appv1.App
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &app); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStored is what the watch does for each event.
func BenchmarkStored(b *testing.B) {
	data := plainApp()
	b.ReportAllocs()
	for b.Loop() {
		var app App
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &app); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode is what a reconcile adds.
func BenchmarkDecode(b *testing.B) {
	var app App
	if err := kjson.UnmarshalCaseSensitivePreserveInts(plainApp(), &app); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := app.Decode(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck is the part of the bounds in that.
func BenchmarkCheck(b *testing.B) {
	t := reflect.TypeFor[appv1.AppSpec]()
	b.ReportAllocs()
	for b.Loop() {
		if err := bounds.Check([]byte(plainSpec), t, "spec"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeap reports the heap that an App takes in a cache, typed and stored.
func BenchmarkHeap(b *testing.B) {
	const n = 10_000
	typed, kept := make([]appv1.App, n), make([]App, n)
	report := func(name string, decode func(i int)) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			decode(i)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, name+"-B/object")
	}
	data := plainApp()
	for b.Loop() {
		report("typed", func(i int) { _ = kjson.UnmarshalCaseSensitivePreserveInts(data, &typed[i]) })
		report("stored", func(i int) { _ = kjson.UnmarshalCaseSensitivePreserveInts(data, &kept[i]) })
	}
	runtime.KeepAlive(typed)
	runtime.KeepAlive(kept)
}
