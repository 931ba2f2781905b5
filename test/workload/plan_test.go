package workload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/specs"
)

// planPairs is how many random pairs of specs are planned, unless PLAN_PAIRS says otherwise.
const planPairs = 12

// randomPair returns the n-th pair of specs of an App: unrelated ones, one and the same, or with a few fields that differ.
func randomPair(src *rand.Rand, n int) (was, is map[string]any) {
	spec := func() map[string]any {
		made := specs.Accepted(src)
		if src.IntN(2) == 0 {
			made = map[string]any{"image": "nginx", "ports": []any{map[string]any{"port": int64(80)}}}
		}
		made["replicas"] = int64(src.IntN(3))
		delete(made, "serviceAccountName") // Without the account there are no pods.
		delete(made, "minReadySeconds")    // What follows the readiness of the pods is a part of the plan.
		addBlocks(src, made)
		return made
	}
	was, other := spec(), spec()
	is = maps.Clone(was)
	switch sort := src.IntN(4); {
	case n == 0: // One pair replaces pods for sure, and one does not. Pods of a random spec may not start.
		return map[string]any{"image": "nginx:1", "replicas": int64(1)}, map[string]any{"image": "nginx:2", "replicas": int64(1)}
	case n == 1, sort == 1:
		is["replicas"] = other["replicas"]
		return was, is
	case sort == 0:
		return was, other
	}
	keys := slices.Sorted(maps.Keys(other))
	for range 1 + src.IntN(2) {
		key := keys[src.IntN(len(keys))]
		is[key] = other[key]
	}
	return was, is
}

// addBlocks adds to a spec some of what can stand around the pods, and often a name of the Service.
func addBlocks(src *rand.Rand, spec map[string]any) {
	// Two of the kinds are not served here. The pods of a spec with a command follow in a later reconcile than the one that is compared; the
	// tests of the controllers compare its plan.
	specs.Serve(src, spec, "httpRoute", "podMonitor", "beforeRollout")
	if canary, ok := spec["canary"].(map[string]any); ok && canary["after"] != nil {
		canary["after"] = "10m" // An automatic promotion after a second is another change than the planned one.
	}
	if src.IntN(2) > 0 {
		return
	}
	service, ok := spec["service"].(map[string]any)
	if !ok {
		service = map[string]any{}
		spec["service"] = service
	}
	service["name"] = fmt.Sprintf("svc-%d", src.IntN(1<<30))
}

// isReady reports whether an App is Ready: its pods, and the Service that leads to them.
func isReady(t *testing.T, ns, name string) bool {
	t.Helper()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	plane.Read(t, app)
	return meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady)
}

// isRefused fails the test unless an App without a Deployment says that its spec, or the Deployment of it, is refused.
func isRefused(t *testing.T, ns, name string) {
	t.Helper()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	plane.Read(t, app)
	applied := ptr.Deref(meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionApplied), metav1.Condition{})
	reasons := []string{appv1.ReasonInvalid, appv1.ReasonForbidden}
	t.Logf("%s has no Deployment: %s: %s", name, applied.Reason, applied.Message)
	if app.Status.ObservedGeneration != app.Generation || applied.Status != metav1.ConditionFalse || !slices.Contains(reasons, applied.Reason) {
		t.Errorf("%s has no Deployment, and nothing says why: %+v", name, app.Status.Conditions)
	}
}

// settled waits until the pods of a Deployment are all ready, or one cannot be.
func settled(t *testing.T, ns, name string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var d appsv1.Deployment
		if err := plane.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: name}, &d); err != nil {
			return err
		}
		wanted, is := ptr.Deref(d.Spec.Replicas, 1), &d.Status
		if is.ObservedGeneration >= d.Generation && is.Replicas == wanted && is.UpdatedReplicas == wanted && is.AvailableReplicas == wanted {
			return nil
		}
		if slices.ContainsFunc(is.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		}) {
			return nil
		}
		var pods corev1.PodList
		if err := plane.Client.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{appv1.LabelInstance: name}); err != nil {
			return err
		}
		if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			})
		}) {
			return nil
		}
		return fmt.Errorf("the pods of Deployment %s are neither ready nor in trouble: %+v", name, *is)
	})
}

