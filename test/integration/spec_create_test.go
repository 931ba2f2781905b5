package integration

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestCreate checks all that comes of an App: the children to the last field, the status, and the one event.
func TestCreate(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}}
	d, s := createInPlace(t, app)

	for _, child := range []client.Object{d, s} {
		checkChild(t, app, child)
	}
	checkDeployment(t, app, d)
	want := corev1.ServiceSpec{
		Selector: map[string]string{"app.huolala.cn/app": "web"},
		Ports:    []corev1.ServicePort{{Protocol: "TCP", Port: 8080, TargetPort: intstr.FromInt32(80)}},
		// What follows is the API server's.
		Type: "ClusterIP", ClusterIP: s.Spec.ClusterIP, ClusterIPs: []string{s.Spec.ClusterIP}, SessionAffinity: "None",
		IPFamilies: []corev1.IPFamily{"IPv4"}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
		InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
	}
	if diff := cmp.Diff(want, s.Spec); diff != "" {
		t.Errorf("Service (-want +got):\n%s", diff)
	}
	checkStatus(t, app)

	m.Idle(t)
	checkEvents(t, app, "Normal Created: Created Deployment web, Service web")
}

// checkChild checks the metadata of a child, and that our manager alone has written it.
func checkChild(t *testing.T, app *appv1.App, child client.Object) {
	t.Helper()
	owner := []metav1.OwnerReference{{APIVersion: "app.huolala.cn/v1", Kind: "App", Name: "web", UID: app.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
	if diff := cmp.Diff(owner, child.GetOwnerReferences()); diff != "" {
		t.Errorf("owner references of %T (-want +got):\n%s", child, diff)
	}
	if diff := cmp.Diff(childLabels("web"), child.GetLabels()); diff != "" {
		t.Errorf("labels of %T (-want +got):\n%s", child, diff)
	}
	if sum := child.GetAnnotations()[appv1.AnnotationLastAppliedHash]; !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(sum) {
		t.Errorf("the hash of %T is %q", child, sum)
	}
	if len(child.GetFinalizers()) > 0 {
		t.Errorf("finalizers of %T are %v", child, child.GetFinalizers())
	}
	for _, entry := range child.GetManagedFields() {
		if entry.Manager != "app-operator/app" || entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%T has fields of %s by %s", child, entry.Manager, entry.Operation)
		}
	}
}

func checkDeployment(t *testing.T, app *appv1.App, d *appsv1.Deployment) {
	t.Helper()
	podLabels := childLabels("web")
	podLabels["app.huolala.cn/app"] = "web"
	want := appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](2),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.huolala.cn/app": "web"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "web", Image: "nginx:1.16.1", ImagePullPolicy: "IfNotPresent",
					Env:   []corev1.EnvVar{{Name: "DEMO", Value: "app"}},
					Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}},
					// What follows is the API server's.
					TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
				}},
				RestartPolicy: "Always", TerminationGracePeriodSeconds: ptr.To[int64](30), DNSPolicy: "ClusterFirst",
				SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			},
		},
		Strategy: appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromString("25%")), MaxSurge: ptr.To(intstr.FromString("25%"))}},
		RevisionHistoryLimit: ptr.To[int32](10), ProgressDeadlineSeconds: ptr.To[int32](600),
	}
	addDefaults(&want.Template, want.Selector.MatchLabels)
	if diff := cmp.Diff(want, d.Spec); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
	if n := len(d.Annotations); n != 3 {
		t.Errorf("%d annotations, want those of hash, spec and inputs: %v", n, d.Annotations)
	}
	var spec appv1.AppSpec
	if err := json.Unmarshal([]byte(d.Annotations[appv1.AnnotationLastAppliedSpec]), &spec); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(app.Spec, spec); diff != "" {
		t.Errorf("recorded spec (-want +got):\n%s", diff)
	}
	if inputs := d.Annotations[appv1.AnnotationLastAppliedInputs]; inputs != `{"rendering":2}` {
		t.Errorf("recorded inputs are %s", inputs)
	}
}

// addDefaults states in a pod template what a spec without probes and constraints has for them, as the API server has it.
func addDefaults(template *corev1.PodTemplateSpec, selector map[string]string) {
	c := &template.Spec.Containers[0]
	c.ReadinessProbe = newDefaultProbe(5, 3, 5)
	for _, key := range []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"} {
		template.Spec.TopologySpreadConstraints = append(template.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: selector}})
	}
}

func checkStatus(t *testing.T, app *appv1.App) {
	t.Helper()
	message := "Deployment web: waiting for its controller to observe the latest change"
	want := appv1.AppStatus{WorkloadStatus: appv1.WorkloadStatus{
		CommonStatus: appv1.CommonStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "Progressing", Message: message, ObservedGeneration: 1},
			{Type: "Applied", Status: "True", Reason: "Applied", ObservedGeneration: 1},
			{Type: "Reconciling", Status: "True", Reason: "Progressing", Message: message, ObservedGeneration: 1},
			{Type: "Stalled", Status: "False", Reason: "NotStalled", ObservedGeneration: 1},
		}},
		Ready:     "0/2",
		Selector:  "app.huolala.cn/app=web",
		Endpoint:  "web." + app.Namespace + ".svc:8080",
		Rendering: 2,
	}}
	got := app.Status.DeepCopy()
	for i := range got.Conditions {
		if got.Conditions[i].LastTransitionTime.IsZero() {
			t.Errorf("%s has no time of its last transition", got.Conditions[i].Type)
		}
		got.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestStatusFollows plays the Deployment's controller, and reads the App as "kubectl wait" does.
func TestStatusFollows(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)

	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True/Ready", "Reconciling=False/Settled", "Stalled=False/NotStalled")
	if got := app.Status; got.Ready != "2/2" || got.Replicas != 2 || got.UpdatedReplicas != 2 || got.ReadyReplicas != 2 || got.AvailableReplicas != 2 {
		t.Errorf("status is %+v", got)
	}

	setImage(t, app, "nginx:1.17")
	plane.Stands(t, app, progressing...)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True/Ready")
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](0) })
	plane.Stands(t, app, progressing...)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True/ScaledToZero", "Reconciling=False/Settled")
	if app.Status.Ready != "0/0" || app.Status.Replicas != 0 {
		t.Errorf("status is %+v", app.Status)
	}
}

// TestCreateWithoutPorts checks that there is no Service, and that a foreign one of the name is none of the App's
// business.
func TestCreateWithoutPorts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app, other := newApp(ns, "alone"), newApp(ns, "neighbour")
	app.Spec.Ports, other.Spec.Ports = nil, nil
	foreign := service(other)
	foreign.Spec.Ports = []corev1.ServicePort{{Port: 1}}
	plane.Create(t, foreign)
	was := readWhole(t, foreign)

	for _, app := range []*appv1.App{app, other} {
		plane.Create(t, app)
		plane.Stands(t, app, progressing...)
		plane.Read(t, deployment(app))
		if app.Status.Endpoint != "" {
			t.Errorf("the endpoint is %q", app.Status.Endpoint)
		}
	}
	checkRequests(t, m, "creating two Apps without ports", map[string]int{"patch deployments": 2, "patch apps/status": 2, "create events": 2})
	plane.Absent(t, service(app))
	checkUntouched(t, foreign, was)
}
