package workload

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestRolesOnly runs a manager that has Roles in two of three namespaces, one of them its own, and no right to anything of
// the cluster. All kinds come up there, a volume that its class does not let grow is reported, and nothing is asked for that
// it may not have: no list or watch is tried again and again.
func TestRolesOnly(t *testing.T) {
	t.Parallel()
	own, second, third := plane.Namespace(t), plane.Namespace(t), plane.Namespace(t)
	const account = "operator"
	rights, err := harness.Rights()
	if err != nil {
		t.Fatal(err)
	}
	plane.Bind(t, own, account, rights, own, second)
	left := eachKind(t, third)
	m := plane.Start(t, own, harness.WithNamespaces(second), harness.WithAccount(own, account), harness.WithElection("lease"),
		harness.WithForbidden()) // So the API server says that a class does not allow it.

	for _, ns := range []string{own, second} {
		for _, obj := range eachKind(t, ns) {
			ready(t, obj)
		}
		cm := named[appv1.CloudManager](ns, "cm")
		change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = apiresource.MustParse("30Gi") })
		plane.Stands(t, cm, "Stalled=True/VolumeResizeFailed")
		harness.Says(t, cm, "Stalled", "PersistentVolumeClaim datadir-db-0", "the storageclass that provisions the pvc must support resize")
	}
	m.Idle(t)
	// Without the right to watch definitions, which it tries at its start, it looks for an optional kind when a resource asks for it.
	tried := func(q harness.Request) bool {
		return q.Resource == "customresourcedefinitions" && (q.Verb == "list" || q.Verb == "watch")
	}
	for _, q := range m.Requests.All() {
		if q.Resource != "" && !tried(q) && q.Namespace != own && q.Namespace != second {
			t.Errorf("a request beyond the manager's namespaces: %s", q)
		}
	}
	for _, q := range m.Requests.Forbidden() {
		if !tried(q) && (q.Verb != "patch" || q.Resource != "persistentvolumeclaims") {
			t.Errorf("forbidden: %s", q)
		}
	}
	untouched(t, third, left)
}

// eachKind makes one resource of each kind. The volumes of the CloudManager cannot grow.
func eachKind(t *testing.T, namespace string) []harness.Resource {
	t.Helper()
	local := read(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}})
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: local.Provisioner}
	held := newForeign(namespace)
	held.Name = "held"
	plane.Create(t, class, held)
	t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), class) })
	box, ud, cm := newModelBox(namespace), newUnited(namespace), newCloudManager(namespace)
	box.Name, ud.Spec.DeploymentName, cm.Spec.DB.StatefulSet.Storage.Class = "box", held.Name, &class.Name
	made := []harness.Resource{newApp(namespace), box, ud, cm, fixture.NewTask(namespace, "task")}
	missing := sets.New[string]()
	for _, k := range fixture.Kinds {
		missing.Insert(k.Name)
	}
	for _, obj := range made {
		missing.Delete(resource.KindOf(obj).Name)
		plane.Create(t, obj)
	}
	if missing.Len() > 0 {
		t.Errorf("there is no resource of %v", sets.List(missing))
	}
	return made
}

// untouched checks that nobody has made anything of a namespace's resources, or written to them.
func untouched(t *testing.T, namespace string, resources []harness.Resource) {
	t.Helper()
	for _, obj := range resources {
		before := obj.GetResourceVersion()
		plane.Read(t, obj)
		if obj.GetResourceVersion() != before {
			t.Errorf("%T %s was written to: %+v", obj, obj.GetName(), obj.CommonStatus())
		}
	}
	held := read(t, named[appsv1.Deployment](namespace, "held"))
	if *held.Spec.Replicas != 1 {
		t.Errorf("the Deployment that a UnitedDeployment names has %d pods", *held.Spec.Replicas)
	}
	for _, child := range fixture.Children() {
		list := plane.ListOf(t, child)
		if err := plane.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{
			appv1.LabelManagedBy: appv1.ManagedBy,
		}); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(list); n > 0 {
			t.Errorf("there are %d objects of the operator in a %T", n, list)
		}
	}
}
