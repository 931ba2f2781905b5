package harness

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// ImportAll returns the Apps of all Deployments of a namespace, as the files of "import" have them. It fails the test for a file that means other objects.
func (p *Plane) ImportAll(t testing.TB, ns string) []*appv1.App {
	t.Helper()
	around := &view.Namespace{}
	for _, child := range []string{"apps/v1/Deployment", "apps/v1/StatefulSet", "v1/Service", "autoscaling/v2/HorizontalPodAutoscaler", "policy/v1/PodDisruptionBudget", "networking.k8s.io/v1/Ingress"} {
		at := strings.LastIndex(child, "/")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(child[:at])
		list.SetKind(child[at+1:] + "List")
		if err := p.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if err := around.AddObject(&list.Items[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	var apps []*appv1.App
	for i := range around.Deployments {
		from := around.SourceOf(&around.Deployments[i])
		made, err := view.ImportOf(from)
		if err != nil {
			t.Fatal(err)
		}
		verified, err := view.VerifyImport(made, from)
		if err != nil || len(verified.Differences) > 0 {
			t.Errorf("%v: %s", err, verified.Text())
		}
		fields, err := made.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		app := &appv1.App{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, app); err != nil {
			t.Fatal(err)
		}
		if len(app.Annotations) > 0 {
			t.Errorf("the file of App %s has annotations: %v", app.Name, app.Annotations)
		}
		apps = append(apps, app)
	}
	return apps
}
