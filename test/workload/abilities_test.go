package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// What a ModelBox can do, and with it an App: each of the tests here is run for both.

// both runs a test for an App and for a ModelBox that are yet to be created, each in a namespace with a manager of its
// own.
func both(t *testing.T, test func(*testing.T, harness.Resource)) {
	t.Parallel()
	for kind, obj := range map[string]func(string) harness.Resource{
		"App":      func(ns string) harness.Resource { return newApp(ns) },
		"ModelBox": func(ns string) harness.Resource { return newModelBox(ns) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			test(t, obj(ns))
		})
	}
}

// leads waits until the Service leads to all pods of its namespace, at this port of theirs, and to nothing else.
func leads(t *testing.T, obj client.Object, port int32) {
	t.Helper()
	harness.Eventually(t, func() error {
		var slices discoveryv1.EndpointSliceList
		if err := plane.Client.List(t.Context(), &slices, client.InNamespace(obj.GetNamespace()),
			client.MatchingLabels{discoveryv1.LabelServiceName: obj.GetName()}); err != nil {
			return err
		}
		led := map[types.UID]string{}
		for _, s := range slices.Items {
			if len(s.Ports) != 1 || ptr.Deref(s.Ports[0].Port, 0) != port {
				return fmt.Errorf("the Service leads to the ports %+v", s.Ports)
			}
			for _, e := range s.Endpoints {
				if ptr.Deref(e.Conditions.Ready, false) {
					led[e.TargetRef.UID] = e.Addresses[0]
				}
			}
		}
		running := map[types.UID]string{}
		for _, pod := range pods(t, obj.GetNamespace()) {
			running[pod.UID] = pod.Status.PodIP
		}
		if diff := cmp.Diff(running, led); diff != "" {
			return fmt.Errorf("the Service does not lead to the pods (-pods +endpoints):\n%s", diff)
		}
		return nil
	})
}

// TestLinked makes a Deployment and a Service and follows the one to the pods of the other: at first, with more pods, and
// with other pods.
func TestLinked(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		leads(t, obj, 80)
		d, s := read(t, deployment(obj)), read(t, service(obj))
		for _, child := range []client.Object{d, s} {
			if !metav1.IsControlledBy(child, obj) {
				t.Errorf("%T is not controlled by the resource: %+v", child, child.GetOwnerReferences())
			}
		}
		if diff := cmp.Diff(d.Spec.Selector.MatchLabels, s.Spec.Selector); diff != "" {
			t.Errorf("Deployment and Service select different pods (-Deployment +Service):\n%s", diff)
		}
		serviceType, minReady := corev1.ServiceTypeClusterIP, int32(0)
		if _, box := obj.(*appv1.ModelBox); box {
			serviceType, minReady = corev1.ServiceTypeNodePort, 3
		}
		if s.Spec.Type != serviceType || d.Spec.MinReadySeconds != minReady {
			t.Errorf("by default, a Service of type %s, and %d seconds until a pod counts", s.Spec.Type, d.Spec.MinReadySeconds)
		}
		want := fmt.Sprintf("web.%s.svc:8080", obj.GetNamespace())
		if serviceType == corev1.ServiceTypeNodePort {
			want += fmt.Sprintf(" nodes:%d", s.Spec.Ports[0].NodePort)
		}
		if statusOf(obj).Endpoint != want {
			t.Errorf("the endpoint is %q, want %q", statusOf(obj).Endpoint, want)
		}

		plane.Change(t, obj, func() { specOf(obj).Replicas = ptr.To[int32](3) })
		readyPods(t, obj, 3)
		leads(t, obj, 80)
		plane.Change(t, obj, func() {
			specOf(obj).Image = "nginx:1.17.0"
			specOf(obj).Ports[0].TargetPort = ptr.To(intstr.FromInt32(81))
		})
		readyPods(t, obj, 3)
		leads(t, obj, 81)
	})
}

