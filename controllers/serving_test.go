package controllers

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// aroundFields are the fields that ask for an object around the pods, by the kind of the object.
var aroundFields = map[string]string{
	"HorizontalPodAutoscaler": `"autoscaling":{"minReplicas":2,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}`,
	"ServiceAccount":          `"serviceAccount":{}`,
	"NetworkPolicy":           `"networkPolicy":{}`,
	"PodDisruptionBudget":     `"disruptionBudget":{"maxUnavailable":1}`,
	"Ingress":                 `"ingress":{"rules":[{"host":"web.example.com"}]}`,
}

// around returns the spec of a kind with a field that asks for an object around the pods.
func around(kindName, field string) string {
	return strings.Replace(flowSpec(kindName, "nginx:1", `[{"name":"http","port":80}]`), "{", "{"+field+`,"resources":{"requests":{"cpu":"1"}},`, 1)
}

// aroundType is a type of auxiliary children, by its kind.
type aroundType struct {
	kind string
	row  *children.Type
}

// aroundTypes returns the types of auxiliary children, but for those that a cluster may lack: internal/clusterkinds reads these.
func aroundTypes(t *testing.T) []aroundType {
	t.Helper()
	var found []aroundType
	for i := range children.Types {
		if row := &children.Types[i]; row.Auxiliary && !row.Custom {
			kindName := reflect.TypeOf(row.Object).Elem().Name()
			if aroundFields[kindName] == "" {
				t.Fatalf("no field asks for a %s", kindName)
			}
			found = append(found, aroundType{kindName, row})
		}
	}
	return found
}

// exists reports whether there is an object web of the type.
func (a aroundType) exists(w *world) bool {
	w.t.Helper()
	obj, ok := a.row.Object.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatalf("%T is no object", a.row.Object)
	}
	return w.read(obj)
}

// servingKinds are the names of the kinds that can ask for objects around the pods.
func servingKinds() []string {
	var names []string
	for i := range resource.Kinds {
		if resource.Kinds[i].Serves {
			names = append(names, resource.Kinds[i].Name)
		}
	}
	return names
}

// TestFlowAround takes an object of each type around the pods through its life: it is created by its field, restored by itself where it
// is deleted or its owner reference is removed, and deleted with the field. Nothing else is written meanwhile.
func TestFlowAround(t *testing.T) {
	for _, kindName := range servingKinds() {
		for _, a := range aroundTypes(t) {
			t.Run(kindName+"/"+a.kind, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, kindName), around(kindName, aroundFields[a.kind])))
				w.settle(kindName)
				written := "patch " + a.kind + " web"
				if want := []string{"patch Deployment web", "patch Service web", written}; !slices.Equal(slices.Sorted(slices.Values(withoutStatus(w.requests))), slices.Sorted(slices.Values(want))) {
					t.Errorf("to create it, the operator writes %q", w.requests)
				}
				w.requests = nil
				w.settle(kindName)
				w.wrote("idle")

				obj, ok := a.row.Object.DeepCopyObject().(client.Object)
				if !ok || !w.read(obj) {
					t.Fatalf("there is no %s", a.kind)
				}
				w.remove(obj)
				w.settle(kindName)
				if got := withoutStatus(w.requests); !slices.Equal(got, []string{written}) {
					t.Errorf("after it was deleted, the operator writes %q", got)
				}
				if !w.read(obj) {
					t.Fatal("it is not restored")
				}
				obj.SetOwnerReferences(nil)
				w.update(obj)
				w.requests = nil
				w.settle(kindName)
				if got := withoutStatus(w.requests); !slices.Equal(got, []string{written}) || !w.read(obj) || metav1.GetControllerOf(obj) == nil {
					t.Errorf("without its owner reference, the operator writes %q", got)
				}

				w.requests = nil
				w.setSpec(kindName, strings.Replace(around(kindName, aroundFields[a.kind]), aroundFields[a.kind]+",", "", 1))
				w.settle(kindName)
				if a.exists(w) {
					w.settle(kindName) // An account stays until no pod names it.
				}
				if a.kind != "ServiceAccount" && a.exists(w) {
					t.Errorf("it stays without its field; the operator writes %q", w.requests)
				}
			})
		}
	}
}

