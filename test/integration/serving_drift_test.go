package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// servedFields are fields around the pods: one of each way in which the API server keeps what it is given.
const servedFields = `
labels: {team: red}
annotations: {example.com/of: all}
serviceAccount: {annotations: {role: web}}
ingress: {className: nginx, tls: {secretName: tls}, annotations: {a: b}, rules: [{host: a.example.com, paths: [/, /api]}, {host: "*.example.com"}]}
httpRoute: {parentRefs: [{name: public, namespace: gateways, sectionName: https, port: 443}], hostnames: [a.example.com], paths: [/api], annotations: {a: b}}
autoscaling: {minReplicas: 2, maxReplicas: 10, behavior: {scaleUp: {stabilizationWindowSeconds: 60, policies: [{type: Pods, value: 1, periodSeconds: 60}]}, scaleDown: {selectPolicy: Min}}}
disruptionBudget: {minAvailable: 50%, unhealthyPodEvictionPolicy: IfHealthyBudget}
networkPolicy: {ingress: [{from: [{podSelector: {matchLabels: {a: b}}}], ports: [{port: 80}]}], egress: []}
podMonitor: {path: /m, interval: 30s, labels: {release: prometheus}}
`

// unrepairedAround are the changes of objects around the pods that need no repair. All others must be repaired.
var unrepairedAround = map[string]string{
	"HTTPRoute .spec.parentRefs changed":                                    refused,
	"HorizontalPodAutoscaler .spec.behavior.scaleDown.selectPolicy changed": refused,
	"HorizontalPodAutoscaler .spec.maxReplicas removed":                     refused,
	"HorizontalPodAutoscaler .spec.scaleTargetRef.apiVersion changed":       refused,
	"HorizontalPodAutoscaler .spec.scaleTargetRef.apiVersion removed":       refused,
	"HorizontalPodAutoscaler .spec.scaleTargetRef.kind removed":             refused,
	"HorizontalPodAutoscaler .spec.scaleTargetRef.name removed":             refused,
	"Ingress .spec.rules removed":                                           refused,
	"NetworkPolicy .spec.policyTypes changed":                               refused,
	"PodDisruptionBudget .spec.minAvailable changed":                        refused,
	"PodDisruptionBudget .spec.unhealthyPodEvictionPolicy changed":          refused,
}

// optionalTypes are empty objects of the types around the pods.
func optionalTypes() []client.Object {
	var types []client.Object
	for _, obj := range childTypes() {
		if children.TypeOf(obj).Auxiliary {
			types = append(types, obj)
		}
	}
	return types
}

// TestServingDrift changes and removes each field that is applied to an object around the pods, one at a time, as another writer
// does. All must be repaired.
func TestServingDrift(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	for _, empty := range optionalTypes() {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", empty), "*v1.")
		kind = strings.TrimPrefix(kind, "*v2.")
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns := p.Namespace(t)
			clk := clocktesting.NewFakePassiveClock(time.Now())
			p.Start(t, ns, harness.WithClock(clk))
			app := newServed(ns, "web")
			if err := yaml.UnmarshalStrict([]byte(servedFields), &app.Spec); err != nil {
				t.Fatal(err)
			}
			p.Create(t, app)
			p.Stands(t, app, "Applied=True")
			child, ok := empty.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatalf("%T is no object", empty)
			}
			child.SetNamespace(ns)
			child.SetName("web")
			found, edits := map[string]string{}, 0
			p.Read(t, child)
			for path := range ownedFields(t, child).All() {
				path = path.Copy()
				for _, how := range []string{"changed", "removed"} {
					// More repairs in a minute would count as a fight.
					clk.SetTime(clk.Now().Add(10 * time.Minute))
					what := fmt.Sprintf("%s %s %s", kind, path, how)
					edits++
					if outcome := driftField(t, p, asUnstructured(t, p, child), path, what); outcome != repaired {
						found[what] = outcome
					}
				}
			}
			want := map[string]string{}
			for what, outcome := range unrepairedAround {
				if plane.Minor(t) < 34 && strings.Contains(what, "scaleTargetRef.apiVersion") {
					continue // Older API servers do not validate the version, and the change is repaired.
				}
				if strings.HasPrefix(what, kind+" ") {
					want[what] = outcome
				}
			}
			if diff := gocmp.Diff(want, found); diff != "" {
				t.Errorf("not repaired (-want +got):\n%s", diff)
			}
			if edits == 0 {
				t.Error("no field was edited")
			}
		})
	}
}

// TestRandomEditsAreRepaired edits a random field of each object around the pods of random specs. What lives must then be what a plain
// create of the same objects gives.
func TestRandomEditsAreRepaired(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns, m := p.Shared(t)
	src := specs.Random(t)
	createRandom(t, p, ns, specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150))/2, changeableSpec, src)
	m.Idle(t)
	made := map[string]int{}
	for _, empty := range optionalTypes() {
		list := p.ListOf(t, empty)
		if err := p.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok && metav1.GetControllerOf(obj) != nil && editRandom(t, p, obj, src) {
				made[fmt.Sprintf("%T", obj)]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	m.Idle(t)
	for _, cr := range awaitStatuses(t, p, ns) {
		compareObjects(t, p, cr)
	}
	t.Logf("edits: %v", made)
	if len(made) != len(optionalTypes()) {
		t.Errorf("objects of %d types were edited, want all %d: %v", len(made), len(optionalTypes()), made)
	}
}

// editRandom edits one of the fields that are applied to an object, and reports whether the API server has taken it.
func editRandom(t *testing.T, p *harness.Plane, obj client.Object, src *rand.Rand) bool {
	t.Helper()
	var paths []fieldpath.Path
	for path := range ownedFields(t, obj).All() {
		paths = append(paths, path.Copy())
	}
	for range 10 {
		edited := asUnstructured(t, p, obj)
		path, removed := paths[src.IntN(len(paths))], src.IntN(2) == 0
		if !editField(edited, path, removed) {
			continue
		}
		switch err := p.Client.Update(t.Context(), edited, intruder); {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		case err != nil:
			text, _ := json.Marshal(edited)
			t.Fatalf("%s: %v\n%s", path, err, text)
		default:
			return true
		}
	}
	return false
}