// TestLost loses the Service, a pod and the Deployment, one by one and then all of them: they come back by themselves,
// and the Service leads to the pods again.
func TestLost(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		loseService := func() func() error { return lose(t, service(obj)) }
		loseDeployment := func() func() error { return lose(t, deployment(obj)) }
		losePod := func() func() error {
			pod := pods(t, obj.GetNamespace())[0]
			plane.Delete(t, pod.DeepCopy())
			return func() error {
				if slices.Contains(uids(t, obj.GetNamespace()), pod.UID) {
					return fmt.Errorf("pod %s is still there", pod.Name)
				}
				return nil
			}
		}
		for _, losses := range [][]func() func() error{
			{loseService}, {losePod}, {loseDeployment}, {losePod, loseService, loseDeployment},
		} {
			for _, lose := range losses {
				harness.Eventually(t, lose())
			}
			readyPods(t, obj, 2)
			leads(t, obj, 80)
		}
	})
}

// lose deletes an object. The function that it returns reports whether another one has taken its place.
func lose(t *testing.T, obj client.Object) func() error {
	t.Helper()
	lost := read(t, obj).GetUID()
	plane.Delete(t, obj)
	return func() error {
		err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil && obj.GetUID() == lost {
			return fmt.Errorf("%T %s that was deleted is still there", obj, obj.GetName())
		}
		return err
	}
}

// TestContainers runs init containers, sidecars and a native sidecar next to the main container, in the order of the spec,
// with nothing of the main container's; and takes them in another order, and away.
func TestContainers(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec := specOf(obj)
		spec.Envs = []corev1.EnvVar{{Name: "MAIN", Value: "1"}}
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		spec.InitContainers = []corev1.Container{
			{Name: "wait", Image: "busybox:1.32.1"},
			{Name: "proxy", Image: "proxy:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			{Name: "migrate", Image: "busybox:1.32.1", Env: []corev1.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1"}}},
		}
		spec.Containers = []corev1.Container{
			{Name: "log", Image: "log:1", Env: []corev1.EnvVar{{Name: "OWN", Value: "3"}}},
			{Name: "agent", Image: "agent:1"},
		}
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		runs(t, obj, []string{"wait", "proxy", "migrate"}, []string{"web", "log", "agent"})
		for _, pod := range pods(t, obj.GetNamespace()) {
			if proxy := pod.Status.InitContainerStatuses[1]; proxy.State.Running == nil {
				t.Errorf("the native sidecar does not run: %+v", proxy.State)
			}
			if diff := cmp.Diff(spec.InitContainers[2].Env, pod.Spec.InitContainers[2].Env); diff != "" {
				t.Errorf("environment of an init container (-want +got):\n%s", diff)
			}
			log := pod.Spec.Containers[1]
			if diff := cmp.Diff(spec.Containers[0].Env, log.Env); diff != "" || len(log.Resources.Requests) != 0 {
				t.Errorf("the sidecar asks for %v, and its environment is (-want +got):\n%s", log.Resources.Requests, diff)
			}
		}

		plane.Change(t, obj, func() {
			slices.Reverse(spec.InitContainers)
			slices.Reverse(spec.Containers)
		})
		readyPods(t, obj, 2)
		runs(t, obj, []string{"migrate", "proxy", "wait"}, []string{"web", "agent", "log"})

		plane.Change(t, obj, func() { spec.InitContainers, spec.Containers = nil, spec.Containers[:1] })
		readyPods(t, obj, 2)
		runs(t, obj, nil, []string{"web", "agent"})

		before := uids(t, obj.GetNamespace())
		plane.Change(t, obj, func() { spec.Containers[0].Name = "web" })
		plane.Stands(t, obj, "Ready=False/Invalid", "Stalled=True/Invalid")
		harness.Says(t, obj, "Stalled", "spec.containers[0].name", "web")
		if !slices.Equal(before, uids(t, obj.GetNamespace())) {
			t.Error("a clash of names has replaced pods")
		}
	})
}

