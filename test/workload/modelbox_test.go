package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// modelBoxSample is the file of docs/modelbox.md. No other test may use its node port.
const modelBoxSample = "config/samples/app_v1_modelbox.yaml"

// TestModelBoxSample takes the sample through its life with kubectl.
func TestModelBoxSample(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	collected(t, ns)
	plane.Start(t, ns)
	k := newKubectl(t, ns)
	k.run("apply", "-f", modelBoxSample)
	k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "mbox/modelbox-sample")
	box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "modelbox-sample"}}
	readyPods(t, box, 4)
	modelBoxStatus(t, box)
	modelBoxChildren(t, box)
	leads(t, box, 80)
	modelBoxColumns(t, k, ns)

	k.run("scale", "mbox/modelbox-sample", "--replicas=2")
	readyPods(t, box, 2)
	if *box.Spec.Replicas != 2 {
		t.Errorf("spec.replicas is %d after scaling to 2", *box.Spec.Replicas)
	}
	if events := k.run("events", "--for", "modelbox/modelbox-sample"); !strings.Contains(events, "Created Deployment modelbox-sample, Service modelbox-sample") {
		t.Errorf("kubectl events does not tell of the creation:\n%s", events)
	}
	k.run("apply", "-f", modelBoxSample)
	readyPods(t, box, 4)

	k.run("delete", "-f", modelBoxSample)
	plane.Gone(t, box)
	empty(t, ns)
}

// modelBoxStatus checks all that the status of the ready sample says.
func modelBoxStatus(t *testing.T, box *appv1.ModelBox) {
	t.Helper()
	want := appv1.WorkloadStatus{
		CommonStatus: appv1.CommonStatus{
			ObservedGeneration: box.Generation,
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: "True", Reason: "Ready", Message: "Deployment modelbox-sample: 4 pods available"},
				{Type: "Applied", Status: "True", Reason: "Applied"},
				{Type: "Reconciling", Status: "False", Reason: "Settled"},
				{Type: "Stalled", Status: "False", Reason: "NotStalled"},
			},
		},
		Ready: "4/4", Replicas: 4, UpdatedReplicas: 4, ReadyReplicas: 4, AvailableReplicas: 4,
		Selector: "app.huolala.cn/modelbox=modelbox-sample", Endpoint: "modelbox-sample." + box.Namespace + ".svc:80 nodes:30010", Rendering: 2,
	}
	got := box.DeepCopy().Status.WorkloadStatus
	for i := range got.Conditions {
		got.Conditions[i].ObservedGeneration, got.Conditions[i].LastTransitionTime = 0, metav1.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// modelBoxChildren checks what the sample has become.
func modelBoxChildren(t *testing.T, box *appv1.ModelBox) {
	t.Helper()
	d, s := read(t, deployment(box)), read(t, service(box))
	for _, child := range []client.Object{d, s} {
		if !metav1.IsControlledBy(child, box) {
			t.Errorf("%T is not controlled by the ModelBox: %+v", child, child.GetOwnerReferences())
		}
	}
	containers := d.Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Name != "nginx" || containers[0].Image != "nginx:1.7.9" {
		t.Errorf("containers: %+v", containers)
	}
	percent, rolling := intstr.FromString("30%"), d.Spec.Strategy.RollingUpdate
	if rolling == nil || *rolling.MaxSurge != percent || *rolling.MaxUnavailable != percent || d.Spec.MinReadySeconds != 3 {
		t.Errorf("strategy %+v, ready for %d s", rolling, d.Spec.MinReadySeconds)
	}
	if p := s.Spec.Ports; s.Spec.Type != corev1.ServiceTypeNodePort || len(p) != 1 ||
		p[0].Port != 80 || p[0].TargetPort.IntValue() != 80 || p[0].NodePort != 30010 {
		t.Errorf("a Service of type %s with the ports %+v", s.Spec.Type, p)
	}
}

// modelBoxColumns checks what "kubectl get" shows of the ready sample.
func modelBoxColumns(t *testing.T, k *kubectl, namespace string) {
	t.Helper()
	narrow := []string{"NAME", "READY", "UPDATED", "STATUS", "IMAGE", "AGE"}
	row := []string{"modelbox-sample", "4/4", "4", "Ready", "nginx:1.7.9"}
	for _, name := range []string{"mbox", "modelbox", "modelboxes", "modelboxes.app.huolala.cn"} {
		rows := k.table("get", name)
		if len(rows) != 2 || !slices.Equal(rows[0], narrow) || len(rows[1]) != 6 || !slices.Equal(rows[1][:5], row) {
			t.Errorf("kubectl get %s: %q", name, rows)
		}
	}
	rows := k.table("get", "mbox", "modelbox-sample", "-o", "wide")
	// The cell of HOSTS is empty.
	if len(rows) != 2 || !slices.Equal(rows[0], append(narrow, "APPLIED", "ENDPOINT", "HOSTS", "SELECTOR", "MESSAGE")) || len(rows[1]) < 11 ||
		!slices.Equal(rows[1][6:10], []string{"Applied", "modelbox-sample." + namespace + ".svc:80", "nodes:30010", "app.huolala.cn/modelbox=modelbox-sample"}) {
		t.Errorf("kubectl get mbox -o wide: %q", rows)
	}
	for _, category := range []string{"all", "app-operator"} {
		if shown := k.run("get", category); !strings.Contains(shown, "modelbox-sample   4/4     4         Ready") {
			t.Errorf("kubectl get %s does not show the ModelBox:\n%s", category, shown)
		}
	}
}

// TestModelBoxRename gives the main container another name, then none: the container of the earlier name leaves nothing
// behind, not even what another writer has set in it.
func TestModelBoxRename(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	box := newModelBox(ns)
	box.Spec.Name = "nginx"
	plane.Create(t, box)
	readyPods(t, box, 2)
	k := newKubectl(t, ns)
	for i, name := range []string{"server", ""} {
		k.run("set", "env", "deployment/web", "--containers="+box.Spec.Name, "BY_HAND=1")
		readyPods(t, box, 2)
		before := uids(t, ns)
		plane.Change(t, box, func() { box.Spec.Name = name })
		readyPods(t, box, 2)
		if name == "" {
			name = "web"
		}
		runs(t, box, nil, []string{name})
		if n := shared(before, uids(t, ns)); n != 0 {
			t.Errorf("%d pods were not replaced", n)
		}
		if n := replicaSets(t, ns); n != 1+2*(i+1) {
			t.Errorf("%d ReplicaSets: renaming took more than one rollout", n)
		}
		if events := k.run("events", "--for", "modelbox/web"); strings.Contains(events, "Warning") {
			t.Errorf("renaming was warned of:\n%s", events)
		}
	}
}

// TestModelBoxAdopt adopts what the tutorial's operator has made for a ModelBox of its own group: the Deployment keeps its
// selector, and of the containers that were added to each pod none is left.
func TestModelBoxAdopt(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	box := newModelBox(ns)
	labels := map[string]string{"modelbox": box.Name}
	d, s := deployment(box), service(box)
	d.Spec.Replicas = box.Spec.Replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init-db", Image: "busybox"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: box.Name, Image: "nginx:1.7.9"}, {Name: "db-container", Image: "busybox"}}
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}
	plane.Create(t, d, s)
	plane.Create(t, box)
	plane.Stands(t, box, "Stalled=True/ResourceExists")

	plane.Change(t, box, func() { box.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} })
	readyPods(t, box, 2)
	runs(t, box, nil, []string{box.Name})
	leads(t, box, 80)
	if diff := cmp.Diff(labels, read(t, d).Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if uid := s.UID; read(t, s).UID != uid || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 8080 {
		t.Errorf("the Service was recreated, or its ports are not the spec's: %+v", s.Spec.Ports)
	}
}

