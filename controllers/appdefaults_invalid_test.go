package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/internal/stored"
)

// disable restarts the operator with features switched off.
func (w *world) disable(features ...string) {
	w.restart()
	w.defaults.disabled, w.Disabled = features, features
}

// loseLastValid empties the last valid spec in the status of the AppDefaults of a namespace, as a restore from a backup does.
func (w *world) loseLastValid(namespace, text string) {
	w.t.Helper()
	live := newAppDefaults(w.t, namespace, "{}")
	if err := w.base.Get(w.t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		w.t.Fatal(err)
	}
	live.Status.Value.LastValid = text
	if err := w.base.Status().Update(w.t.Context(), live); err != nil {
		w.t.Fatal(err)
	}
}

// TestLastValidDefaultsSurviveARestart breaks AppDefaults while the operator does not run: the last valid ones count by the status. Without
// these, an App keeps all that it has, no change reaches its pods, and no App begins without defaults.
func TestLastValidDefaultsSurviveARestart(t *testing.T) {
	const first, broken = `{"defaults":{"podAnnotations":{"a":"1"},"disruptionBudget":{}}}`, `{"defaults":{"podAnnotations":{"a":"2"},"minReadySeconds":700}}`
	for name, c := range map[string]struct {
		lose   func(*world)
		former bool
	}{
		"known by the status": {func(*world) {}, true},
		"lost":                {func(w *world) { w.loseLastValid("platform", "") }, false},
		"of another writer":   {func(w *world) { w.loseLastValid("platform", "AAAA") }, false},
		"invalid by now": {func(w *world) {
			w.loseLastValid("platform", encodeLastValid(newAppDefaults(t, "platform", broken).Raw()))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
			w.setDefaults("platform", first)
			w.defaultsStatus("platform")
			w.settle("App")
			w.setDefaults("platform", broken)
			c.lose(w)
			w.restart()
			w.settle("App")
			if got := w.annotationsOfPods(); got != "map[a:1]" || !w.read(&policyv1.PodDisruptionBudget{}) {
				t.Errorf("unchanged, the pods have %s", got)
			}
			status := w.defaultsStatus("platform")
			if meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionValid) {
				t.Error("they are reported as valid")
			}
			w.setSpec("App", `{"image":"nginx:2","replicas":1}`)
			if _, err := w.reconcile("App"); err != nil {
				t.Fatal(err)
			}
			image := w.deployment().Spec.Template.Spec.Containers[0].Image
			if got := w.annotationsOfPods(); got != "map[a:1]" || (image == "nginx:2") != c.former || !w.read(&policyv1.PodDisruptionBudget{}) {
				t.Errorf("changed, the pods have %s and %s", got, image)
			}
			if reason, used := w.reason("App"), w.defaultsInUse(); !c.former && (reason != appv1.ReasonInvalid || !strings.Contains(used, "namespace platform")) {
				t.Errorf("the reason is %s, and the defaults are %s", reason, used)
			}
			w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"3"}}}`)
			w.settle("App")
			if got, image := w.annotationsOfPods(), w.deployment().Spec.Template.Spec.Containers[0].Image; image != "nginx:2" || (got == "map[a:3]") == c.former {
				t.Errorf("fixed, the pods have %s and %s", got, image)
			}
		})
	}
}

// TestUnknownDefaultsBeginNothing has AppDefaults that were never valid: no new App begins without them, and neither does another kind whose size
// they may define.
func TestUnknownDefaultsBeginNothing(t *testing.T) {
	for kind, spec := range map[string]string{
		"App": `{"image":"nginx:1","replicas":1}`, "Task": `{"image":"nginx:1","schedule":"@daily","size":"small"}`,
		"UnitedDeployment": `{"deploymentName":"web","template":{"image":"nginx:1","size":"small"},"replicas":1}`,
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kind), spec))
			w.setDefaults(namespace, `{"defaults":{"minReadySeconds":700}}`)
			if _, err := w.reconcile(kind); err != nil {
				t.Fatal(err)
			}
			if requests := withoutStatus(w.requests); len(requests) > 0 {
				t.Errorf("unknown AppDefaults: %q", requests)
			}
			if kind != "Task" && w.reason(kind) != appv1.ReasonInvalid {
				t.Errorf("the reason is %s", w.reason(kind))
			}
		})
	}
}

// TestDisabledDefaults restarts the operator without a feature that AppDefaults state: they are invalid, and an App keeps what it has.
func TestDisabledDefaults(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"},"networkPolicy":{}}}`)
	w.defaultsStatus("platform")
	w.settle("App")
	w.disable("networkPolicy")
	w.setSpec("App", `{"image":"nginx:2","replicas":1}`)
	w.settle("App")
	if got := w.annotationsOfPods(); got != "map[a:1]" || w.reason("App") != appv1.ReasonInvalid {
		t.Errorf("the pods have %s, and the reason is %s", got, w.reason("App"))
	}
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
	w.settle("App")
	if got := w.deployment().Spec.Template; got.Annotations["a"] != "1" || got.Spec.Containers[0].Image != "nginx:2" {
		t.Errorf("fixed, the pods are %+v", got)
	}
}