// runs checks the names of the containers of every pod, in order.
func runs(t *testing.T, obj client.Object, init, containers []string) {
	t.Helper()
	names := func(list []corev1.Container) []string {
		var found []string
		for i := range list {
			found = append(found, list[i].Name)
		}
		return found
	}
	for _, pod := range pods(t, obj.GetNamespace()) {
		if is := names(pod.Spec.InitContainers); !slices.Equal(is, init) {
			t.Errorf("init containers %q, want %q", is, init)
		}
		if is := names(pod.Spec.Containers); !slices.Equal(is, containers) {
			t.Errorf("containers %q, want %q", is, containers)
		}
	}
}

// TestRollingUpdate rolls ten pods over, by a percentage and by a number that is written as a string: at no time are there
// more pods, or fewer available ones, than it allows. How much of that is used is the choice of the Deployment's controller.
func TestRollingUpdate(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec, minReady := specOf(obj), 3*time.Second
		spec.Replicas = ptr.To[int32](10)
		if _, app := obj.(*appv1.App); app {
			minReady = 2 * time.Second
			spec.MinReadySeconds = ptr.To[int32](2)
		}
		plane.Create(t, obj)
		readyPods(t, obj, 10)
		for _, step := range []struct {
			value, live  intstr.IntOrString
			most, fewest int32
		}{
			{intstr.FromString("30%"), intstr.FromString("30%"), 13, 7},
			{intstr.FromString("2"), intstr.FromInt32(2), 12, 8},
			{intstr.FromInt32(1), intstr.FromInt32(1), 11, 9},
		} {
			before := uids(t, obj.GetNamespace())
			j := harness.Follow[*appsv1.ReplicaSet](t, plane, &appsv1.ReplicaSetList{}, obj.GetNamespace())
			began := time.Now()
			plane.Change(t, obj, func() {
				spec.RollingUpdate = &step.value
				spec.Image = "nginx:" + step.value.String()[:1]
			})
			readyPods(t, obj, 10)
			if took := time.Since(began); took < minReady {
				t.Errorf("the rollout took %s, though a new pod must be ready for %s", took, minReady)
			}
			if n := shared(before, uids(t, obj.GetNamespace())); n != 0 {
				t.Errorf("%d pods were not replaced", n)
			}
			live := read(t, deployment(obj)).Spec.Strategy.RollingUpdate
			if *live.MaxSurge != step.live || *live.MaxUnavailable != step.live {
				t.Errorf("%#v became maxSurge %#v and maxUnavailable %#v", step.value, *live.MaxSurge, *live.MaxUnavailable)
			}
			if most, fewest := extremes(t, j, obj); most > step.most || fewest < step.fewest {
				t.Errorf("with %s there were up to %d pods, want at most %d; and down to %d available, want at least %d",
					step.value.String(), most, step.most, fewest, step.fewest)
			}
		}
	})
}

// extremes returns how many pods there were to be at most, and how many were available at least, by the journal of all
// ReplicaSets.
func extremes(t *testing.T, j *harness.Journal[*appsv1.ReplicaSet], obj harness.Resource) (most, fewest int32) {
	t.Helper()
	var list appsv1.ReplicaSetList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	var states []*appsv1.ReplicaSet
	for i := range list.Items {
		if upTo := j.UpTo(t, &list.Items[i]); len(upTo) > len(states) {
			states = upTo
		}
	}
	latest := map[types.UID]*appsv1.ReplicaSet{}
	replicas := *specOf(obj).Replicas
	fewest = replicas
	for _, state := range states {
		latest[state.UID] = state
		var wanted, available int32
		for _, set := range latest {
			wanted += *set.Spec.Replicas
			available += set.Status.AvailableReplicas
		}
		if wanted >= replicas { // The journal begins with one set after the other.
			most, fewest = max(most, wanted), min(fewest, available)
		}
	}
	if most < replicas {
		t.Errorf("the journal has %d states, and none with all pods", len(states))
	}
	return most, fewest
}