// TestOneName gives an App and a ModelBox one name. The first has it; the second names its owner, touches nothing, and
// takes its place when the first goes.
func TestOneName(t *testing.T) {
	t.Parallel()
	for kind, made := range map[string]func(string) (first, second harness.Resource){
		"App":      func(ns string) (first, second harness.Resource) { return newApp(ns), newModelBox(ns) },
		"ModelBox": func(ns string) (first, second harness.Resource) { return newModelBox(ns), newApp(ns) },
	} {
		t.Run(kind+" first", func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			m := plane.Start(t, ns)
			first, second := made(ns)
			plane.Create(t, first)
			readyPods(t, first, 2)
			before, d, s := uids(t, ns), read(t, deployment(first)), read(t, service(first))
			m.Idle(t)
			m.Requests.Reset()

			// Not even an adoption takes what another resource controls.
			second.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
			specOf(second).Image = "nginx:1.17.0"
			askAround(t, second)
			plane.Create(t, second)
			plane.Stands(t, second, "Ready=False/ResourceExists", "Stalled=True/ResourceExists", "Reconciling=False")
			harness.Says(t, second, "Stalled", "Deployment web exists and is owned by "+kind+" web")
			m.Idle(t)
			undisturbed(t, ns, before, "a second resource of the name")
			if diff := cmp.Diff(d.Spec, read(t, deployment(first)).Spec); diff != "" {
				t.Errorf("the Deployment (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(s.Spec, read(t, service(first)).Spec); diff != "" {
				t.Errorf("the Service (-before +after):\n%s", diff)
			}
			for _, obj := range []client.Object{&autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}} {
				if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(d), obj); !apierrors.IsNotFound(err) {
					t.Errorf("%T next to a Deployment of another resource: %v", obj, err)
				}
			}
			if writes := m.Requests.Writes(); writes["patch deployments"] != 0 || writes["patch services"] != 0 {
				t.Errorf("writes: %v", writes)
			}
			if ready(t, first); statusOf(second).Ready != "0/2" || statusOf(second).Selector != "" {
				t.Errorf("the second counts the first one's pods as its own: %+v", statusOf(second))
			}

			plane.Delete(t, first)
			readyPods(t, second, 2)
			leads(t, second, 80)
			for _, child := range []client.Object{read(t, deployment(second)), read(t, service(second))} {
				if !metav1.IsControlledBy(child, second) {
					t.Errorf("%T is not the second one's: %+v", child, child.GetOwnerReferences())
				}
			}
		})
	}
}

// askAround has a resource ask for objects about its pods.
func askAround(t *testing.T, obj harness.Resource) {
	t.Helper()
	asked := appv1.ServingSpec{
		Autoscaling:      &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](2), MaxReplicas: 4},
		NetworkPolicy:    &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}},
		DisruptionBudget: &appv1.DisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}
	specOf(obj).Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	switch obj := obj.(type) {
	case *appv1.App:
		obj.Spec.ServingSpec = asked
	case *appv1.ModelBox:
		obj.Spec.ServingSpec = asked
	default:
		t.Fatalf("%T has no objects around its pods", obj)
	}
}