// currentReplicaSet waits until the Deployment's controller has seen its latest change and has made all pods, and returns the
// ReplicaSet that it runs, and how many pods there are.
func currentReplicaSet(t *testing.T, ns, name string) (current string, pods int32) {
	t.Helper()
	harness.Eventually(t, func() error {
		var d appsv1.Deployment
		if err := plane.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: name}, &d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration < d.Generation || d.Annotations["deployment.kubernetes.io/revision"] == "" {
			return fmt.Errorf("Deployment %s is not seen yet", name)
		}
		refused := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		})
		if d.Status.Replicas < ptr.Deref(d.Spec.Replicas, 1) && !refused {
			return fmt.Errorf("Deployment %s has %d pods", name, d.Status.Replicas)
		}
		var sets appsv1.ReplicaSetList
		if err := plane.Client.List(t.Context(), &sets, client.InNamespace(ns)); err != nil {
			return err
		}
		for i := range sets.Items {
			set := &sets.Items[i]
			if metav1.IsControlledBy(set, &d) && set.Annotations["deployment.kubernetes.io/revision"] == d.Annotations["deployment.kubernetes.io/revision"] {
				current, pods = set.Name, d.Status.Replicas
				return nil
			}
		}
		return fmt.Errorf("Deployment %s has no current ReplicaSet", name)
	})
	return current, pods
}

// pair is one App and the plan of its change.
type pair struct {
	name    string
	is      map[string]any
	made    *plan.Plan
	objects map[string]string
	set     string
	pods    int32
	// ready is true if the App is Ready after the change.
	ready bool
}

// TestPlanEquivalence plans the change from one random spec to another and makes it: the plan says that pods are replaced if and
// only if another ReplicaSet is the Deployment's current one afterwards and pods ran, and the objects that have changed are
// exactly the planned ones.
func TestPlanEquivalence(t *testing.T) {
	t.Parallel()
	n, src := specs.Number(t, "PLAN_PAIRS", planPairs), specs.Random(t)
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithWebhooks(plane.Webhooks(t, ns)))
	var pairs []*pair
	var replaced, changed, problems, refused, dropped, stuck int
	for try := 0; len(pairs) < n; try++ {
		if try > 10*n+20 {
			t.Fatalf("%d of %d specs are refused", refused, try)
		}
		was, is := randomPair(src, len(pairs))
		p := &pair{name: fmt.Sprintf("a%d", try), is: is}
		switch err := plane.Client.Create(t.Context(), appOf(ns, p.name, was)); {
		case err == nil:
			pairs = append(pairs, p)
		case apierrors.IsInvalid(err):
			refused++ // A rule refuses what two specs make together.
		case !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTooManyRequests(err): // A busy machine is tried again.
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	m.Idle(t)
	pairs = slices.DeleteFunc(pairs, func(p *pair) bool {
		p.objects = plane.Snapshot(t, ns, p.name)
		if p.objects["Deployment "+p.name] == "" {
			dropped++
			isRefused(t, ns, p.name)
			return true
		}
		settled(t, ns, p.name)
		return false
	})
	m.Idle(t)
	for _, p := range pairs {
		p.objects = plane.Snapshot(t, ns, p.name)
		p.set, p.pods = currentReplicaSet(t, ns, p.name)
		err := updateApp(t, ns, p, map[string]string{appv1.AnnotationPlan: plan.Request}, client.DryRunAll)
		var wrong error
		if p.made, wrong = plan.Decode(err); wrong != nil {
			if !apierrors.IsInvalid(err) {
				t.Fatalf("%s: %v: %v", p.name, wrong, err)
			}
			refused++
			continue
		}
		if err := updateApp(t, ns, p, nil); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	m.Idle(t)
	for _, p := range pairs {
		settled(t, ns, p.name)
	}
	m.Idle(t)
	for _, p := range pairs {
		p.ready = isReady(t, ns, p.name)
		if p.made == nil {
			continue
		}
		if !p.ready {
			stuck++
		}
		if p.made.Problem != nil {
			problems++
		}
		set, _ := currentReplicaSet(t, ns, p.name)
		wanted := int32(0)
		says := false
		var planned []string
		now := plane.Snapshot(t, ns, p.name)
		for _, o := range p.made.Objects {
			_, stays := now[o.Kind+" "+o.Name]
			if o.Action == plan.Blocked || o.Action == plan.Deleted && stays && !p.ready {
				continue // It goes once the pods and the Service are ready.
			}
			planned = append(planned, o.Kind+" "+o.Name)
			if o.Pods != nil {
				says, wanted = says || o.Pods.Replaced, o.Pods.Wanted
			}
		}
		if want := set != p.set && p.pods > 0 && wanted > 0; says != want {
			t.Errorf("%s: the plan says that pods are replaced: %t; ReplicaSet %s, then %s, %d pods, then %d\n%s",
				p.name, says, p.set, set, p.pods, wanted, strings.Join(p.made.Lines(100, 300), "\n"))
		}
		differ := harness.Changed(p.objects, now)
		slices.Sort(planned)
		if !slices.Equal(planned, differ) {
			t.Errorf("%s: planned are changes of %v, and changed are %v\n%s", p.name, planned, differ, strings.Join(p.made.Lines(100, 300), "\n"))
			for _, kind := range differ {
				t.Logf("%s was %s\nis %s", kind, p.objects[kind], now[kind])
			}
		}
		changed += len(differ)
		if says {
			replaced++
		}
	}
	t.Logf("%d pairs, %d replace pods, %d objects changed, %d with a problem, %d refused, %d without a Deployment, %d are not Ready",
		len(pairs), replaced, changed, problems, refused, dropped, stuck)
	if n >= planPairs && (replaced == 0 || replaced == len(pairs)) {
		t.Error("the pairs are of one sort")
	}
}

// updateApp has an App be the second of a pair.
func updateApp(t *testing.T, ns string, p *pair, annotations map[string]string, opts ...client.UpdateOption) error {
	t.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		app := appOf(ns, p.name, nil)
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		app.Object["spec"] = p.is
		app.SetAnnotations(annotations)
		return plane.Client.Update(t.Context(), app, opts...)
	})
}

