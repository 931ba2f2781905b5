package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// notKept is how an App stands if the API server changes a field: by its pods, as all has been applied.
var notKept = slices.Concat(progressing, []string{"Applied=True/Overridden", "Stalled=False"})

// accepted is how an App stands that is applied to the letter, or takes what the API server makes of it.
var accepted = slices.Concat(progressing, []string{"Applied=True/Applied", "Stalled=False"})

// mirroredImage is how a message names the field that the policy of mirrored changes.
const mirroredImage = `.spec.template.spec.containers[name="web"].image of Deployment web`

// mirror is the image that the policy of mirrored puts in the place of each container named web.
const mirror = "mirror.example/nginx:1"

// makeMirrorPolicy makes an admission policy that replaces the images of a namespace's Deployments, and waits until it does.
func makeMirrorPolicy(t *testing.T, ns string) *admissionregistrationv1.MutatingAdmissionPolicyBinding {
	t.Helper()
	plane.Needs(t, 36, "MutatingAdmissionPolicy")
	rule := admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy:      ptr.To(admissionregistrationv1.Fail),
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, Rule: rule,
			}}},
		},
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
			Expression: fmt.Sprintf(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [
				Object.spec.template.spec.containers{name: "web", image: %q}]}}}}`, mirror),
		}}},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns}}
	plane.Create(t, policy, binding)
	t.Cleanup(func() { removeAtEnd(t, policy) })
	awaitPolicy(t, ns, func(image string, err error) bool { return err == nil && image == mirror })
	return binding
}

// awaitPolicy asks what would become of a Deployment with a container web, until a policy has come into force or out of it.
func awaitPolicy(t *testing.T, ns string, done func(image string, err error) bool) {
	t.Helper()
	harness.Eventually(t, func() error {
		probe := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
		probe.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		probe.Spec.Template.Labels = map[string]string{"a": "b"}
		probe.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); !done(containerOf(probe).Image, err) {
			return fmt.Errorf("the policy is not as it is to be: %s, %w", containerOf(probe).Image, err)
		}
		return nil
	})
}

// passTime lets time pass and touches the App: what would wake the manager runs on the real clock.
func passTime(t *testing.T, m *harness.Manager, clk *clocktesting.FakePassiveClock, app *appv1.App, pause time.Duration) {
	t.Helper()
	clk.SetTime(clk.Now().Add(pause))
	setAnnotation(t, app, "time", clk.Now().String())
	m.Idle(t)
}

// TestAdmissionReplaces has an admission policy replace the image that the App states. The App must say so and not write
// it again and again; what others change is repaired all the same, and so is the image once the policy is gone.
func TestAdmissionReplaces(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	m := plane.Start(t, ns, harness.WithClock(clk))
	binding := makeMirrorPolicy(t, ns)
	app := newApp(ns, "web")
	app.Spec.Ports = append(app.Spec.Ports, appv1.Port{Port: 9090})
	plane.Create(t, app)
	plane.Stands(t, app, notKept...)
	harness.Says(t, app, "Applied", "did not keep "+mirroredImage)
	m.Idle(t)
	d, s := readChildren(t, app)
	if containerOf(d).Image != mirror {
		t.Fatalf("the image is %s: the policy does nothing", containerOf(d).Image)
	}
	patches := func(want int) {
		t.Helper()
		if n := m.Requests.Writes()["patch deployments"]; n != want {
			t.Errorf("%d writes of the Deployment, want %d: %v", n, want, m.Requests.Writes())
		}
	}
	patches(2) // The creation, and one more try.
	for range 8 {
		passTime(t, m, clk, app, time.Second)
	}
	patches(2)
	passTime(t, m, clk, app, 5*time.Minute)
	patches(4)
	passTime(t, m, clk, app, 0)
	patches(4)

	// What another writer changes next to it is drift.
	editWithRetry(t, d, func() { containerOf(d).ImagePullPolicy = corev1.PullAlways })
	plane.Until(t, d, func() error {
		if containerOf(d).ImagePullPolicy != corev1.PullIfNotPresent {
			return errors.New("not repaired")
		}
		return nil
	})
	plane.Stands(t, app, notKept...)
	// All else of the spec is heeded, what is to go included.
	plane.Change(t, app, func() { app.Spec.Replicas, app.Spec.Ports = ptr.To[int32](3), nil })
	plane.Until(t, d, func() error {
		if *d.Spec.Replicas != 3 {
			return errors.New("not scaled")
		}
		return nil
	})
	plane.Gone(t, s)
	plane.Stands(t, app, notKept...)

	plane.Delete(t, binding)
	awaitPolicy(t, ns, func(image string, err error) bool { return err == nil && image != mirror })
	passTime(t, m, clk, app, 5*time.Minute)
	awaitImage(t, d, app.Spec.Image)
	plane.Stands(t, app, accepted...)
}

// TestAdmissionIsAccepted has an admission policy replace the image of an App that accepts what the API server makes of it.
// It is applied, and no request asks for the field again.
func TestAdmissionIsAccepted(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	m := plane.Start(t, ns, harness.WithClock(clk))
	makeMirrorPolicy(t, ns)
	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, notKept...)
	setAnnotation(t, app, appv1.AnnotationAcceptOverrides, "true")
	plane.Stands(t, app, accepted...)
	m.Idle(t)
	m.Requests.Reset()
	for range 3 {
		passTime(t, m, clk, app, 5*time.Minute)
	}
	if got := m.Requests.Counts(); len(got) > 0 {
		t.Errorf("requests are %v", got)
	}
	// What others change next to it is repaired as ever, and a new image that is overridden too is accepted.
	d, _ := readChildren(t, app)
	editWithRetry(t, d, func() { containerOf(d).ImagePullPolicy = corev1.PullAlways })
	plane.Until(t, d, func() error {
		if containerOf(d).ImagePullPolicy != corev1.PullIfNotPresent {
			return errors.New("not repaired")
		}
		return nil
	})
	setImage(t, app, "nginx:9")
	plane.Stands(t, app, accepted...)
	setAnnotation(t, app, appv1.AnnotationAcceptOverrides, "")
	plane.Stands(t, app, notKept...)
	harness.Says(t, app, "Applied", "did not keep "+mirroredImage)
}

// TestAdmissionIsStated is the way out: to state what the policy makes of it.
func TestAdmissionIsStated(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	makeMirrorPolicy(t, ns)
	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, notKept...)
	plane.Change(t, app, func() { app.Spec.Image = mirror })
	plane.Stands(t, app, accepted...)
}

// TestFeatureIsOff states a field whose feature is switched off: the API server takes it and drops it without a word.
func TestFeatureIsOff(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	app.Spec.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
	app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec": {"os": {"name": "linux"}}}`)}
	plane.Create(t, app)
	if plane.Minor(t) < 33 { // The API server does not have the field.
		plane.Stands(t, app, "Applied=False/Invalid", "Stalled=True/Invalid")
		harness.Says(t, app, "Applied", "stopSignal: field not declared in schema. The Kubernetes version of this cluster does not know the field")
		return
	}
	plane.Stands(t, app, notKept...)
	harness.Says(t, app, "Applied", `.spec.template.spec.containers[name="web"].lifecycle.stopSignal of Deployment web`)
	m.Idle(t)
	d, _ := readChildren(t, app)
	completeRollout(t, d)
	m.Idle(t)
	if n := m.Requests.Writes()["patch deployments"]; n != 2 {
		t.Errorf("%d writes of the Deployment, want 2", n)
	}
	// Another manager finds the same, and writes nothing.
	m.Stop(t)
	m = plane.Start(t, ns)
	setAnnotation(t, app, "again", "x")
	m.Idle(t)
	if writes := m.Requests.Writes(); len(writes) > 0 {
		t.Errorf("a restart writes %v", writes)
	}
	plane.Stands(t, app, "Ready=True", "Applied=True/Overridden", "Stalled=False")
	plane.Change(t, app, func() { app.Spec.Lifecycle = nil })
	plane.Stands(t, app, "Applied=True/Applied", "Stalled=False")
}

// TestEmptyStructStays takes the last field out of a struct that is stated to be there. Server-side apply takes the struct
// away as well, and gives it back with the next request: that is nobody's to fix.
func TestEmptyStructStays(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1000)}
	d, _ := createInPlace(t, app)
	plane.Change(t, app, func() { app.Spec.SecurityContext = &corev1.SecurityContext{} })
	plane.Stands(t, app, progressing...)
	m.Idle(t)
	plane.Read(t, d)
	if diff := cmp.Diff(&corev1.SecurityContext{}, containerOf(d).SecurityContext); diff != "" {
		t.Errorf("the struct (-want +got):\n%s", diff)
	}
	for _, note := range listEvents(t, app) {
		if !strings.HasPrefix(note, corev1.EventTypeNormal) {
			t.Errorf("event %s", note)
		}
	}
}
