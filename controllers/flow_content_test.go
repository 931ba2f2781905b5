package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/play"
)

// newFollowing returns a world with a resource of a kind that follows the ConfigMap settings, and whose pods run with its content.
func newFollowing(t *testing.T, kindName, spec string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), spec), newSettings("info"))
	w.generations = true
	w.readContent(false)
	w.settle(kindName)
	w.makeAvailable()
	w.settle(kindName)
	w.requests = nil
	return w
}

// setLevel changes the content of the ConfigMap settings, and has the operator see it.
func (w *world) setLevel(level string) {
	w.t.Helper()
	settings := newSettings("")
	if !w.read(settings) {
		w.t.Fatal("there is no ConfigMap")
	}
	settings.Data["LEVEL"] = level
	w.update(settings)
	w.readContent(false)
}

// setRollout writes the status of the Deployment web.
func (w *world) setRollout(set func(*appsv1.Deployment)) {
	w.t.Helper()
	d := w.deployment()
	set(d)
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// contentMark returns the annotation of the pods that stands for their content.
func (w *world) contentMark() string {
	w.t.Helper()
	return w.deployment().Spec.Template.Annotations[appv1.AnnotationConfig]
}

// recordedContent returns what the Deployment records of the content that its pods use.
func (w *world) recordedContent() resource.ConfigInputs {
	w.t.Helper()
	in, err := resource.DecodeInputs(w.deployment().Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		w.t.Fatal(err)
	}
	return in.Config
}

// TestFlowContentWaits changes content while a rollout is under way: it waits for the end of the rollout, and is then taken at once. A
// rollout that makes no progress gets new content right away.
func TestFlowContentWaits(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, kindName string) {
		w := newFollowing(t, kindName, following(kindName))
		status := "status " + kindName + " web"
		w.setLevel("2")
		w.settle(kindName)
		w.wrote("new content", "patch Deployment web", status)
		first := w.contentMark()
		w.setRollout(func(d *appsv1.Deployment) { play.SetRollingOut(d, corev1.ConditionTrue, "ReplicaSetUpdated") })
		w.settle(kindName)
		w.requests = nil
		for i := range 3 {
			w.setLevel(fmt.Sprint(3 + i))
			w.settle(kindName)
			w.wrote("while a rollout is under way")
		}
		w.makeAvailable()
		w.settle(kindName)
		w.wrote("the rollout is complete", "patch Deployment web", status)
		second := w.contentMark()
		if first == "" || second == first {
			t.Errorf("three changes during a rollout: the mark of the pods was %q and is %q", first, second)
		}
		w.setRollout(play.SetTimedOut)
		w.settle(kindName)
		w.stands("no progress", kindName, "Stalled=True/ProgressDeadlineExceeded")
		w.requests = nil
		w.setLevel("cure")
		w.settle(kindName)
		w.wrote("content that may cure it", "patch Deployment web", status)
		if w.contentMark() == second {
			t.Error("a rollout without progress waits for its end")
		}
	})
}

// TestFlowContentOfOtherKeys has an App take defaults that use another key of the same ConfigMap: by a refresh, and with a change of its own. From then on
// only the new key counts.
func TestFlowContentOfOtherKeys(t *testing.T) {
	const spec = `{"image":"nginx:1","replicas":1,"configRollout":"OnChange"}`
	using := func(key string) string {
		return fmt.Sprintf(`{"defaults":{"envs":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"shared","key":%q}}}]}}`, key)
	}
	for name, take := range map[string]func(*world){
		"refresh":     func(w *world) { w.annotate("App", appv1.AnnotationRefresh, "1") },
		"other image": func(w *world) { w.setSpec("App", strings.Replace(spec, "nginx:1", "nginx:2", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}, Data: map[string]string{"a": "1", "b": "1", "c": "1"}}
			w := newWorld(t, newStored(t, kindNamed(t, "App"), spec), shared)
			w.setDefaults("platform", using("a"))
			settle := func() {
				w.readContent(false)
				w.settle("App")
				w.makeAvailable()
				w.settle("App")
			}
			set := func(key string) (replaced bool) {
				before := w.deployment().Spec.Template
				w.read(shared)
				shared.Data[key] += "1"
				w.update(shared)
				settle()
				return !equality.Semantic.DeepEqual(before, w.deployment().Spec.Template)
			}
			settle()
			first := w.recordedContent().Objects["ConfigMap/shared"]
			w.setDefaults("platform", using("b"))
			settle()
			take(w)
			settle()
			if got := w.recordedContent().Objects["ConfigMap/shared"]; first == "" || got == "" || got == first {
				t.Errorf("the sum of key a is %q, and that of key b %q", first, got)
			}
			if set("c") || set("a") {
				t.Error("a key that no container uses replaces the pods")
			}
			if !set("b") {
				t.Error("the key in use replaces no pods")
			}
		})
	}
}