// appOf is an App with a spec.
func appOf(ns, name string, spec map[string]any) *unstructured.Unstructured {
	app := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	app.SetGroupVersionKind(appv1.GroupVersion.WithKind("App"))
	app.SetNamespace(ns)
	app.SetName(name)
	return app
}

// TestPlanByKubectl asks for a plan as users do: by a dry run and by diff.
func TestPlanByKubectl(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithWebhooks(plane.Webhooks(t, ns)))
	k := newKubectl(t, ns)
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(image string) {
		t.Helper()
		text := "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: web}\nspec: {replicas: 2, image: \"" + image + "\", ports: [{port: 80}]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nginx:1.16.1")
	k.run("apply", "-f", file)
	app := newApp(ns)
	ready(t, app)
	m.Idle(t)
	write("nginx:1.17.0")
	const want = "Warning: plan: App %s/web: Deployment web: changed, 2 pods are replaced, none is missing meanwhile\n" +
		"Warning: plan: App %[1]s/web: Deployment web: template.containers[web].image: nginx:1.16.1 -> nginx:1.17.0\n"
	for _, args := range [][]string{{"apply", "--dry-run=server", "-f", file}, {"diff", "-f", file}} {
		if said := k.says(args...); !strings.Contains(said, fmt.Sprintf(want, ns)) {
			t.Errorf("kubectl %v says:\n%s", args, said)
		}
	}
	if said := k.says("annotate", "app/web", "app.huolala.cn/refresh=2", "--dry-run=server"); !strings.Contains(said, "no pod is replaced") {
		t.Errorf("a refresh says:\n%s", said)
	}
}

// says runs a command and returns what it says on the side. That it fails is no matter, as kubectl diff does on a difference.
func (k *kubectl) says(args ...string) string {
	k.t.Helper()
	said, err := k.combined(args...)
	if err != nil && args[0] != "diff" {
		k.t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, said)
	}
	return said
}