// TestRecreate replaces all pods at once: no new one is made before the last of the old ones is gone.
func TestRecreate(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec := specOf(obj)
		spec.Strategy = appsv1.RecreateDeploymentStrategyType
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		before := uids(t, obj.GetNamespace())
		j := harness.Follow[*corev1.Pod](t, plane, &corev1.PodList{}, obj.GetNamespace())
		plane.Change(t, obj, func() { spec.Image = "nginx:1.17.0" })
		readyPods(t, obj, 2)

		var states []*corev1.Pod
		for _, pod := range pods(t, obj.GetNamespace()) {
			if upTo := j.UpTo(t, &pod); len(upTo) > len(states) {
				states = upTo
			}
		}
		lastOld, firstNew := -1, -1
		for i, state := range states {
			if slices.Contains(before, state.UID) {
				lastOld = i
			} else if firstNew < 0 {
				firstNew = i
			}
		}
		if lastOld < 0 || firstNew < lastOld {
			t.Errorf("of %d states, the first of a new pod is the %d., the last of an old one the %d.", len(states), firstNew, lastOld)
		}

		// And back, where what goes with the one strategy is not left behind in the other.
		plane.Change(t, obj, func() { spec.Strategy, spec.Image = "", "nginx:1.18.0" })
		readyPods(t, obj, 2)
		if live := read(t, deployment(obj)).Spec.Strategy; live.RollingUpdate == nil || live.RollingUpdate.MaxSurge.String() != "25%" {
			t.Errorf("the strategy is now %+v", live)
		}
	})
}

// TestSizes gives the main container a named size, another one and resources of its own. A named size and resources
// exclude each other.
func TestSizes(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec := specOf(obj)
		spec.Containers = []corev1.Container{{Name: "log", Image: "log:1"}}
		amounts := func(cpu, memory string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		}
		own := corev1.ResourceRequirements{Requests: amounts("10m", "20Mi"), Limits: amounts("30m", "40Mi")}
		have := func(want corev1.ResourceRequirements, status string) {
			t.Helper()
			readyPods(t, obj, 2)
			for _, pod := range pods(t, obj.GetNamespace()) {
				if diff := cmp.Diff(want, pod.Spec.Containers[0].Resources); diff != "" {
					t.Errorf("size %q (-want +got):\n%s", spec.Size, diff)
				}
				if sidecar := pod.Spec.Containers[1].Resources; len(sidecar.Requests)+len(sidecar.Limits) != 0 {
					t.Errorf("size %q: the sidecar has %+v", spec.Size, sidecar)
				}
			}
			if is := statusOf(obj).Size; is != status {
				t.Errorf("size %q: the status says %q, want %q", spec.Size, is, status)
			}
		}

		spec.Size = appv1.SizeSmall
		plane.Create(t, obj)
		have(corev1.ResourceRequirements{Requests: amounts("100m", "128Mi"), Limits: amounts("500m", "256Mi")},
			"small (cpu 100m/500m, memory 128Mi/256Mi)")
		plane.Change(t, obj, func() { spec.Size = appv1.SizeMedium })
		have(corev1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("1", "1Gi")},
			"medium (cpu 250m/1, memory 512Mi/1Gi)")
		plane.Change(t, obj, func() { spec.Size, spec.Resources = appv1.SizeCustom, own })
		have(own, "")

		before := obj.DeepCopyObject().(client.Object)
		spec.Size = appv1.SizeLarge
		err := plane.Client.Patch(t.Context(), obj, client.MergeFrom(before))
		if err == nil || !strings.Contains(err.Error(), "resources") || !strings.Contains(err.Error(), "size") {
			t.Errorf("a size next to resources: %v", err)
		}
	})
}

