package controllers

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
)

// noManager is a manager that runs nothing.
type noManager struct{ manager.Manager }

func (noManager) Add(manager.Runnable) error { return nil }

// readContent has the operator see the content of ConfigMaps and Secrets as it is now. Nothing is watched, and nothing waits until it is
// quiet.
func (w *world) readContent(secrets bool) {
	w.t.Helper()
	watch, err := content.New(noManager{}, content.Options{Live: w.Live, Clock: w.clock, Secrets: secrets, OwnNamespace: "system"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Content = watch.Foresee()
	w.restart()
}

// following returns the spec of flowSpec whose pods use a ConfigMap and a Secret, and follow their content.
func following(kindName string) string {
	return strings.Replace(flowSpec(kindName, "nginx:1", onePort), "{",
		`{"configRollout":"OnChange","envFrom":[{"configMapRef":{"name":"settings"}},{"secretRef":{"name":"login","optional":true}}],`, 1)
}

func newSettings(level string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"LEVEL": level}}
}

// configOf returns what the status of the resource web says of the content that its pods have.
func (w *world) configOf(kindName string) []appv1.ConfigObject {
	w.t.Helper()
	d := kindNamed(w.t, kindName).empty()
	if !w.read(d) {
		w.t.Fatalf("there is no %s", kindName)
	}
	return decodeStatus[appv1.ServingStatus](w.t, d).Config
}

// TestFlowContent replaces the pods of each kind when the content changes that they use, and not when anything else does.
func TestFlowContent(t *testing.T) {
	for _, kindName := range servingKinds() {
		t.Run(kindName, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, kindName), following(kindName)), newSettings("info"))
			status := "status " + kindName + " web"
			w.readContent(false)
			w.settle(kindName)
			w.wrote("creation", "patch Deployment web", "patch Service web", status)
			w.settle(kindName)
			w.stands("creation", kindName, "ConfigFollowed=True/Followed")
			if got := w.message(kindName, appv1.ConditionConfigFollowed); !containsAll(got, "does not follow Secrets in this cluster", "login") {
				t.Errorf("of the Secret that is not followed, ConfigFollowed says %q", got)
			}
			first := w.configOf(kindName)
			if len(first) != 1 || first[0].Name != "settings" || first[0].ResourceVersion == "" {
				t.Errorf("the status says of the content %+v", first)
			}
			w.makeAvailable()
			w.settle(kindName)
			w.requests = nil
			w.sent()

			settings := newSettings("info")
			if !w.read(settings) {
				t.Fatal("there is no ConfigMap")
			}
			settings.Labels = map[string]string{"team": "a"}
			w.update(settings)
			w.readContent(false)
			before := w.deployment().Spec.Template
			w.settle(kindName)
			w.wrote("a label", status) // The version that the pods have.
			if after := w.deployment().Spec.Template; !maps.Equal(before.Annotations, after.Annotations) {
				t.Errorf("a label changes the annotations of pods from %v to %v", before.Annotations, after.Annotations)
			}

			settings.Data["LEVEL"] = "debug"
			w.update(settings)
			w.readContent(false)
			w.sent()
			w.settle(kindName)
			w.wrote("other content", "patch Deployment web", status)
			if after := w.deployment().Spec.Template; maps.Equal(before.Annotations, after.Annotations) {
				t.Error("other content replaces no pods")
			}
			if sent := strings.Join(w.sent(), "\n"); !containsAll(sent, appv1.ReasonConfigRollout, "ConfigMap settings") || strings.Contains(sent, "debug") {
				t.Errorf("the events are %q", sent)
			}
			w.readContent(false)
			w.settle(kindName)
			w.requests = nil
			w.settle(kindName)
			w.wrote("idle")

			before = w.deployment().Spec.Template
			w.setSpec(kindName, strings.Replace(following(kindName), `"configRollout":"OnChange",`, "", 1))
			w.settle(kindName)
			if after := w.deployment().Spec.Template; !maps.Equal(before.Annotations, after.Annotations) {
				t.Error("to follow content no longer replaces pods")
			}
			if got := w.configOf(kindName); len(got) > 0 {
				t.Errorf("the status still says of the content %+v", got)
			}
			if c := meta.FindStatusCondition(w.status(kindName).Conditions, appv1.ConditionConfigFollowed); c != nil {
				t.Errorf("there still is %+v", c)
			}
		})
	}
}

// TestFlowSecretWithoutKey has the key be missing by which the content of Secrets is told apart: the pods run all the same, the status
// says what is wrong, and it is looked at again.
func TestFlowSecretWithoutKey(t *testing.T) {
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "login"}, Data: map[string][]byte{"PASSWORD": []byte("hunter2")}}
	w := newWorld(t, newStored(t, kindNamed(t, "App"), following("App")), newSettings("info"), login)
	w.readContent(true)
	result, err := w.reconcile("App")
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > 10*time.Second {
		t.Errorf("%+v, %v", result, err)
	}
	if got := w.image(); got != "nginx:1" {
		t.Errorf("the image is %s", got)
	}
	w.stands("without the key", "App", "ConfigFollowed=False/"+appv1.ReasonReadFailed)
	if got := w.message("App", appv1.ConditionConfigFollowed); strings.Contains(got, "hunter2") || got == "" {
		t.Errorf("ConfigFollowed says %q", got)
	}
}