// TestForeignAround has each name of an object around the pods be taken: the object stays as it is, the status says so, and the pods and
// the Service are there all the same, but for what must be there before the first pod.
func TestForeignAround(t *testing.T) {
	first := []string{"ServiceAccount", "NetworkPolicy"}
	for _, kindName := range servingKinds() {
		for _, a := range aroundTypes(t) {
			t.Run(kindName+"/"+a.kind, func(t *testing.T) {
				taken, ok := a.row.Object.DeepCopyObject().(client.Object)
				if !ok {
					t.Fatalf("%T is no object", a.row.Object)
				}
				taken.SetNamespace(namespace)
				taken.SetName("web")
				taken.SetLabels(map[string]string{"whose": "another"})
				w := newWorld(t, newStored(t, kindNamed(t, kindName), around(kindName, aroundFields[a.kind])), taken)
				_, _ = w.reconcile(kindName)
				w.stands("taken", kindName, "Applied=False/"+appv1.ReasonResourceExists)
				if got := w.message(kindName, appv1.ConditionApplied); !containsAll(got, a.kind+" web") {
					t.Errorf("Applied says %q", got)
				}
				if !w.read(taken) || len(taken.GetOwnerReferences()) > 0 || taken.GetLabels()["whose"] != "another" || len(taken.GetLabels()) != 1 {
					t.Errorf("the object is %v now", taken)
				}
				if made := slices.Contains(w.requests, "patch Deployment web"); made == slices.Contains(first, a.kind) {
					t.Errorf("the operator writes %q", w.requests)
				}
				w.remove(taken)
				w.settle(kindName)
				if !a.exists(w) {
					t.Error("it is not created once the name is free")
				}
				w.stands("free", kindName, "Applied=True/Applied")
			})
		}
	}
}

// TestRefusedAround has the API server refuse each type of objects around the pods, for good and for now: it is reported, never as
// stalled, and the Deployment of an App that runs already takes its new spec.
func TestRefusedAround(t *testing.T) {
	for _, a := range aroundTypes(t) {
		group := schema.GroupResource{Resource: a.kind}
		for reason, refusal := range map[string]error{
			appv1.ReasonForbidden:   apierrors.NewForbidden(group, "web", errors.New("exceeded quota")),
			appv1.ReasonApplyFailed: apierrors.NewInternalError(errors.New("try later")),
		} {
			t.Run(a.kind+"/"+reason, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:0", `[{"name":"http","port":80}]`)))
				w.settle("App")
				w.makeAvailable()
				w.settle("App")
				w.fail = func(verb string, obj client.Object) error {
					if verb == "patch" && reflect.TypeOf(obj) == reflect.TypeOf(a.row.Object) {
						return refusal
					}
					return nil
				}
				w.setSpec("App", around("App", aroundFields[a.kind]))
				_, _ = w.reconcile("App")
				if got := w.image(); got != "nginx:1" {
					t.Errorf("the image is %s", got)
				}
				c := meta.FindStatusCondition(w.status("App").Conditions, appv1.ConditionApplied)
				if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, a.kind+" web") {
					t.Errorf("Applied is %+v", c)
				}
				w.stands("refused", "App", "Stalled=False/NotStalled")
				w.fail = nil
				w.settle("App")
				if !a.exists(w) {
					t.Error("it is not created once it is allowed")
				}
				w.stands("allowed", "App", "Applied=True/Applied")
			})
		}
	}
}

// TestExposedOfAnInvalidSpec has another host and an error in one change. While the Ingress of before serves, Exposed and the hosts are those of before.
func TestExposedOfAnInvalidSpec(t *testing.T) {
	const before = `"ingress":{"rules":[{"host":"a.example.com"}]}`
	forNames(t, servingKinds(), func(t *testing.T, kindName string) {
		for name, c := range map[string]struct {
			after, condition, hosts string
			lost                    bool
		}{
			"another field is wrong":         {`"ingress":{"rules":[{"host":"b.example.com"}]},"labels":{"a b":"c"}`, "Exposed=True/Accepted", "b.example.com", false},
			"the block is wrong":             {`"ingress":{"rules":[{"host":"b.example.com"},{"host":"-"}]}`, "Exposed=False/Invalid", "a.example.com", false},
			"nothing is known of the former": {`"ingress":{"rules":[{"host":"b.example.com"}]},"labels":{"a b":"c"}`, "Exposed=False/Invalid", "a.example.com", true},
			"the spec cannot be decoded":     {`"ingress":{"rules":[{"host":"b.example.com"}]},"labels":7`, "Exposed=True/Accepted", "a.example.com", false},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, kindName), around(kindName, before)))
				w.settle(kindName)
				ingress := &networkingv1.Ingress{}
				if !w.read(ingress) {
					t.Fatal("there is no Ingress")
				}
				ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
				if err := w.Client.Status().Update(t.Context(), ingress); err != nil {
					t.Fatal(err)
				}
				w.settle(kindName)
				w.stands("before", kindName, "Exposed=True/Accepted")
				w.setSpec(kindName, around(kindName, c.after))
				if d := w.deployment(); c.lost {
					delete(d.Annotations, appv1.AnnotationLastAppliedSpec)
					w.update(d)
				}
				if _, err := w.reconcile(kindName); err != nil {
					t.Log(err)
				}
				w.stands(name, kindName, c.condition)
				live := kindNamed(t, kindName).empty()
				w.read(live)
				if hosts := decodeStatus[appv1.ServingStatus](t, live).Hosts; hosts != c.hosts {
					t.Errorf("the hosts are %q, want %q", hosts, c.hosts)
				}
				if w.read(ingress); ingress.Spec.Rules[0].Host != c.hosts {
					t.Errorf("the Ingress has the host %q, want %q", ingress.Spec.Rules[0].Host, c.hosts)
				}
			})
		}
	})
}