// nodePorts are those that a test pins. They are the whole cluster's, so each test has its own.
type nodePorts struct{ app, modelBox int32 }

func (p nodePorts) of(obj harness.Resource) int32 {
	if _, box := obj.(*appv1.ModelBox); box {
		return p.modelBox
	}
	return p.app
}

// TestServiceTypes changes the Service's type there and back: its address stays, so does the port that the user pinned,
// and it leads to the same pods all the time.
func TestServiceTypes(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		pinned, spec := nodePorts{app: 30020, modelBox: 30021}.of(obj), specOf(obj)
		spec.Ports[0].NodePort = pinned
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		before, s := uids(t, obj.GetNamespace()), read(t, service(obj))
		byDefault, address, uid := s.Spec.Type, s.Spec.ClusterIP, s.UID
		for _, want := range []corev1.ServiceType{
			"", corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP,
			corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, "",
		} {
			plane.Change(t, obj, func() { spec.Service.Type = want })
			if want == "" {
				want = byDefault
			}
			nodePort := pinned
			if want == corev1.ServiceTypeClusterIP {
				nodePort = 0
			}
			plane.Until(t, s, func() error {
				if s.Spec.Type != want || s.Spec.Ports[0].NodePort != nodePort {
					return fmt.Errorf("type %s with node port %d, want %s with %d", s.Spec.Type, s.Spec.Ports[0].NodePort, want, nodePort)
				}
				return nil
			})
			if s.Spec.ClusterIP != address || s.UID != uid {
				t.Errorf("type %s: the address was %s and is %s", want, address, s.Spec.ClusterIP)
			}
			if want == corev1.ServiceTypeLoadBalancer {
				plane.Until(t, obj, func() error {
					if said := harness.Message(obj, "Ready"); !strings.Contains(said, "is waiting for a load balancer address") {
						return fmt.Errorf("Ready says %q", said)
					}
					return nil
				})
				plane.ChangeStatus(t, s, func() { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}} })
			}
			ready(t, obj)
			leads(t, obj, 80)
		}
		if !slices.Equal(before, uids(t, obj.GetNamespace())) {
			t.Error("the pods were replaced")
		}
	})
}

// TestNodePortTaken asks for a node port that another Service has: it says so, its pods run, and another port is taken at
// once. A Service that has one keeps it when it is to have the taken one in its stead.
func TestNodePortTaken(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec, taken, free := specOf(obj), nodePorts{app: 30022, modelBox: 30023}.of(obj), nodePorts{app: 30024, modelBox: 30025}.of(obj)
		other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: "other"}}
		other.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: taken}}}
		plane.Create(t, other)
		want := []string{"Ready=False/NodePortTaken", "Reconciling=False", "Stalled=True/NodePortTaken"}

		spec.Service.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, taken
		plane.Create(t, obj)
		plane.Stands(t, obj, want...)
		harness.Says(t, obj, "Stalled", "Service web", "spec.ports[0].nodePort", fmt.Sprint(taken), "Another Service")
		plane.Until(t, obj, func() error {
			if ready := statusOf(obj).Ready; ready != "2/2" {
				return fmt.Errorf("ready %s", ready)
			}
			return nil
		})
		plane.Absent(t, service(obj))

		plane.Change(t, obj, func() { spec.Ports[0].NodePort = free })
		readyPods(t, obj, 2)
		leads(t, obj, 80)
		plane.Change(t, obj, func() { spec.Ports[0].NodePort = taken })
		plane.Stands(t, obj, want...)
		if s := read(t, service(obj)); s.Spec.Ports[0].NodePort != free {
			t.Errorf("the Service's node port is %d, want %d", s.Spec.Ports[0].NodePort, free)
		}
		leads(t, obj, 80)
	})
}

