package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// fakeReader has some resources of each kind in its cache.
type fakeReader struct {
	apps          []stored.App
	cloudManagers []stored.CloudManager
	// others has the JSON of a resource of each further kind by the type of its list.
	others map[string]string
	// unsynced are the kinds that were never listed.
	unsynced map[string]bool
	err      error
}

// List implements resourceReader.
func (r *fakeReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *stored.AppList:
		l.Items = r.apps
	case *stored.CloudManagerList:
		l.Items = r.cloudManagers
	default:
		if item, ok := r.others[fmt.Sprintf("%T", list)]; ok {
			return json.Unmarshal([]byte(`{"items":[`+item+`]}`), list)
		}
	}
	return r.err
}

// fakeInformer has been synced, or not.
type fakeInformer struct {
	cache.Informer
	synced bool
}

// HasSynced implements cache.Informer.
func (i fakeInformer) HasSynced() bool { return i.synced }

// GetInformer implements resourceReader.
func (r *fakeReader) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return fakeInformer{synced: !r.unsynced[fmt.Sprintf("%T", obj)]}, nil
}

var since = metav1.Unix(1_700_000_000, 0)

// storedApp returns an App by its conditions, each as "Ready=False Reason".
func storedApp(name string, conditions ...string) stored.App {
	app := stored.App{}
	app.Namespace, app.Name, app.UID, app.CreationTimestamp = "shop", name, types.UID(name), metav1.Unix(1_600_000_000, 0)
	for _, text := range conditions {
		c := metav1.Condition{LastTransitionTime: since}
		var status string
		if _, err := fmt.Sscanf(strings.ReplaceAll(text, "=", " "), "%s %s %s", &c.Type, &status, &c.Reason); err != nil {
			panic(text)
		}
		c.Status = metav1.ConditionStatus(status)
		app.Status.Value.Conditions = append(app.Status.Value.Conditions, c)
	}
	return app
}

const notStalled = appv1.ConditionStalled + "=False " + appv1.ReasonNotStalled

// TestResourceMetrics checks which series there are of resources in each state.
func TestResourceMetrics(t *testing.T) { synctest.Test(t, testResourceMetrics) }

