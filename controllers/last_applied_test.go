package controllers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/workload"
)

// invalidSpecs break a rule that the schema does not know: two ports of one number.
var invalidSpecs = map[string]string{
	"App":              `{"image":"nginx:2","replicas":2,"ports":[{"name":"a","port":80},{"name":"b","port":80}]}`,
	"ModelBox":         `{"image":"nginx:2","replicas":2,"ports":[{"name":"a","port":80},{"name":"b","port":80}]}`,
	"UnitedDeployment": `{"deploymentName":"web","replicas":2,"template":{"image":"nginx:2","ports":[{"name":"a","port":80},{"name":"b","port":80}]}}`,
}

// invalidWorld is a world with a resource of a kind that was reconciled, and whose spec is invalid now.
func invalidWorld(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:1", onePort)))
	w.settle(kindName)
	w.setSpec(kindName, invalidSpecs[kindName])
	w.requests = nil
	w.settle(kindName)
	return w
}

// TestInvalidSpecKeepsTheLastApplied breaks the children of a resource of each kind whose spec is invalid: they are restored as they
// were applied last.
func TestInvalidSpecKeepsTheLastApplied(t *testing.T) {
	for name := range invalidSpecs {
		t.Run(name, func(t *testing.T) {
			w := invalidWorld(t, name)
			w.wrote("an invalid spec", "status "+name+" web")
			w.stands("an invalid spec", name, "Stalled=True/Invalid", "Applied=False/Invalid")
			sent := w.sent()
			if last := sent[len(sent)-1]; !containsAll(last, "Warning", "ErrInvalid") {
				t.Errorf("the event is %q", last)
			}

			d := w.deployment()
			d.Spec.Template.Spec.Containers[0].Image = "evil:1"
			w.update(d)
			w.settle(name)
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
				t.Errorf("a changed image became %s", got)
			}
			w.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}})
			w.settle(name)
			if !w.read(&corev1.Service{}) {
				t.Error("a deleted Service was not recreated")
			}
			w.remove(w.deployment())
			w.settle(name)
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
				t.Errorf("a deleted Deployment was recreated with the image %s", got)
			}
			w.stands("after repairs", name, "Stalled=True/Invalid")

			w.setSpec(name, flowSpec(name, "nginx:3", onePort))
			w.settle(name)
			w.stands("a valid spec", name, "Stalled=False/NotStalled", "Applied=True/Applied")
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:3" {
				t.Errorf("with a valid spec the image is %s", got)
			}
			if w.Records.Recall(workload.Key{Manager: kindNamed(t, name).manager, Owner: webKey, Workload: "web"}, "1").Known {
				t.Error("the earlier record is remembered for ever")
			}
		})
	}
}

// TestInvalidSpecOfWhatIsGone deletes the Deployment of an invalid spec while the operator does not run: nothing tells how it was,
// and the status says so.
func TestInvalidSpecOfWhatIsGone(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, _ string) {
		w := invalidWorld(t, name)
		selector := w.status(name).Selector
		w.remove(w.deployment())
		w.restart()
		w.settle(name)
		w.wrote(name, "status "+name+" web")
		if w.read(&appsv1.Deployment{}) {
			t.Errorf("%s: a Deployment was created", name)
		}
		if got := w.message(name, appv1.ConditionApplied); !strings.Contains(got, "Deployment web does not exist and cannot be recreated") {
			t.Errorf("%s: %s", name, got)
		}
		if got := w.status(name).Selector; got != selector || got == "" {
			t.Errorf("%s: the selector %q became %q", name, selector, got)
		}
	})
}

// TestInvalidSpecOfANewResource makes nothing of a resource whose spec was never valid.
func TestInvalidSpecOfANewResource(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, spec string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), spec))
		w.settle(name)
		w.wrote(name, "status "+name+" web")
		w.stands(name, name, "Stalled=True/Invalid", "Ready=False/Invalid")
		if got := w.message(name, appv1.ConditionApplied); strings.Contains(got, "recreated") {
			t.Errorf("%s: nothing was there before: %s", name, got)
		}
	})
}

// TestInvalidSpecWhilePaused writes nothing, whatever happens to the children.
func TestInvalidSpecWhilePaused(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, spec string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		w.setSpec(name, strings.Replace(spec, "{", `{"paused":true,`, 1))
		w.remove(w.deployment())
		w.settle(name)
		w.settle(name)
		if requests := withoutStatus(w.requests); len(requests) > 0 {
			t.Errorf("%s: %q", name, requests)
		}
	})
}

