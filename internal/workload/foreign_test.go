package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// TestOwnership has a live Deployment of each origin, as the API server has it and as the cache keeps it in part: whether the App can have it, and whether the
// Deployment belongs to others.
func TestOwnership(t *testing.T) {
	controller := func(name string, uid types.UID) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: name, UID: uid, Controller: ptr.To(true),
			}}
		}
	}
	applied := func(manager string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
			}}
		}
	}
	hashed := func(d *appsv1.Deployment) { d.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: "h"} }
	deleted := func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }
	for name, c := range map[string]struct {
		change         func(*appsv1.Deployment)
		adopt          bool
		taken, foreign bool
	}{
		"the App's":                   {change: controller("web", "1"), adopt: true},
		"of another controller":       {change: controller("shop", "other"), taken: true, foreign: true},
		"of another, to adopt":        {change: controller("shop", "other"), adopt: true, taken: true, foreign: true},
		"of an earlier App":           {change: controller("web", "other"), taken: true},
		"of an earlier App, to adopt": {change: controller("web", "other"), adopt: true},
		"nobody's":                    {change: func(*appsv1.Deployment) {}, taken: true, foreign: true},
		"nobody's, to adopt":          {change: func(*appsv1.Deployment) {}, adopt: true},
		"of an App that has lost it":  {change: applied(resource.KindApp.FieldManager()), taken: true},
		"of a ModelBox that lost it":  {change: applied(resource.KindModelBox.FieldManager()), taken: true, foreign: true},
		"of an App that has lost it, with cleared managed fields": {change: hashed, taken: true},
		"of a ModelBox that lost it, with a hash": {change: func(d *appsv1.Deployment) {
			hashed(d)
			applied(resource.KindModelBox.FieldManager())(d)
		}, taken: true, foreign: true},
		"of another controller, with a hash": {change: func(d *appsv1.Deployment) {
			hashed(d)
			controller("shop", "other")(d)
		}, taken: true, foreign: true},
		"to adopt, being deleted":  {change: deleted, adopt: true, taken: true},
		"nobody's, being deleted":  {change: deleted, taken: true, foreign: true},
		"the App's, being deleted": {change: func(d *appsv1.Deployment) { controller("web", "1")(d); deleted(d) }, taken: true},
		"of another controller, being deleted": {change: func(d *appsv1.Deployment) {
			controller("shop", "other")(d)
			deleted(d)
		}, taken: true, foreign: true},
	} {
		for _, partial := range []bool{false, true} {
			app := newWebApp()
			if c.adopt {
				app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "d"}}
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			c.change(d)
			if partial {
				children.TypeOf(d).Keep(d, false)
			}
			seen := (&Observed{Object: d}).WithOwnership(newScheme(t), newAppInput(app), d)
			if got := seen.taken != nil; got != c.taken || seen.foreign != c.foreign {
				t.Errorf("%s, in part %t: taken %v, foreign %t, want %t and %t", name, partial, seen.taken, seen.foreign, c.taken, c.foreign)
			}
			if options := seen.buildOptions(resource.BuildInputs{}, nil); options.Foreign != c.foreign || options.Selector["a"] != "b" {
				t.Errorf("%s, in part %t: it is built with the selector %v, of others: %t", name, partial, options.Selector, options.Foreign)
			}
		}
	}
}
