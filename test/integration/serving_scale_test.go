package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// awaitReplicas waits until the Deployment has a number of replicas.
func awaitReplicas(t testing.TB, d *appsv1.Deployment, want int32) {
	t.Helper()
	plane.Until(t, d, func() error {
		if *d.Spec.Replicas != want {
			return fmt.Errorf("%d replicas, want %d", *d.Spec.Replicas, want)
		}
		return nil
	})
}

// journal is every number of replicas that a Deployment has had, one after the other.
type journal struct {
	mu       sync.Mutex
	replicas []int32
	version  string
}

// followDeployment opens the journal of a Deployment. It ends with the test.
func followDeployment(t testing.TB, d *appsv1.Deployment) *journal {
	t.Helper()
	c, err := client.NewWithWatch(plane.Config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(d.Namespace), client.MatchingFields{"metadata.name": d.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	j := &journal{}
	go func() {
		for event := range w.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok && event.Type != watch.Deleted {
				j.add(d)
			}
		}
	}()
	return j
}

func (j *journal) add(d *appsv1.Deployment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.version = d.ResourceVersion
	if n := *d.Spec.Replicas; len(j.replicas) == 0 || j.replicas[len(j.replicas)-1] != n {
		j.replicas = append(j.replicas, n)
	}
}

// check waits until the journal has the Deployment's latest version, and compares it.
func (j *journal) check(t testing.TB, d *appsv1.Deployment, want ...int32) {
	t.Helper()
	plane.Read(t, d)
	harness.Eventually(t, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.version != d.ResourceVersion {
			return errors.New("the journal is behind")
		}
		if !slices.Equal(j.replicas, want) {
			return fmt.Errorf("the replicas were %v, want %v", j.replicas, want)
		}
		return nil
	})
}

// TestScale scales an App through its scale subresource.
func TestScale(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	template := d.Spec.Template
	m.Idle(t)
	m.Requests.Reset()

	scaleTo(t, app, 5)
	awaitReplicas(t, d, 5)
	plane.Stands(t, app, progressing...)
	sameTemplate(t, d, template)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	got := &autoscalingv1.Scale{}
	if err := plane.Client.SubResource("scale").Get(t.Context(), app, got); err != nil {
		t.Fatal(err)
	}
	want := autoscalingv1.ScaleStatus{Replicas: 5, Selector: "app.huolala.cn/app=web"}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}

	// To scale the Deployment itself is drift, as long as there is no autoscaler.
	scaleTo(t, d, 1)
	awaitReplicas(t, d, 5)
}

// TestAutoscaledDeployment hands the number of replicas over to an autoscaler of the Deployment and back. It must never
// be any other than the App's or the autoscaler's.
func TestAutoscaledDeployment(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	j := followDeployment(t, d)

	// A change before the autoscaler has scaled for the first time.
	hpa := newAutoscaler(app, "apps/v1", "Deployment")
	plane.Create(t, hpa)
	m.Idle(t)
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
	j.check(t, d, 2)
	if owns := ownedFields(t, d).Has(fieldpath.MakePathOrDie("spec", "replicas")); owns {
		t.Error("the number of replicas is still ours")
	}

	scaleTo(t, d, 7)
	setImage(t, app, "nginx:1.18")
	awaitImage(t, d, "nginx:1.18")
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](3) })
	plane.Stands(t, app, progressing...)
	m.Idle(t)
	j.check(t, d, 2, 7)
	if app.Status.Ready != "0/7" {
		t.Errorf("the App wants %s pods", app.Status.Ready)
	}
	m.Requests.Reset()
	scaleTo(t, d, 6)
	checkRequests(t, m, "the autoscaler scales", map[string]int{"patch apps/status": 1})

	// A manager that starts finds it as it is.
	m.Stop(t)
	m = plane.Start(t, ns)
	checkRequests(t, m, "restart", map[string]int{})

	plane.Delete(t, hpa)
	awaitReplicas(t, d, 3)
	j.check(t, d, 2, 7, 6, 3)
}

// TestAutoscalerScalesMeanwhile lets the autoscaler scale between the manager's look at the Deployment and its writes.
func TestAutoscalerScalesMeanwhile(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	var armed sync.Once
	var d *appsv1.Deployment
	ready := make(chan struct{})
	m := plane.Start(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Verb == "patch" && q.Resource == "deployments" {
			select {
			case <-ready:
				armed.Do(func() { scaleTo(t, d, 9) })
			default:
			}
		}
		return send()
	}))
	app := newApp(ns, "web")
	d, _ = createInPlace(t, app)
	j := followDeployment(t, d)
	plane.Create(t, newAutoscaler(app, "apps/v1", "Deployment"))
	m.Idle(t)
	close(ready)
	setImage(t, app, "nginx:1.17")
	awaitImage(t, deployment(app), "nginx:1.17")
	m.Idle(t)
	j.check(t, deployment(app), 2, 9)
}

// TestAutoscaledBeforeCreation creates an App whose autoscaler is there already. It begins with the App's number.
func TestAutoscaledBeforeCreation(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	plane.Create(t, newAutoscaler(app, "apps/v1", "Deployment"))
	m.Idle(t)
	d, _ := createInPlace(t, app)
	j := followDeployment(t, d)
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
	j.check(t, d, 2)
	scaleTo(t, d, 4)
	setImage(t, app, "nginx:1.18")
	awaitImage(t, d, "nginx:1.18")
	j.check(t, d, 2, 4)
}

// TestAutoscaledApp lets an autoscaler of the App write the App's replicas.
func TestAutoscaledApp(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	template := d.Spec.Template
	j := followDeployment(t, d)
	plane.Create(t, newAutoscaler(app, appv1.GroupVersion.String(), "App"))
	for _, n := range []int32{5, 0, 3} {
		scaleTo(t, app, n)
		awaitReplicas(t, d, n)
	}
	sameTemplate(t, d, template)
	plane.Stands(t, app, progressing...)
	m.Idle(t)
	j.check(t, d, 2, 5, 0, 3)
}

// TestTakeOverAutoscaled takes over the Deployment of a tutorial's operator for which an autoscaler stands by. As that
// one has not had to scale yet, the number of replicas is still the operator's.
func TestTakeOverAutoscaled(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	app := newTutorialApp(ns, "web")
	d, _ := leaveByTutorial(t, app)
	plane.Create(t, newAutoscaler(app, "apps/v1", "Deployment"))
	j := followDeployment(t, d)
	m := plane.Start(t, ns)
	m.Idle(t)
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
	j.check(t, d, 2)
	scaleTo(t, d, 4)
	setImage(t, app, "nginx:1.18")
	awaitImage(t, d, "nginx:1.18")
	j.check(t, d, 2, 4)
}