func testResourceMetrics(t *testing.T) {
	leaving := storedApp("leaving", "Ready=False Progressing", "Stalled=True Invalid", "Reconciling=False Paused")
	now := metav1.NewTime(time.Unix(1_700_000_001, 0))
	leaving.DeletionTimestamp = &now
	outdated := storedApp("outdated", "Ready=True Ready", notStalled)
	outdated.Status.Value.Defaults = &appv1.DefaultsInUse{}
	outdated.Status.Value.LatestRendering, outdated.Status.Value.LatestSize = 2, "small"
	stack := stored.CloudManager{}
	stack.Namespace, stack.Name, stack.UID, stack.CreationTimestamp = "shop", "stack", "stack", since
	stack.Status.Value.DB.LatestSize, stack.Status.Value.Front.LatestRendering, stack.Status.Value.Identity.LatestRendering = "large", 2, 2
	reader := &fakeReader{
		apps: []stored.App{
			storedApp("well", "Ready=True Ready", notStalled, "Reconciling=False Settled"),
			storedApp("new"),
			storedApp("slow", "Ready=False Progressing", notStalled, "Reconciling=True Progressing"),
			storedApp("stuck", "Ready=False ImagePullBackOff", "Stalled=True ImagePullBackOff", "Reconciling=False ImagePullBackOff"),
			storedApp("paused", "Ready=Unknown Paused", notStalled, "Reconciling=False Paused"),
			outdated, leaving,
		},
		cloudManagers: []stored.CloudManager{stack},
		unsynced:      map[string]bool{"*stored.ModelBox": true},
	}
	m := &resourceMetrics{readers: map[resourceReader]struct{}{}}
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("a stand-by has %d series", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	start := func(reader resourceReader) {
		go func() { ended <- m.whileWorking(reader)(ctx) }()
	}
	start(reader)
	start(&fakeReader{apps: reader.apps[:2], unsynced: map[string]bool{"*stored.CloudManager": true, "*stored.ModelBox": true}})
	start(&fakeReader{err: errors.New("no")})
	synctest.Wait()
	const want = `
# HELP app_operator_resource_not_ready_since_timestamp_seconds Since when a custom resource is not ready, by the reason of its Ready condition, or NotReconciled.
# TYPE app_operator_resource_not_ready_since_timestamp_seconds gauge
app_operator_resource_not_ready_since_timestamp_seconds{kind="App",name="new",namespace="shop",reason="NotReconciled"} 1.6e+09
app_operator_resource_not_ready_since_timestamp_seconds{kind="App",name="slow",namespace="shop",reason="Progressing"} 1.7e+09
app_operator_resource_not_ready_since_timestamp_seconds{kind="App",name="stuck",namespace="shop",reason="ImagePullBackOff"} 1.7e+09
app_operator_resource_not_ready_since_timestamp_seconds{kind="CloudManager",name="stack",namespace="shop",reason="NotReconciled"} 1.7e+09
# HELP app_operator_resource_paused 1 for each custom resource with spec.paused.
# TYPE app_operator_resource_paused gauge
app_operator_resource_paused{kind="App",name="paused",namespace="shop"} 1
# HELP app_operator_resource_stalled 1 for each custom resource that needs a change by a user, by the reason of its Stalled condition.
# TYPE app_operator_resource_stalled gauge
app_operator_resource_stalled{kind="App",name="stuck",namespace="shop",reason="ImagePullBackOff"} 1
# HELP app_operator_resources Number of custom resources, by the reason of their Ready condition.
# TYPE app_operator_resources gauge
app_operator_resources{kind="App",namespace="shop",reason="ImagePullBackOff"} 1
app_operator_resources{kind="App",namespace="shop",reason="NotReconciled"} 1
app_operator_resources{kind="App",namespace="shop",reason="Paused"} 1
app_operator_resources{kind="App",namespace="shop",reason="Progressing"} 2
app_operator_resources{kind="App",namespace="shop",reason="Ready"} 2
app_operator_resources{kind="CloudManager",namespace="shop",reason="NotReconciled"} 1
# HELP app_operator_resources_outdated Number of custom resources that have an earlier rendering of their pod template, an earlier meaning of their size, or earlier defaults.
# TYPE app_operator_resources_outdated gauge
app_operator_resources_outdated{kind="App",what="defaults"} 1
app_operator_resources_outdated{kind="App",what="rendering"} 1
app_operator_resources_outdated{kind="App",what="size"} 1
app_operator_resources_outdated{kind="CloudManager",what="rendering"} 1
app_operator_resources_outdated{kind="CloudManager",what="size"} 1
app_operator_resources_outdated{kind="Task",what="rendering"} 0
app_operator_resources_outdated{kind="Task",what="size"} 0
app_operator_resources_outdated{kind="UnitedDeployment",what="rendering"} 0
app_operator_resources_outdated{kind="UnitedDeployment",what="size"} 0
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	cancel()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("after its end a manager has %d series", n)
	}
}

// TestNamedSeriesAreBounded has many resources of one namespace, and few of another, stalled: of the many, the first by their names have series, at each
// scrape the same ones, and all are counted.
func TestNamedSeriesAreBounded(t *testing.T) {
	const many, few = maxNamed + 300, 3
	reader := &fakeReader{}
	for i := range many + few {
		app := storedApp(fmt.Sprintf("app-%04d", i), "Ready=False Invalid", "Stalled=True Invalid", "Reconciling=False Invalid")
		if i >= many {
			app.Namespace = "quiet"
		}
		reader.apps = append(reader.apps, app)
	}
	m := &resourceMetrics{readers: map[resourceReader]struct{}{reader: {}}}
	for range 2 {
		rand.Shuffle(len(reader.apps), func(i, j int) { reader.apps[i], reader.apps[j] = reader.apps[j], reader.apps[i] })
		registry := prometheus.NewPedanticRegistry()
		if err := registry.Register(m); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		named, last, counted := map[string]int{}, "", 0.0
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				switch family.GetName() {
				case "app_operator_resource_stalled":
					named[labels["namespace"]]++
					if labels["namespace"] == "shop" {
						last = max(last, labels["name"])
					}
				case "app_operator_resources":
					counted += metric.GetGauge().GetValue()
				}
			}
		}
		if named["shop"] != maxNamed || named["quiet"] != few || last != fmt.Sprintf("app-%04d", maxNamed-1) || counted != many+few {
			t.Errorf("%v series, the last is %s, and %.0f resources are counted", named, last, counted)
		}
	}
}

// TestEachKindIsObserved has one stalled resource of each kind: the metrics name each of them, and count it.
func TestEachKindIsObserved(t *testing.T) {
	const item = `{"metadata":{"namespace":"shop","name":"web","uid":"u"},"status":{"conditions":[
		{"type":"Stalled","status":"True","reason":"Invalid"},{"type":"Ready","status":"False","reason":"Invalid"}]}}`
	for _, k := range allKinds() {
		t.Run(k.Name, func(t *testing.T) {
			reader := &fakeReader{others: map[string]string{}}
			list := k.list()
			if err := json.Unmarshal([]byte(`{"items":[`+item+`]}`), list); err != nil {
				t.Fatal(err)
			}
			switch l := list.(type) {
			case *stored.AppList:
				reader.apps = l.Items
			case *stored.CloudManagerList:
				reader.cloudManagers = l.Items
			default:
				reader.others[fmt.Sprintf("%T", list)] = item
			}
			summary := newResourceSummary(&k, false)
			if !summary.addKind(t.Context(), reader, &k) {
				t.Fatal("the kind is not known")
			}
			if got := summary.counts[countKey{namespace: "shop", reason: "Invalid"}]; got != 1 {
				t.Errorf("%d resources are counted: %v", got, summary.counts)
			}
			if len(summary.named) == 0 {
				t.Error("no series names the resource")
			}
		})
	}
}
