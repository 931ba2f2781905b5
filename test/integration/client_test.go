package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	applyv1 "huolala.cn/app-operator/api/client/applyconfiguration/api/v1"
	"huolala.cn/app-operator/api/client/clientset/versioned"
	typedv1 "huolala.cn/app-operator/api/client/clientset/versioned/typed/api/v1"
	informers "huolala.cn/app-operator/api/client/informers/externalversions"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// typedClient is what the generated client of every kind has.
type typedClient[T client.Object, C any] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
}

// scaleClient is what the generated client of the kinds with a scale subresource has in addition.
type scaleClient interface {
	GetScale(ctx context.Context, name string, opts metav1.GetOptions) (*autoscalingv1.Scale, error)
	UpdateScale(ctx context.Context, name string, scale *autoscalingv1.Scale, opts metav1.UpdateOptions) (*autoscalingv1.Scale, error)
}

// clientCase is one kind: its object T, its apply configuration C, and the one field that the test sets.
type clientCase[T client.Object, C any] struct {
	client    typedClient[T, C]
	informer  cache.SharedIndexInformer
	cached    func(name string) (T, error) // Of the lister.
	configure func(name, image string) C
	object    func(meta metav1.ObjectMeta, image string) T
	image     func(T) string
	imagePath string
	replicas  func(T) *int32 // Nil without a scale subresource.
	// sole is the name of each object of a kind that has at most one in a namespace.
	sole string
}

// TestClient uses the generated client of each kind of the API against a real API server.
func TestClient(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clients, err := versioned.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	cases := clientCases(clients.AppV1(), ns)
	for name, typ := range plane.Client.Scheme().KnownTypes(appv1.GroupVersion) { // Those of resource.Kinds, and AppDefaults.
		if _, isKind := reflect.New(typ).Interface().(client.Object); isKind && cases[name] == nil {
			t.Errorf("the generated client of the kind %s is not used", name)
		}
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(ns))
			t.Cleanup(factory.Shutdown)
			check(t, factory)
		})
	}
}