// TestRecordOfOthers keeps a record that another client has written from being applied: it may ask for anything.
func TestRecordOfOthers(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, _ string) {
		forNames(t, []string{appv1.AnnotationLastAppliedSpec, appv1.AnnotationLastAppliedInputs}, func(t *testing.T, key string) {
			w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
			w.settle(name)
			d := w.deployment()
			d.Annotations[key] = strings.NewReplacer("nginx:1", "evil:1", `"rendering":2`, `"rendering":0`).Replace(d.Annotations[key])
			w.update(d)
			w.restart()
			w.setSpec(name, invalidSpecs[name])
			w.requests = nil
			w.settle(name)
			w.wrote(key, "status "+name+" web")
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
				t.Errorf("%s, %s: the image is %s", name, key, got)
			}
		})
	})
}

// TestRefusedInPart has the API server refuse one object of a new spec: the other one stays as it was applied last.
func TestRefusedInPart(t *testing.T) {
	forNames(t, []string{"Service", "Deployment"}, func(t *testing.T, refused string) {
		w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort)))
		w.settle("App")
		w.setSpec("App", flowSpec("App", "nginx:2", `[{"port":90}]`))
		w.fail = func(_ string, obj client.Object) error {
			if kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1."); kind != refused {
				return nil
			}
			s, isService := obj.(*corev1.Service)
			_ = s
			if isService || refused == "Deployment" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: refused}, "web", field.ErrorList{field.Forbidden(field.NewPath("spec"), "by a policy")})
			}
			return nil
		}
		w.settle("App")
		w.stands(refused, "App", "Stalled=True/Invalid")
		if got := w.message("App", appv1.ConditionApplied); !containsAll(got, refused, "by a policy") {
			t.Errorf("%s: %s", refused, got)
		}
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
			t.Errorf("the %s is refused, and the image is %s", refused, got)
		}
		service := &corev1.Service{}
		w.read(service)
		if got := service.Spec.Ports[0].Port; got != 80 {
			t.Errorf("the %s is refused, and the port is %d", refused, got)
		}
		w.fail = nil
		w.settle("App")
		w.stands(refused+", allowed again", "App", "Applied=True/Applied")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:2" {
			t.Errorf("the %s is allowed again, and the image is %s", refused, got)
		}
	})
}

// TestFailuresAreRetried returns what fails for a while as an error, so that the queue retries it, and has the other objects applied.
func TestFailuresAreRetried(t *testing.T) {
	forNames(t, []string{"Service", "Deployment"}, func(t *testing.T, failing string) {
		w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", onePort)))
		w.fail = func(_ string, obj client.Object) error {
			if strings.HasSuffix(fmt.Sprintf("%T", obj), failing) {
				return apierrors.NewServiceUnavailable("overloaded")
			}
			return nil
		}
		if _, err := w.reconcile("App"); err == nil {
			t.Errorf("%s: no error", failing)
		}
		w.stands(failing, "App", "Applied=False/ApplyFailed", "Stalled=False/NotStalled")
		w.fail = nil
		w.settle("App")
		w.stands(failing, "App", "Applied=True/Applied")
		if !w.read(&appsv1.Deployment{}) || !w.read(&corev1.Service{}) {
			t.Errorf("%s: a child is missing", failing)
		}
	})
}

// TestDeletedResourceIsForgotten drops what is remembered of a resource of each kind that is gone.
func TestDeletedResourceIsForgotten(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, _ string) {
		w := invalidWorld(t, name)
		k := kindNamed(t, name)
		key := workload.Key{Manager: k.manager, Owner: webKey, Workload: "web"}
		if !w.Records.Recall(key, "1").Known {
			t.Fatalf("%s: the record is not remembered", name)
		}
		w.remove(newStored(t, k, "{}"))
		w.settle(name)
		if w.Records.Recall(key, "1").Known {
			t.Errorf("%s: the record is still remembered", name)
		}
	})
}

// TestForgedTemplate has another client write the template in the operator's name, so that it is not what the record builds: none of
// the two is reliable, and the children stay as they are.
func TestForgedTemplate(t *testing.T) {
	forEach(t, invalidSpecs, func(t *testing.T, name, _ string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		d := w.deployment()
		d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		d.ManagedFields, d.ResourceVersion = nil, ""
		d.Spec.Template.Spec.Containers[0].Image = "forged:1"
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Patch(t.Context(), d, client.RawPatch(types.ApplyPatchType, data),
			client.FieldOwner(kindNamed(t, name).manager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.setSpec(name, invalidSpecs[name])
		w.requests = nil
		w.settle(name)
		w.wrote(name, "status "+name+" web")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "forged:1" {
			t.Errorf("%s: the image is %s", name, got)
		}
	})
}
