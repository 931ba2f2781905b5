package apply

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
)

const ofApp, ofModelBox = appv1.FieldManagerPrefix + "app", appv1.FieldManagerPrefix + "modelbox"

// applyFor applies a Deployment without an owner for a resource of a kind. An App adds a variable.
func applyFor(t *testing.T, c client.Client, row *children.Type, manager string) {
	t.Helper()
	d := wantedOf(t, row).(*appsv1.Deployment) //nolint:forcetypeassert // It is the Deployment of the row.
	d.OwnerReferences, d.Annotations = nil, map[string]string{appv1.AnnotationLastAppliedHash: manager}
	if manager == ofApp {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEFT", Value: "1"}}
	}
	//nolint:staticcheck // The typed object states all that the kind applies.
	if err := c.Patch(t.Context(), d, client.Apply, client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// failingApply is a client whose apply requests fail.
type failingApply struct{ client.Client }

func (c failingApply) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if patch.Type() == types.ApplyPatchType {
		return errors.New("no apply")
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// TestLeftoversOfAnotherKind has a ModelBox take over a Deployment with a variable that an App has applied. The variable goes if the last apply was
// for the App. It stays if that was for the ModelBox, as the pods would restart.
func TestLeftoversOfAnotherKind(t *testing.T) {
	given := func(d *appsv1.Deployment) { d.OwnerReferences = controlledBy(owner) }
	unmarked := func(d *appsv1.Deployment) { d.Annotations, d.Labels = nil, nil }
	for name, c := range map[string]struct {
		applied []string
		change  func(*appsv1.Deployment)
		// fails has the first attempt fail after the transfer.
		fails, gone bool
	}{
		"of the same kind":                           {applied: []string{ofApp, ofModelBox}},
		"of the same kind, after a failed attempt":   {applied: []string{ofApp, ofModelBox}, fails: true},
		"of the same kind, without marks":            {applied: []string{ofApp, ofModelBox}, change: unmarked},
		"the owner's, without marks":                 {applied: []string{ofApp, ofModelBox}, change: func(d *appsv1.Deployment) { given(d); unmarked(d) }},
		"of the other kind":                          {applied: []string{ofApp}, gone: true},
		"of the other kind at last":                  {applied: []string{ofModelBox, ofApp}, gone: true},
		"of the other kind, after a failed attempt":  {applied: []string{ofApp}, fails: true, gone: true},
		"of the other kind at last, after a failure": {applied: []string{ofModelBox, ofApp}, fails: true, gone: true},
		"of the other kind, given by hand":           {applied: []string{ofApp}, change: given, gone: true},
		"of the other kind, without marks":           {applied: []string{ofApp}, change: unmarked, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			row := children.TypeOf(&appsv1.Deployment{})
			box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
			cluster := server(t, box.DeepCopy())
			for _, manager := range c.applied {
				applyFor(t, cluster, row, manager)
			}
			d := deploymentIn(t, cluster)
			d.Finalizers = []string{"example.com/theirs"}
			if c.change != nil {
				c.change(d)
			}
			if err := cluster.Update(t.Context(), d, client.FieldOwner("kubectl")); err != nil {
				t.Fatal(err)
			}
			run := func(c client.Client) error {
				e := New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time))
				child := childOfRow(t, row, c)
				child.Live = deploymentIn(t, c)
				_, err := writeChanges(t, e, &Request{Owner: box, Manager: ofModelBox, Policy: Policy{Adopt: true}, Objects: []Object{child}})
				return err
			}
			if c.fails {
				if err := run(failingApply{cluster}); err == nil {
					t.Fatal("the apply did not fail")
				}
				if is := children.AppliedByOther(deploymentIn(t, cluster), ofModelBox); is != c.gone {
					t.Errorf("after the failure, applied by another kind: %t", is)
				}
			}
			if err := run(cluster); err != nil {
				t.Fatal(err)
			}
			live := deploymentIn(t, cluster)
			if env := live.Spec.Template.Spec.Containers[0].Env; (len(env) == 0) != c.gone || !metav1.IsControlledBy(live, box) {
				t.Errorf("the variables are %v, want gone %t", env, c.gone)
			}
			if marks := children.Marks(live.GetManagedFields()); c.gone && len(marks) != 1 || children.AppliedByOther(live, ofModelBox) {
				t.Errorf("the managers of the operator are %v", marks)
			}
		})
	}
}