// TestFlowMissingContent creates a resource before the objects that its pods use. Those that pods cannot start without replace no pods when
// they appear; optional ones do, and replace none when they are deleted.
func TestFlowMissingContent(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, kindName string) {
		const optional = `{"configMapRef":{"name":"more","optional":true}},`
		w := newWorld(t, newStored(t, kindNamed(t, kindName), strings.Replace(following(kindName), `{"secretRef"`, optional+`{"secretRef"`, 1)))
		w.readContent(false)
		w.settle(kindName)
		if c := w.recordedContent(); len(c.Objects) != 2 || c.Objects["ConfigMap/settings"] != "" {
			t.Errorf("recorded of objects that are missing: %+v", c)
		}
		w.create(newSettings("info"))
		w.readContent(false)
		w.settle(kindName)
		if c := w.recordedContent(); c.Objects["ConfigMap/settings"] == "" || c.Sum != "" {
			t.Errorf("the object that pods need has appeared: %+v", c)
		}
		w.makeAvailable()
		w.settle(kindName)
		more := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "more"}, Data: map[string]string{"a": "1"}}
		w.create(more)
		w.readContent(false)
		w.settle(kindName)
		mark := w.contentMark()
		if mark == "" {
			t.Error("an optional object that appears replaces no pods")
		}
		w.makeAvailable()
		w.settle(kindName)
		w.remove(more)
		w.readContent(false)
		w.settle(kindName)
		if got := w.contentMark(); got != mark || w.recordedContent().Sum != mark {
			t.Errorf("a deletion replaces the pods: the mark was %q and is %q", mark, got)
		}
	})
}

// TestFlowContentOfAnInvalidSpec makes a spec invalid whose content has changed before. The Deployment is recreated with the same mark.
func TestFlowContentOfAnInvalidSpec(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, kindName string) {
		w := newFollowing(t, kindName, following(kindName))
		w.setLevel("debug")
		w.settle(kindName)
		w.makeAvailable()
		w.settle(kindName)
		before := w.deployment()
		w.setSpec(kindName, strings.Replace(following(kindName), "{", `{"minReadySeconds":600,`, 1))
		w.settle(kindName)
		w.stands("an invalid spec", kindName, "Stalled=True/Invalid")
		w.remove(before)
		w.settle(kindName)
		if after := w.deployment(); w.contentMark() == "" || !equality.Semantic.DeepEqual(before.Spec.Template, after.Spec.Template) {
			t.Errorf("the template was %+v and is %+v", before.Spec.Template, after.Spec.Template)
		}
	})
}

// TestFlowContentKeepsTheVariablesOfOthers has a tool restart pods by a variable of its own. It stays when the operator restarts them.
func TestFlowContentKeepsTheVariablesOfOthers(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, kindName string) {
		const key = "reloader.stakater.com/auto"
		w := newFollowing(t, kindName, strings.Replace(following(kindName), "{", `{"annotations":{"`+key+`":"true"},`, 1))
		d := w.deployment()
		theirs := corev1.EnvVar{Name: "STAKATER_SETTINGS_CONFIGMAP", Value: "0123"}
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, theirs)
		w.update(d)
		w.makeAvailable()
		w.settle(kindName)
		w.setLevel("debug")
		w.settle(kindName)
		d = w.deployment()
		if w.contentMark() == "" || !slices.Contains(d.Spec.Template.Spec.Containers[0].Env, theirs) || d.Annotations[key] != "true" {
			t.Errorf("the variables are %v, the annotations %v", d.Spec.Template.Spec.Containers[0].Env, d.Annotations)
		}
	})
}