// clientCases returns the check of each kind, by its name.
func clientCases(api typedv1.AppV1Interface, ns string) map[string]func(*testing.T, informers.SharedInformerFactory) {
	component := func(image string) *applyv1.ComponentApplyConfiguration {
		return applyv1.Component().WithImage(image)
	}
	cases := map[string]func(*testing.T, informers.SharedInformerFactory){}
	cases["App"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().Apps()
		clientCase[*appv1.App, *applyv1.AppApplyConfiguration]{
			client: api.Apps(ns), informer: cached.Informer(), cached: cached.Lister().Apps(ns).Get,
			configure: func(name, image string) *applyv1.AppApplyConfiguration {
				return applyv1.App(name, ns).WithSpec(applyv1.AppSpec().WithImage(image).WithReplicas(2))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.App {
				return &appv1.App{ObjectMeta: meta, Spec: appv1.AppSpec{WorkloadSpec: appv1.WorkloadSpec{Image: image}}}
			},
			image: func(a *appv1.App) string { return a.Spec.Image }, imagePath: ".spec.image",
			replicas: func(a *appv1.App) *int32 { return a.Spec.Replicas },
		}.check(t, ns, factory)
	}
	cases["ModelBox"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().ModelBoxes()
		clientCase[*appv1.ModelBox, *applyv1.ModelBoxApplyConfiguration]{
			client: api.ModelBoxes(ns), informer: cached.Informer(), cached: cached.Lister().ModelBoxes(ns).Get,
			configure: func(name, image string) *applyv1.ModelBoxApplyConfiguration {
				return applyv1.ModelBox(name, ns).WithSpec(applyv1.ModelBoxSpec().WithImage(image).WithReplicas(2))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.ModelBox {
				return &appv1.ModelBox{ObjectMeta: meta, Spec: appv1.ModelBoxSpec{WorkloadSpec: appv1.WorkloadSpec{Image: image}}}
			},
			image: func(b *appv1.ModelBox) string { return b.Spec.Image }, imagePath: ".spec.image",
			replicas: func(b *appv1.ModelBox) *int32 { return b.Spec.Replicas },
		}.check(t, ns, factory)
	}
	cases["UnitedDeployment"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().UnitedDeployments()
		clientCase[*appv1.UnitedDeployment, *applyv1.UnitedDeploymentApplyConfiguration]{
			client: api.UnitedDeployments(ns), informer: cached.Informer(),
			cached: cached.Lister().UnitedDeployments(ns).Get,
			configure: func(name, image string) *applyv1.UnitedDeploymentApplyConfiguration {
				return applyv1.UnitedDeployment(name, ns).WithSpec(applyv1.UnitedDeploymentSpec().
					WithDeploymentName("web").WithReplicas(2).WithTemplate(applyv1.WorkloadSpec().WithImage(image)))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.UnitedDeployment {
				return &appv1.UnitedDeployment{ObjectMeta: meta, Spec: appv1.UnitedDeploymentSpec{
					DeploymentName: "web", Replicas: ptr.To[int32](2), Template: &appv1.WorkloadSpec{Image: image},
				}}
			},
			image: func(u *appv1.UnitedDeployment) string { return u.Spec.Template.Image }, imagePath: ".spec.template.image",
			replicas: func(u *appv1.UnitedDeployment) *int32 { return u.Spec.Replicas },
		}.check(t, ns, factory)
	}
	cases["CloudManager"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().CloudManagers()
		clientCase[*appv1.CloudManager, *applyv1.CloudManagerApplyConfiguration]{
			client: api.CloudManagers(ns), informer: cached.Informer(),
			cached: cached.Lister().CloudManagers(ns).Get,
			configure: func(name, image string) *applyv1.CloudManagerApplyConfiguration {
				database := applyv1.Database().WithImage("db").WithStorage(applyv1.Storage().WithSize(resource.MustParse("1Gi")))
				return applyv1.CloudManager(name, ns).WithSpec(applyv1.CloudManagerSpec().
					WithFront(applyv1.Tier().WithDeployment(component(image))).
					WithIdentity(applyv1.Tier().WithDeployment(component("identity"))).
					WithDB(applyv1.DatabaseTier().WithStatefulSet(database)))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.CloudManager {
				obj := &appv1.CloudManager{ObjectMeta: meta}
				obj.Spec.Front.Deployment.Image, obj.Spec.Identity.Deployment.Image = image, "identity"
				obj.Spec.DB.StatefulSet.Image, obj.Spec.DB.StatefulSet.Storage.Size = "db", resource.MustParse("1Gi")
				return obj
			},
			image:     func(m *appv1.CloudManager) string { return m.Spec.Front.Deployment.Image },
			imagePath: ".spec.front.deployment.image",
		}.check(t, ns, factory)
	}
	cases["Task"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().Tasks()
		clientCase[*appv1.Task, *applyv1.TaskApplyConfiguration]{
			client: api.Tasks(ns), informer: cached.Informer(), cached: cached.Lister().Tasks(ns).Get,
			configure: func(name, image string) *applyv1.TaskApplyConfiguration {
				return applyv1.Task(name, ns).WithSpec(applyv1.TaskSpec().WithImage(image).WithSchedule("@daily"))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.Task {
				return &appv1.Task{ObjectMeta: meta, Spec: appv1.TaskSpec{Image: image, Schedule: "@daily"}}
			},
			image: func(k *appv1.Task) string { return k.Spec.Image }, imagePath: ".spec.image",
		}.check(t, ns, factory)
	}
	cases["AppDefaults"] = func(t *testing.T, factory informers.SharedInformerFactory) {
		cached := factory.App().V1().AppDefaultses()
		const annotation = "image" // No default is an image: the test sets an annotation to one. Another annotation stays the first manager's.
		clientCase[*appv1.AppDefaults, *applyv1.AppDefaultsApplyConfiguration]{
			client: api.AppDefaultses(ns), informer: cached.Informer(),
			cached: cached.Lister().AppDefaultses(ns).Get, sole: appv1.AppDefaultsName,
			configure: func(name, image string) *applyv1.AppDefaultsApplyConfiguration {
				defaults := applyv1.Defaults().WithAnnotations(map[string]string{annotation: image, "other": "same"})
				return applyv1.AppDefaults(name, ns).WithSpec(applyv1.AppDefaultsSpec().WithDefaults(defaults))
			},
			object: func(meta metav1.ObjectMeta, image string) *appv1.AppDefaults {
				defaults := appv1.Defaults{Annotations: map[string]string{annotation: image}}
				return &appv1.AppDefaults{ObjectMeta: meta, Spec: appv1.AppDefaultsSpec{Defaults: defaults}}
			},
			image:     func(d *appv1.AppDefaults) string { return d.Spec.Defaults.Annotations[annotation] },
			imagePath: ".spec.defaults.annotations." + annotation,
		}.check(t, ns, factory)
	}
	return cases
}

// names returns the names of the object that is created, and of the one that is applied.
func (c clientCase[T, C]) names() (created, applied string) {
	return cmp.Or(c.sole, "created"), cmp.Or(c.sole, "applied")
}

// observed returns the generation that the status of an object is about.
func observed(obj client.Object) int64 {
	if defaults, ok := obj.(*appv1.AppDefaults); ok {
		return defaults.Status.ObservedGeneration
	}
	return obj.(harness.Resource).CommonStatus().ObservedGeneration
}

// check takes an object of the kind from its creation to its end.
func (c clientCase[T, C]) check(t *testing.T, ns string, factory informers.SharedInformerFactory) {
	t.Helper()
	err := c.informer.AddIndexers(cache.Indexers{byImage: func(obj any) ([]string, error) { return []string{c.image(obj.(T))}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if synced := factory.WaitForCacheSyncWithContext(ctx); synced.Err != nil {
		t.Fatal(synced.Err)
	}
	// The cache is filled before there is anything: what comes into it from here on comes by its watch.
	first, second := c.names()
	created, err := c.client.Create(t.Context(), c.object(metav1.ObjectMeta{Name: first}, "nginx:1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.GetGeneration() != 1 || observed(created) != -1 {
		t.Errorf("created has generation %d and observedGeneration %d, want 1 and -1", created.GetGeneration(), observed(created))
	}
	if c.sole != "" { // There is no place for another one.
		c.isCached(t, first, "nginx:1")
		c.remove(t, first)
	}
	c.apply(t)
	c.scale(t)
	c.isCached(t, second, "nginx:3")
	if c.sole == "" {
		c.isCached(t, first, "nginx:1")
		if found, err := c.informer.GetIndexer().ByIndex(cache.NamespaceIndex, ns); err != nil || len(found) != 2 {
			t.Errorf("the index has %d objects of the namespace, want 2 (%v)", len(found), err)
		}
		c.remove(t, first)
	}
}

// byImage is the name of the index of objects by their image.
const byImage = "image"

// isCached waits until an object is cached as the API server has it, with an image, and checks that it is found by that.
func (c clientCase[T, C]) isCached(t *testing.T, name, image string) {
	t.Helper()
	harness.Eventually(t, func() error {
		live, err := c.client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		cached, err := c.cached(name)
		if err == nil && (cached.GetResourceVersion() != live.GetResourceVersion() || c.image(cached) != image) {
			err = fmt.Errorf("%s is cached with image %q, want %q, at the version of the API server", name, c.image(cached), image)
		}
		return err
	})
	found, err := c.informer.GetIndexer().ByIndex(byImage, image)
	if err != nil || len(found) != 1 || found[0].(T).GetName() != name {
		t.Errorf("the index has %v for image %s, want %s (%v)", found, image, name, err)
	}
}

// remove deletes an object, and waits until it is no longer cached.
func (c clientCase[T, C]) remove(t *testing.T, name string) {
	t.Helper()
	if err := c.client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, func() error {
		if _, err := c.cached(name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a deleted object is still cached (%w)", err)
		}
		return nil
	})
}

// apply has two managers apply one field: the second is told of the first, and takes the field over by force alone.
func (c clientCase[T, C]) apply(t *testing.T) {
	t.Helper()
	_, name := c.names()
	if _, err := c.client.Apply(t.Context(), c.configure(name, "nginx:2"), metav1.ApplyOptions{FieldManager: "first"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.client.Apply(t.Context(), c.configure(name, "nginx:3"), metav1.ApplyOptions{FieldManager: "second"})
	var causes []metav1.StatusCause
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		causes = status.Status().Details.Causes
	}
	if !apierrors.IsConflict(err) || len(causes) != 1 || causes[0].Field != c.imagePath || !strings.Contains(causes[0].Message, `"first"`) {
		t.Errorf("a second manager applies %s: %v, causes %v; want a conflict with the first", c.imagePath, err, causes)
	}
	applied, err := c.client.Apply(t.Context(), c.configure(name, "nginx:3"), metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.image(applied) != "nginx:3" {
		t.Errorf("image is %s after a forced apply, want nginx:3", c.image(applied))
	}
	for _, manager := range []string{"first", "second"} {
		if !slices.ContainsFunc(applied.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		}) {
			t.Errorf("managedFields have no entry of %s", manager)
		}
	}
}

// scale changes the number of pods by the scale subresource, where the kind has one.
func (c clientCase[T, C]) scale(t *testing.T) {
	t.Helper()
	client, ok := c.client.(scaleClient)
	if ok != (c.replicas != nil) {
		t.Fatalf("the client has methods of the scale subresource: %t, want %t", ok, c.replicas != nil)
	}
	if !ok {
		return
	}
	_, name := c.names()
	scale, err := client.GetScale(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 {
		t.Errorf("the scale is %d, want 2", scale.Spec.Replicas)
	}
	scale.Spec.Replicas = 5
	if scale, err = client.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	obj, err := c.client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(c.replicas(obj), 0); got != 5 || scale.Spec.Replicas != 5 {
		t.Errorf("replicas is %d and its scale %d after scaling to 5", got, scale.Spec.Replicas)
	}
}

// TestClientProgram runs the program of docs/client.md next to a manager, until the App that it applies is ready.
func TestClientProgram(t *testing.T) {
	t.Parallel()
	const namespace, name, want = "shop", "cart", "nginx:1.27" // As the program has them.
	program := filepath.Join(t.TempDir(), "consumer")
	if err := harness.BuildProgram(program, "test/consumer", "."); err != nil {
		t.Fatal(err)
	}
	plane.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	plane.Start(t, namespace)
	run := exec.CommandContext(t.Context(), program, want)
	run.Env = append(os.Environ(), "KUBECONFIG="+harness.WriteKubeconfig(t, plane.Config))
	run.Stderr = t.Output()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	awaitImage(t, d, want)
	completeRollout(t, d)
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Stands(t, app, "Ready=True/Ready")
}