// deploymentIn returns the Deployment web of a cluster.
func deploymentIn(t *testing.T, c client.Client) *appsv1.Deployment {
	t.Helper()
	return readBack(t, c, children.TypeOf(&appsv1.Deployment{})).(*appsv1.Deployment) //nolint:forcetypeassert // It is one.
}

// TestRestOfASeizedProbe takes over a Deployment with a probe that the wanted one does not state, and whose delay a user has set. The probe goes with its
// handler, and the delay with the probe: the API server refuses a probe without a handler.
func TestRestOfASeizedProbe(t *testing.T) {
	row := children.TypeOf(&appsv1.Deployment{})
	withProbe := func(t *testing.T) *appsv1.Deployment {
		t.Helper()
		d := wantedOf(t, row).(*appsv1.Deployment) //nolint:forcetypeassert // It is the Deployment of the row.
		d.OwnerReferences = nil
		d.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		return d
	}
	applyAs := func(t *testing.T, c client.Client, obj client.Object, manager string) {
		t.Helper()
		//nolint:staticcheck // The object states all that the manager applies.
		if err := c.Patch(t.Context(), obj, client.Apply, client.FieldOwner(manager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	for name, leave := range map[string]func(*testing.T, client.Client){
		"of another kind": func(t *testing.T, c client.Client) {
			t.Helper()
			d := withProbe(t)
			d.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: "sum"}
			applyAs(t, c, d, ofApp)
		},
		"of an earlier operator": func(t *testing.T, c client.Client) {
			t.Helper()
			d := withProbe(t)
			d.Labels, d.OwnerReferences = nil, controlledBy(owner)
			if err := c.Create(t.Context(), d, client.FieldOwner("manager")); err != nil {
				t.Fatal(err)
			}
		},
		"of a template that was kept": func(t *testing.T, c client.Client) {
			t.Helper()
			applyAs(t, c, withProbe(t), HandoverManager)
			ours := &unstructured.Unstructured{}
			ours.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
			ours.SetName("web")
			ours.SetNamespace("default")
			ours.SetOwnerReferences(controlledBy(owner))
			ours.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy})
			ours.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedHash: "sum"})
			applyAs(t, c, ours, ofModelBox)
			d := deploymentIn(t, c)
			for i := range d.ManagedFields { // The fake client applies an empty template, too.
				if of := &d.ManagedFields[i]; of.Manager == ofModelBox {
					rest := fields.DecodeManaged(*of)
					if err := fields.EncodeManaged(of, rest.Difference(fields.SelectBelow(rest, templateRoot))); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Update(t.Context(), d, client.FieldOwner("kubectl")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
			cluster := server(t, box.DeepCopy())
			leave(t, cluster)
			d := deploymentIn(t, cluster)
			d.Spec.Template.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = 30
			if err := cluster.Update(t.Context(), d, client.FieldOwner("kubectl-patch")); err != nil {
				t.Fatal(err)
			}
			e := New(cluster, cluster, clocktesting.NewFakePassiveClock(metav1.Now().Time))
			child := childOfRow(t, row, cluster)
			child.Live = deploymentIn(t, cluster)
			if _, err := writeChanges(t, e, &Request{Owner: box, Manager: ofModelBox, Policy: Policy{Adopt: true}, Objects: []Object{child}}); err != nil {
				t.Fatal(err)
			}
			if live := deploymentIn(t, cluster); live.Spec.Template.Spec.Containers[0].LivenessProbe != nil || !metav1.IsControlledBy(live, box) {
				t.Errorf("the probe is %v", live.Spec.Template.Spec.Containers[0].LivenessProbe)
			}
		})
	}
}
