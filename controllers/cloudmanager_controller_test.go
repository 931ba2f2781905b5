package controllers

import (
	"strings"
	"testing"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// TestTierInput checks what a tier's workload is: of its own component, with what the status tells of it by its name.
func TestTierInput(t *testing.T) {
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "default"}}
	cm.Spec.DB.StatefulSet.Name, cm.Spec.DB.StatefulSet.Image = "db", "mariadb:10.3"
	cm.Spec.DB.StatefulSet.Storage.Size = apiresource.MustParse("1Gi")
	cm.DefaultNames()
	cm.Spec.Identity.Deployment.Image, cm.Spec.Front.Deployment.Image, cm.Spec.Paused = "busybox", "nginx", true
	cm.Status.DB = appv1.TierStatus{Name: "db", Rendering: 1}
	cm.Status.Identity = appv1.TierStatus{Name: "earlier", Rendering: 1}
	for role, name := range map[resource.Tier]string{resource.TierDatabase: "db", resource.TierIdentity: "cm-identity", resource.TierFront: "cm-front"} {
		d := newTierInput(cm, role, nil, false)
		if d.Name != name || d.Tier != role || d.Kind.Name != resource.KindCloudManager.Name || !d.Paused || d.Owner != client.Object(cm) {
			t.Errorf("%s: the input is %+v", role, d)
		}
		if database := role == resource.TierDatabase; d.HadWorkload() != database {
			t.Errorf("%s: it existed: %t", role, d.HadWorkload())
		}
		w, errs := d.Spec.Build(resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
		if len(errs) > 0 || w.Name != name || w.Labels[appv1.LabelComponent] != string(role) {
			t.Fatalf("%s: it builds %s, %v", role, w.Name, errs)
		}
		record := w.Record[appv1.AnnotationLastAppliedSpec]
		if changed, err := d.Spec.Changed(record, resource.ScopePods); changed || err != nil {
			t.Errorf("%s: its own record differs: %v", role, err)
		}
		if _, err := resource.BuildRecorded(d.Spec, record, resource.BuildOptions{}); err != nil {
			t.Errorf("%s: from its record: %v", role, err)
		}
		if _, err := resource.BuildRecorded(d.Spec, strings.Replace(record, `"name":"`+name, `"name":"other`, 1), resource.BuildOptions{}); err == nil {
			t.Errorf("%s: it is built from the record of another component", role)
		}
	}
}
