package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// largeResource is a resource for which the cache has no room.
type largeResource struct {
	resource harness.Resource
	// workload is the child with the pods that the resource describes.
	workload client.Object
	// spec is what the resource states of these pods, image their image.
	spec  *appv1.PodFields
	image string
}

// newLargeResources returns a resource of a kind, by the name of the kind.
var newLargeResources = map[string]func(namespace string) largeResource{
	"App": func(ns string) largeResource {
		app := newApp(ns, "large")
		return largeResource{app, fixture.Deployment(app), &app.Spec.PodFields, app.Spec.Image}
	},
	"ModelBox": func(ns string) largeResource {
		box := fixture.NewModelBox(ns, "large")
		return largeResource{box, fixture.Deployment(box), &box.Spec.PodFields, box.Spec.Image}
	},
	"UnitedDeployment": func(ns string) largeResource {
		ud := fixture.NewUnitedDeployment(ns, "large", "large")
		ud.Spec.Template = &appv1.WorkloadSpec{Image: fixture.Image}
		return largeResource{ud, fixture.Deployment(ud), &ud.Spec.Template.PodFields, fixture.Image}
	},
	"CloudManager": func(ns string) largeResource {
		cm := newCloudManager(ns)
		return largeResource{cm, namedStatefulSet(ns, "db"), &cm.Spec.DB.StatefulSet.PodFields, cm.Spec.DB.StatefulSet.Image}
	},
	"Task": func(ns string) largeResource {
		task := fixture.NewTask(ns, "large")
		return largeResource{task, fixture.CronJob(task), &task.Spec.PodFields, task.Spec.Image}
	},
}

// templateOf returns the spec of the pods of a workload.
func templateOf(t testing.TB, workload client.Object) *corev1.PodSpec {
	t.Helper()
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &w.Spec.Template.Spec
	case *batchv1.CronJob:
		return &w.Spec.JobTemplate.Spec.Template.Spec
	}
	t.Fatalf("%T has no pods", workload)
	return nil
}

// TestKindsBeyondCacheBudget has a resource of each kind for which the cache has no room: its workload is created, repaired, changed, and found
// again after a restart.
func TestKindsBeyondCacheBudget(t *testing.T) {
	t.Parallel()
	for _, k := range fixture.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns, harness.WithNamespaceCache(1))
			large := newLargeResources[k.Name](ns)
			large.spec.Envs = newVariables(newIncompressibleText(200 << 10))
			plane.Create(t, large.resource)
			runs := func(image string) {
				t.Helper()
				plane.Until(t, large.workload, func() error { return checkContains(templateOf(t, large.workload).Containers[0].Image, image) })
			}
			runs(large.image)
			m.Idle(t)

			plane.Change(t, large.workload, func() { templateOf(t, large.workload).Containers[0].Image = "theirs" })
			runs(large.image)
			if counts := m.Requests.Counts(); counts["get "+k.Plural] == 0 {
				t.Errorf("the resource is not read: %v", counts)
			}

			plane.Read(t, large.resource)
			plane.Change(t, large.resource, func() { newImage(t, large.resource) })
			runs("nginx:1.17")
			m.Idle(t)

			m.Stop(t)
			m = plane.Start(t, ns, harness.WithNamespaceCache(1))
			m.Idle(t)
			if stored := m.Requests.Stored(); len(stored) > 0 || countReads(m) > 12 {
				t.Errorf("a restart writes %v and reads %d objects", stored, countReads(m))
			}
		})
	}
}

// newImage changes the image of a resource of newLargeResources.
func newImage(t testing.TB, resource harness.Resource) {
	t.Helper()
	const image = "nginx:1.17"
	switch r := resource.(type) {
	case *appv1.App:
		r.Spec.Image = image
	case *appv1.ModelBox:
		r.Spec.Image = image
	case *appv1.UnitedDeployment:
		r.Spec.Template.Image = image
	case *appv1.CloudManager:
		r.Spec.DB.StatefulSet.Image = image
	case *appv1.Task:
		r.Spec.Image = image
	default:
		t.Fatalf("no image of %T", resource)
	}
}
