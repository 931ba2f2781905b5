package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestAdoptManifests takes over applications that run already: SUITE/original.yaml is what was applied by hand, SUITE/app.yaml
// the same as resources of ours. All of them become Ready, and each Deployment that has the name of one is controlled by it.
//
// ADOPT_MANIFESTS names a folder with more suites.
func TestAdoptManifests(t *testing.T) {
	t.Parallel()
	for _, folder := range adoptSuites(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			originals := readManifests(t, filepath.Join(folder, "original.yaml"), ns)
			plane.Create(t, originals...)
			for _, obj := range originals {
				switch obj.GetObjectKind().GroupVersionKind().Kind {
				case "Deployment":
					untilAvailable(t, ns, obj.GetName())
				case "Service":
					giveAddress(t, ns, obj.GetName())
				}
			}
			plane.Start(t, ns)
			for _, obj := range readManifests(t, filepath.Join(folder, "app.yaml"), ns) {
				if obj.GetObjectKind().GroupVersionKind().Group != appv1.GroupVersion.Group {
					continue
				}
				adopt(t, obj)
			}
		})
	}
}

// adoptSuites are the folders of all suites.
func adoptSuites(t *testing.T) []string {
	t.Helper()
	pattern := filepath.Join("testdata", "adopt", "*", "app.yaml")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	if more := os.Getenv("ADOPT_MANIFESTS"); more != "" {
		further, err := filepath.Glob(filepath.Join(more, "*", "app.yaml"))
		if err != nil || len(further) == 0 {
			t.Fatalf("ADOPT_MANIFESTS=%s has no suites: %v", more, err)
		}
		files = append(files, further...)
	}
	folders := make([]string, len(files))
	for i, file := range files {
		folders[i] = filepath.Dir(file)
	}
	return folders
}

// readManifests returns the objects of a file, in the namespace given.
func readManifests(t *testing.T, file, namespace string) []client.Object {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(obj.Object) == 0 || obj.GetKind() == "Namespace" {
			continue
		}
		obj.SetNamespace(namespace)
		objects = append(objects, obj)
	}
}

// untilAvailable waits until all pods of a Deployment are there.
func untilAvailable(t *testing.T, namespace, name string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Until(t, d, func() error {
		if d.Status.AvailableReplicas < d.Status.Replicas || d.Status.ObservedGeneration < d.Generation || d.Status.Replicas == 0 {
			return fmt.Errorf("Deployment %s is not available: %+v", name, d.Status)
		}
		return nil
	})
}

// giveAddress does what a cloud provider does for a Service of type LoadBalancer: there is none here.
func giveAddress(t *testing.T, namespace, name string) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Read(t, s)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		plane.ChangeStatus(t, s, func() { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}} })
	}
}

// adopt creates a resource that takes over what has its name, and waits until it is Ready.
func adopt(t *testing.T, obj client.Object) {
	t.Helper()
	obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
	plane.Create(t, obj)
	app := &appv1.App{}
	harness.Eventually(t, func() error {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		data, err := live.MarshalJSON()
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(data, app); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady) {
			return fmt.Errorf("%s %s is not Ready: %+v", live.GetKind(), live.GetName(), app.Status.Conditions)
		}
		return nil
	})
	d := &appsv1.Deployment{}
	if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), d); err != nil {
		t.Fatal(err)
	}
	if c := metav1.GetControllerOf(d); c == nil || c.UID != app.UID {
		t.Errorf("Deployment %s is controlled by %+v", d.Name, c)
	}
}