// TestHeadless makes a Service without an address of its own, which it cannot be given later.
func TestHeadless(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		specOf(obj).Service.ClusterIP = corev1.ClusterIPNone
		plane.Create(t, obj)
		readyPods(t, obj, 2)
		leads(t, obj, 80)
		s := read(t, service(obj))
		if s.Spec.ClusterIP != corev1.ClusterIPNone || s.Spec.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("a Service of type %s with the address %s", s.Spec.Type, s.Spec.ClusterIP)
		}

		plane.Change(t, obj, func() { specOf(obj).Service.ClusterIP = "" })
		plane.Stands(t, obj, "Stalled=True/ImmutableField")
		harness.Says(t, obj, "Stalled", "Service web", "service.clusterIP")
		plane.Change(t, obj, func() { specOf(obj).Service.ClusterIP = corev1.ClusterIPNone })
		ready(t, obj)
		if again := read(t, service(obj)); again.UID != s.UID {
			t.Error("the Service was recreated")
		}
	})
}

// TestProbes looks for the default probes on the pods: on the first TCP port of the main container alone, generous at the
// start; each can be given, and all be left out.
func TestProbes(t *testing.T) {
	both(t, func(t *testing.T, obj harness.Resource) {
		spec := specOf(obj)
		spec.MinReadySeconds = ptr.To[int32](0)
		spec.Ports = append([]appv1.Port{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}, spec.Ports...)
		spec.Ports[1].Name = "http"
		spec.Containers = []corev1.Container{{Name: "log", Image: "log:1"}}
		plane.Create(t, obj)
		c := probed(t, obj)
		defaults := map[string]*corev1.Probe{"readiness": c.ReadinessProbe}
		if _, box := obj.(*appv1.ModelBox); box {
			defaults["liveness"], defaults["startup"] = c.LivenessProbe, c.StartupProbe
		} else if c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Errorf("by default an App has %+v and %+v", c.LivenessProbe, c.StartupProbe)
		}
		for name, probe := range defaults {
			if probe == nil || probe.TCPSocket == nil || probe.TCPSocket.Port.IntValue() != 80 {
				t.Errorf("the default %s probe is %+v", name, probe)
			}
		}
		if s := c.StartupProbe; s != nil && time.Duration(s.PeriodSeconds*s.FailureThreshold)*time.Second < 24*time.Hour {
			t.Errorf("a container that is slow to start is killed after %d times %d s", s.FailureThreshold, s.PeriodSeconds)
		}

		own := &corev1.Probe{PeriodSeconds: 7, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("metrics")},
		}}
		plane.Change(t, obj, func() {
			spec.Probes.Readiness = own
			spec.Ports = append(spec.Ports, appv1.Port{Name: "metrics", Port: 9090})
		})
		c = probed(t, obj)
		if r := c.ReadinessProbe; r.HTTPGet == nil || r.TCPSocket != nil || r.PeriodSeconds != 7 || r.HTTPGet.Path != "/ready" {
			t.Errorf("the readiness probe is %+v", r)
		}
		if c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Errorf("the other probes are %+v and %+v", c.LivenessProbe, c.StartupProbe)
		}

		for i, mutate := range []func(){
			func() { spec.Probes = appv1.Probes{Disabled: true} },
			func() { spec.Probes, spec.Ports = appv1.Probes{}, spec.Ports[:1] }, // The UDP port alone.
		} {
			plane.Change(t, obj, mutate)
			if c := probed(t, obj); c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
				t.Errorf("change %d: %+v, %+v, %+v", i, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe)
			}
		}
	})
}

// probed waits until the resource is Ready, and returns the main container of its pods. No other has a probe.
func probed(t *testing.T, obj harness.Resource) corev1.Container {
	t.Helper()
	readyPods(t, obj, 2)
	pod := pods(t, obj.GetNamespace())[0]
	for _, c := range pod.Spec.Containers[1:] {
		if c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
			t.Errorf("container %s is probed", c.Name)
		}
	}
	return pod.Spec.Containers[0]
}
