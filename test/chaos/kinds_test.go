package chaos

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// version is the environment variable that tells one pod template of a workload from the next.
const version = "VERSION"

// kind is one way to use a custom resource.
type kind struct {
	name string
	// share is how many of twenty resources are of this kind.
	share int
	// make returns a new resource.
	make func(metav1.ObjectMeta) harness.Resource
	// extra, if set, is another owner's object that it is about.
	extra func(metav1.ObjectMeta) client.Object
	// edits are the changes that a user makes, each the n-th of its resource.
	edits []func(obj harness.Resource, n int)
	// patient is true where a deletion waits for what was asked for before: what it leaves behind depends on that.
	patient bool
}

var kinds = []kind{
	{name: "app", share: 8, make: newApp, edits: workloadEdits(func(obj harness.Resource) *appv1.WorkloadSpec {
		return &obj.(*appv1.App).Spec.WorkloadSpec
	})},
	{name: "box", share: 4, make: newModelBox, edits: workloadEdits(func(obj harness.Resource) *appv1.WorkloadSpec {
		return &obj.(*appv1.ModelBox).Spec.WorkloadSpec
	})},
	{name: "held", share: 2, make: newUnitedDeployment, extra: newDeployment, patient: true,
		edits: []func(harness.Resource, int){scaleUnited}},
	{name: "made", share: 2, make: newUnitedTemplate, edits: []func(harness.Resource, int){scaleUnited, func(obj harness.Resource, n int) {
		roll(obj.(*appv1.UnitedDeployment).Spec.Template, n)
	}}},
	{name: "task", share: 1, make: newTask, edits: []func(harness.Resource, int){
		func(obj harness.Resource, n int) { obj.(*appv1.Task).Spec.Image = fmt.Sprintf("nginx:1.%d", n) },
		func(obj harness.Resource, n int) { obj.(*appv1.Task).Spec.Suspended = n%2 == 0 },
		func(obj harness.Resource, n int) { obj.(*appv1.Task).Spec.Schedule = fmt.Sprintf("%d 0 1 1 *", n%60) },
	}},
	{name: "cloud", share: 3, make: newCloudManager, patient: true, edits: []func(harness.Resource, int){
		func(obj harness.Resource, n int) {
			roll(&obj.(*appv1.CloudManager).Spec.Front.Deployment.WorkloadSpec, n)
		},
		func(obj harness.Resource, n int) {
			roll(&obj.(*appv1.CloudManager).Spec.Identity.Deployment.WorkloadSpec, n)
		},
		func(obj harness.Resource, n int) {
			roll(&obj.(*appv1.CloudManager).Spec.DB.StatefulSet.WorkloadSpec, n)
		},
		func(obj harness.Resource, n int) {
			obj.(*appv1.CloudManager).Spec.Front.Deployment.Replicas = ptr.To(int32(n % 3))
		},
	}},
}

// workloadEdits are the changes of what has a WorkloadSpec.
func workloadEdits(spec func(harness.Resource) *appv1.WorkloadSpec) []func(harness.Resource, int) {
	return []func(harness.Resource, int){
		func(obj harness.Resource, n int) { roll(spec(obj), n) },
		func(obj harness.Resource, n int) { spec(obj).Replicas = ptr.To(int32(n % 3)) },
		func(obj harness.Resource, n int) {
			if len(spec(obj).Ports) == 0 {
				roll(spec(obj), n) // The container and its probes have a port again.
			}
			spec(obj).Ports = ports(8000 + n)
		},
		func(obj harness.Resource, n int) {
			spec(obj).Ports = nil
			roll(spec(obj), n)
		},
		func(obj harness.Resource, n int) { spec(obj).Labels = map[string]string{"edit": fmt.Sprint(n)} },
	}
}

// ports are one port of a Service, and always the same of a container.
func ports(port int) []appv1.Port {
	return []appv1.Port{{Port: int32(port), TargetPort: ptr.To(intstr.FromInt32(80))}}
}

// roll asks for another pod template.
func roll(spec *appv1.WorkloadSpec, n int) {
	spec.Image = fmt.Sprintf("nginx:1.%d", n)
	spec.Envs = []corev1.EnvVar{{Name: version, Value: fmt.Sprint(n)}}
}

func newSpec() appv1.WorkloadSpec {
	spec := appv1.WorkloadSpec{Ports: ports(8000)}
	roll(&spec, 0)
	return spec
}

func newApp(meta metav1.ObjectMeta) harness.Resource {
	return &appv1.App{ObjectMeta: meta, Spec: appv1.AppSpec{WorkloadSpec: newSpec()}}
}

func newModelBox(meta metav1.ObjectMeta) harness.Resource {
	return &appv1.ModelBox{ObjectMeta: meta, Spec: appv1.ModelBoxSpec{WorkloadSpec: newSpec()}}
}

// newUnitedDeployment returns one that holds newDeployment's.
func newUnitedDeployment(meta metav1.ObjectMeta) harness.Resource {
	return &appv1.UnitedDeployment{ObjectMeta: meta, Spec: appv1.UnitedDeploymentSpec{DeploymentName: meta.Name, Replicas: ptr.To[int32](1)}}
}

// newUnitedTemplate returns one that makes its Deployment.
func newUnitedTemplate(meta metav1.ObjectMeta) harness.Resource {
	return &appv1.UnitedDeployment{ObjectMeta: meta, Spec: appv1.UnitedDeploymentSpec{
		DeploymentName: meta.Name, Replicas: ptr.To[int32](1), Template: ptr.To(newSpec()),
	}}
}

func scaleUnited(obj harness.Resource, n int) {
	obj.(*appv1.UnitedDeployment).Spec.Replicas = ptr.To(int32(n % 3))
}

// newTask returns a Task that is due once a year.
func newTask(meta metav1.ObjectMeta) harness.Resource {
	task := fixture.NewTask(meta.Namespace, meta.Name)
	task.ObjectMeta = meta
	return task
}

func newCloudManager(meta metav1.ObjectMeta) harness.Resource {
	cm := &appv1.CloudManager{ObjectMeta: meta}
	cm.Spec.Front.Deployment.WorkloadSpec, cm.Spec.Identity.Deployment.WorkloadSpec = newSpec(), newSpec()
	cm.Spec.DB.StatefulSet.WorkloadSpec = newSpec()
	cm.Spec.DB.StatefulSet.Storage = appv1.Storage{Class: ptr.To("local-path"), Size: resource.MustParse("1Gi")}
	return cm
}

// newDeployment returns another owner's Deployment.
func newDeployment(meta metav1.ObjectMeta) client.Object {
	d := fixture.NewDeployment(meta.Namespace, meta.Name)
	d.ObjectMeta = meta
	return d
}

// fewest is how many resources the shortest script has.
const fewest = 6

// TestKindsAreScripted checks that users of the faults' tests make resources of all kinds, and each in every way, in the shortest script, too.
func TestKindsAreScripted(t *testing.T) {
	subjects := newScript(nil, "", fewest, true).subjects
	for i := range kinds {
		if !slices.ContainsFunc(subjects, func(s *subject) bool { return s.kind == &kinds[i] }) {
			t.Errorf("a script of %d resources has no %s", fewest, kinds[i].name)
		}
	}
	for _, all := range fixture.Kinds {
		want := reflect.TypeOf(all.New())
		if !slices.ContainsFunc(subjects, func(s *subject) bool { return reflect.TypeOf(s.kind.make(metav1.ObjectMeta{})) == want }) {
			t.Errorf("nobody makes a resource of the kind %s", all.Name)
		}
	}
}