// TestUndefinedDefaultSize has a default size that no AppDefaults defines: they are invalid until it is defined, in their own namespace or in that
// of the operator.
func TestUndefinedDefaultSize(t *testing.T) {
	w := newWorld(t)
	valid := func(what string, want bool) {
		t.Helper()
		status := w.defaultsStatus(namespace)
		if is := meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionValid); is != want {
			t.Errorf("%s: valid is %t", what, is)
		}
	}
	const huge = `{"sizes":{"huge":{"limits":{"cpu":"8"}}}}`
	w.setDefaults(namespace, `{"defaults":{"size":"huge"}}`)
	valid("no AppDefaults of the operator", false)
	w.setDefaults("platform", `{}`)
	valid("undefined", false)
	w.setDefaults("platform", huge)
	valid("defined by the operator's", true)
	if requests := (&AppDefaultsReconciler{Deps: *w.Deps}).onChange(t.Context(), newAppDefaults(t, "platform", huge)); len(requests) != 2 {
		t.Errorf("a change of the operator's has %v looked at", requests)
	}
	w.setDefaults("platform", `{}`)
	w.restart()
	valid("no longer defined", false)
	if present, err := w.Defaults.Present(t.Context(), namespace); err != nil || present.Unknown != "" {
		t.Errorf("after a restart, the last valid AppDefaults are unknown: %q, %v", present.Unknown, err)
	}
	w.setDefaults(namespace, `{"defaults":{"size":"huge"},"sizes":{"huge":{"limits":{"cpu":"8"}}}}`)
	valid("defined by themselves", true)
}

// TestDefaultsKeepABudget has hostile AppDefaults of many namespaces: of those beyond the budget, the cache keeps a part, and they are read
// from the API server once a version. What is decoded stays within its budget.
func TestDefaultsKeepABudget(t *testing.T) {
	limits := budget.Limits{Owner: 8 << 10, Namespace: 64 << 10, Total: 256 << 10}
	keep := keepDefaults(budget.New(limits))
	w := newWorld(t)
	reads, whole, reduced := 0, map[string]*stored.AppDefaults{}, map[string]*stored.AppDefaults{}
	w.defaults.live = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			reads++
			whole[key.Namespace].DeepCopyInto(obj.(*stored.AppDefaults)) //nolint:forcetypeassert // It is one.
			return nil
		},
	})
	w.defaults.reader = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if found := reduced[key.Namespace]; found != nil {
				found.DeepCopyInto(obj.(*stored.AppDefaults)) //nolint:forcetypeassert // It is one.
				return nil
			}
			return w.base.Get(ctx, key, obj, opts...)
		},
	})
	hostile := `{"defaults":{"tolerations":[` + strings.Repeat("{},", 1999) + `{}],"podAnnotations":{"a":"` + strings.Repeat("x", 40<<10) + `"}}}`
	size := 0
	for i := range 40 {
		ns := fmt.Sprint("tenant-", i)
		made := newAppDefaults(t, ns, hostile)
		made.ResourceVersion, made.Status.Value.LastValid = "1", strings.Repeat("y", 40<<10)
		whole[ns] = made.DeepCopyObject().(*stored.AppDefaults) //nolint:forcetypeassert // It is one.
		kept, err := keep(made)
		if err != nil {
			t.Fatal(err)
		}
		reduced[ns] = kept.(*stored.AppDefaults) //nolint:forcetypeassert // It is one.
		size += heap.Size(kept)
	}
	if most := limits.Total + 40*limits.Owner; size > most {
		t.Errorf("the cache keeps %d bytes, want at most %d", size, most)
	}
	for range 2 {
		for i := range 3 {
			if _, err := w.defaults.Present(t.Context(), fmt.Sprint("tenant-", 39-i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if reads != 3 {
		t.Errorf("three reduced AppDefaults are read %d times", reads)
	}
	for ns := range reduced {
		if _, err := w.defaults.Present(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	if n, bytes := w.defaults.decoded.Used(); n == 0 || bytes > maxDecodedDefaults {
		t.Errorf("%d decoded AppDefaults have %d bytes", n, bytes)
	}
}

// TestDefaultsAreReadWithoutALock reads AppDefaults while another read does not return.
func TestDefaultsAreReadWithoutALock(t *testing.T) {
	w := newWorld(t)
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	w.defaults.reader = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if key.Namespace == "slow" {
				close(begun)
				<-release
			}
			return w.base.Get(ctx, key, obj, opts...)
		},
	})
	go func() {
		_, err := w.defaults.readDefaults(t.Context(), "slow")
		done <- err
	}()
	<-begun
	if _, err := w.defaults.readDefaults(t.Context(), "platform"); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestLastValidAtTheLimit has the longest spec in the status, and nothing of a text that means a longer one.
func TestLastValidAtTheLimit(t *testing.T) {
	spec := func(length int) stored.Spec {
		text, _ := json.Marshal(map[string]any{"defaults": map[string]any{"podAnnotations": map[string]string{"a": strings.Repeat("x", length)}}})
		var made stored.Spec
		if err := made.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		return made
	}
	long := spec((64 << 10) - spec(0).Len())
	if got := decodeLastValid(encodeLastValid(long)); long.Len() != 64<<10 || got == nil {
		t.Errorf("of %d bytes: %v", long.Len(), got)
	}
	if got := decodeLastValid(encodeLastValid(spec(64 << 10))); got != nil {
		t.Error("a longer one is read")
	}
}