// TestAbortHoldsWithOtherContent aborts a canary whose content changed while it ran. The pods of before follow no content, so their record has none:
// the abort holds until the content changes once more. A hold in between changes nothing of that.
func TestAbortHoldsWithOtherContent(t *testing.T) {
	const name = "App"
	follow := func(spec string) string {
		return strings.Replace(spec, "{", `{"configRollout":"OnChange","envFrom":[{"configMapRef":{"name":"settings"}}],`, 1)
	}
	for _, hold := range []string{"", appv1.HoldLastGood, "web-1"} {
		t.Run("hold "+hold, func(t *testing.T) {
			w := newFollowing(t, name, flowSpec(name, "nginx:1", onePort))
			w.run(name, w.replicaSet("web-1"))
			w.settle(name)
			w.setSpec(name, follow(canarySpecOf(name, "nginx:2", byHand)))
			w.settle(name)
			w.runs("the canary", "nginx:1", "nginx:2")
			w.setLevel("debug")
			w.settle(name) // The canary is replaced.
			w.settle(name)
			w.runs("the canary with other content", "nginx:1", "nginx:2")
			w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
			w.settle(name)
			w.runs("abort", "nginx:1", "")
			w.settle(name)
			w.readContent(false)
			w.settle(name)
			w.runs("after the abort", "nginx:1", "")
			if hold != "" {
				w.holdAndUnhold(name, hold)
			}
			w.setLevel("trace")
			w.settle(name)
			w.runs("other content", "nginx:1", "nginx:2")
		})
	}
}

// TestAbortOfContentHoldsOverARestart aborts a canary of other content alone. After a restart of the operator the content is not read at once, so
// that nothing seems to change: the abort holds. It ends with the content of before, and of a deleted ConfigMap it does not.
func TestAbortOfContentHoldsOverARestart(t *testing.T) {
	const name = "App"
	spec := strings.Replace(canarySpecOf(name, "nginx:1", byHand), "{", `{"configRollout":"OnChange","envFrom":[{"configMapRef":{"name":"settings"}}],`, 1)
	w := newFollowing(t, name, spec)
	w.setLevel("debug")
	w.settle(name)
	w.runs("the canary of other content", "nginx:1", "nginx:1")
	w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
	w.settle(name)
	w.runs("abort", "nginx:1", "")
	held := func(what string, want bool) {
		t.Helper()
		if _, is := w.deployment().Annotations[appv1.AnnotationHeld]; is != want {
			t.Errorf("%s: the mark is there is %t", what, is)
		}
		w.runs(what, "nginx:1", "")
	}
	held("abort", true)
	w.Content = unreadContent(t, w)
	w.restart()
	w.settle(name)
	held("after a restart, content is not read", true)
	w.readContent(false)
	w.settle(name)
	held("after a restart, content is read", true)
	settings := newSettings("")
	if !w.read(settings) {
		t.Fatal("there is no ConfigMap")
	}
	w.remove(settings)
	w.readContent(false)
	w.settle(name)
	held("without the ConfigMap", true)
	w.create(newSettings("info"))
	w.readContent(false)
	w.settle(name)
	held("with the content of before", false)
}

// unreadContent returns a watch of content that fails to read anything.
func unreadContent(t *testing.T, w *world) *content.Watch {
	t.Helper()
	reader, ok := w.Live.(client.WithWatch)
	if !ok {
		t.Fatalf("the reader is %T", w.Live)
	}
	live := interceptor.NewClient(reader, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, ok := obj.(*corev1.ConfigMap); ok {
			return apierrors.NewInternalError(errors.New("later"))
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	watch, err := content.New(noManager{}, content.Options{Live: live, Clock: w.clock, OwnNamespace: "system"})
	if err != nil {
		t.Fatal(err)
	}
	return watch.Foresee()
}
