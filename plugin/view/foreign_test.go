package view

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestForeignDeployment looks at resources that name a Deployment which they do not control. Only a UnitedDeployment that is in force
// scales it, and only then its pods count as the resource's.
func TestForeignDeployment(t *testing.T) {
	ready := appv1.CommonStatus{Conditions: []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1.ReasonReady}}}
	conflict := appv1.CommonStatus{Conditions: []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonScaleConflict}}}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}
	holder := func(status appv1.CommonStatus) *appv1.UnitedDeployment {
		ud := &appv1.UnitedDeployment{ObjectMeta: meta}
		ud.Spec.DeploymentName, ud.Status.CommonStatus = "web", status
		return ud
	}
	withTemplate := func(ud *appv1.UnitedDeployment) *appv1.UnitedDeployment {
		ud.Spec.Template = &appv1.WorkloadSpec{Image: "nginx:1"}
		return ud
	}
	owned := []metav1.OwnerReference{{Kind: "App", Name: "web", UID: "2", Controller: ptr.To(true)}}
	for name, c := range map[string]struct {
		resource runtime.Object
		owners   []metav1.OwnerReference
		note     string
		works    bool
	}{
		"another kind's":     {&appv1.ModelBox{ObjectMeta: meta, Status: appv1.ModelBoxStatus{WorkloadStatus: appv1.WorkloadStatus{CommonStatus: conflict}}}, owned, "controlled by App web", false},
		"nobody's":           {&appv1.App{ObjectMeta: meta, Status: appv1.AppStatus{WorkloadStatus: appv1.WorkloadStatus{CommonStatus: conflict}}}, nil, "not controlled by App web", false},
		"scaled":             {holder(ready), nil, "not controlled by UnitedDeployment web; UnitedDeployment web holds its number of pods", true},
		"scaled, a template": {withTemplate(holder(ready)), owned, "controlled by App web; UnitedDeployment web holds its number of pods", true},
		"scaled by an older": {holder(conflict), nil, "not controlled by UnitedDeployment web", true},
	} {
		r, ok := ResourceOf(c.resource)
		if !ok {
			t.Fatal(name)
		}
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "3", OwnerReferences: c.owners}}
		s := &Snapshot{Resource: r, Deployments: []appsv1.Deployment{d}}
		if got := strings.Join(TreeOf(s, TreeOptions{}).Root.Children[0].Notes, "; "); got != c.note {
			t.Errorf("%s: the tree says %q, want %q", name, got, c.note)
		}
		if got := WhyOf(s, 0).Works; (got != "") != c.works {
			t.Errorf("%s: of what works is said %q", name, got)
		}
	}
}
