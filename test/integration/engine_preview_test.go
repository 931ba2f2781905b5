package integration

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
)

// TestPreviewWritesNothing previews children of each kind of change: it says what an apply would do, with what the API server
// refuses, and changes nothing.
func TestPreviewWritesNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	makeMirrorPolicy(t, ns)
	d := newDriver(t, ns, "web")
	wanted := func(name string, port int32) *corev1.Service {
		return &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: d.ref()},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": name},
				Ports: []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}},
			},
		}
	}
	for _, name := range []string{"same", "changed", "refused"} {
		d.does(t, apply.Created, apply.Object{Desired: wanted(name, 80)})
	}
	pods := newHandMade(ns, "adopted")
	pods.Spec.Template.Spec.Containers[0].Name = "web"
	pods.Spec.Template.Spec.Containers = append(pods.Spec.Template.Spec.Containers, corev1.Container{Name: "helper", Image: "envoy"})
	plane.Create(t, pods)
	stated := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "adopted", OwnerReferences: d.ref()},
		Spec:       appsv1.DeploymentSpec{Selector: pods.Spec.Selector},
	}
	stated.Spec.Template.Labels = pods.Spec.Template.Labels
	stated.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}

	req := apply.Request{Owner: d.owner, Manager: "app-operator/test", Policy: apply.Policy{Adopt: true}, Objects: []apply.Object{
		{Desired: wanted("same", 80)}, {Desired: wanted("changed", 81)}, {Desired: wanted("new", 80)},
		{Desired: wanted("refused", 70000)}, {Desired: wanted("new-refused", 70000)}, {Desired: stated},
	}}
	var was []map[string]any
	for i := range req.Objects {
		live := req.Objects[i].Desired.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
		if d.client.Get(t.Context(), client.ObjectKeyFromObject(live), live) != nil {
			was = append(was, nil)
			continue
		}
		req.Objects[i].Live = live
		was = append(was, readWhole(t, live))
	}
	done, err := d.engine.Run(t.Context(), req, apply.DryRun)
	var stalled *reconciler.StalledError
	if !errors.As(err, &stalled) || stalled.Reason != appv1.ReasonInvalid {
		t.Errorf("the error is %v, want that of what is refused", err)
	}
	found := map[string]apply.Change{}
	for _, c := range done.Changes() {
		found[c.Name] = c
	}
	for name, want := range map[string]apply.Action{
		"same": apply.Unchanged, "changed": apply.Configured, "new": apply.Created, "refused": "", "new-refused": "", "adopted": apply.Configured,
	} {
		if got := found[name].Action; got != want {
			t.Errorf("%s would be %q, want %q", name, got, want)
		}
	}
	// The policy replaces the image that is stated by the one that lives.
	if c := found["adopted"]; !slices.Contains(c.Removed, "containers[helper]") || slices.Contains(c.Fields, "image") || !c.TemplateChanged {
		t.Errorf("the adoption would be %+v", c)
	}
	for i := range req.Objects {
		live := req.Objects[i].Desired.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
		if was[i] == nil {
			plane.Absent(t, live)
		} else {
			checkUntouched(t, live, was[i])
		}
	}
}
