package apply

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

const owner = "owner-uid"

// wantedDeployment is a literal with every kind of field that server-side apply merges in a way of its own.
func wantedDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "app.huolala.cn/v1", Kind: "App", Name: "web", UID: owner, Controller: ptr.To(true),
			}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"disk": "ssd"},
					Tolerations:  []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
					Volumes:      []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
					Containers: []corev1.Container{{
						Name: "web", Image: "nginx:1", Command: []string{"nginx", "-g"},
						Env:       []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}},
						EnvFrom:   []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
						Ports:     []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
					}},
				},
			},
		},
	}
}

// liveDeployment is the same as the API server keeps it: with its defaults, and with what controllers write.
func liveDeployment() *appsv1.Deployment {
	d := wantedDeployment()
	d.UID, d.ResourceVersion, d.Generation = "live-uid", "7", 3
	d.CreationTimestamp = metav1.Now()
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = ptr.To[int32](10), ptr.To[int32](600)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromString("25%")),
		},
	}
	pod := &d.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
	pod.SecurityContext = &corev1.PodSecurityContext{}
	pod.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	pod.Containers[0].TerminationMessagePath = "/dev/termination-log"
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2}
	return d
}

func wantedService() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

func liveService() *corev1.Service {
	s := wantedService()
	s.UID, s.ResourceVersion = "live-uid", "7"
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, ptr.To(corev1.IPFamilyPolicySingleStack)
	s.Spec.SessionAffinity, s.Spec.InternalTrafficPolicy = corev1.ServiceAffinityNone, ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	return s
}

func literalOf(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	fields, err := literalValue(obj)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func hashOf(t testing.TB, obj client.Object) string {
	t.Helper()
	sum, err := hashObject(obj, "")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestLiteral(t *testing.T) {
	d := liveDeployment()
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	d.Spec.Template.CreationTimestamp = metav1.Now()
	before := d.DeepCopy()
	fields := literalOf(t, d)
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"status", "managedFields", "creationTimestamp", "null"} {
		if strings.Contains(string(data), server) {
			t.Errorf("the literal states %s:\n%s", server, data)
		}
	}
	if !strings.Contains(string(data), `"emptyDir":{}`) {
		t.Errorf("the literal has lost emptyDir, which is empty and means something:\n%s", data)
	}
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

func TestHash(t *testing.T) {
	sum := hashOf(t, wantedDeployment())
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		same   bool
	}{
		"nothing":            {func(*appsv1.Deployment) {}, true},
		"replicas":           {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) }, true},
		"replicas given up":  {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
		"status":             {func(d *appsv1.Deployment) { d.Status.Replicas = 9 }, true},
		"image":              {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:2" }, false},
		"order of variables": {func(d *appsv1.Deployment) { slices.Reverse(d.Spec.Template.Spec.Containers[0].Env) }, false},
		"label":              {func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "web", "more": "1"} }, false},
		"annotation":         {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, false},
		"owner":              {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "another" }, false},
		"name":               {func(d *appsv1.Deployment) { d.Name = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := wantedDeployment()
			c.change(d)
			if got := hashOf(t, d) == sum; got != c.same {
				t.Errorf("the hash is the same: %t, want %t", got, c.same)
			}
		})
	}
}

// TestHashIsKept fails where hashes come out another way than they did, be it by a newer library: each child of every
// cluster is then written once after the upgrade. Where that has to be, the new hash goes in here, and a word into the release
// notes.
func TestHashIsKept(t *testing.T) {
	const kept = "5e2e0540f94e4e77a2a1b5b730eadff5"
	if sum := hashOf(t, wantedDeployment()); sum != kept {
		t.Errorf("the hash of the same Deployment is %s, it was %s", sum, kept)
	}
}

// TestHashLeavesTheObject checks that what is sent is what was hashed, with replicas and values too.
func TestHashLeavesTheObject(t *testing.T) {
	secret := wantedSecret()
	secret.Data = map[string][]byte{"a": []byte("1")}
	for _, obj := range []client.Object{wantedDeployment(), &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}}, secret} {
		before := obj.DeepCopyObject()
		sum := hashOf(t, obj)
		more, err := withAnnotation(obj, "sum", sum)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("%T was changed (-before +after):\n%s", obj, diff)
		}
		if more.GetAnnotations()["sum"] != sum {
			t.Errorf("%T does not state its hash: %v", obj, more.GetAnnotations())
		}
		if again := hashOf(t, obj); again != sum {
			t.Errorf("%T hashed again: %s, want %s", obj, again, sum)
		}
	}
}

func TestBody(t *testing.T) {
	fields := literalOf(t, wantedDeployment())
	data, err := applyBody(fields, map[string]string{"uid": "live-uid"})
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := wantedDeployment()
	want.UID = "live-uid"
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(literalOf(t, wantedDeployment()), fields); diff != "" {
		t.Errorf("the fields were changed (-before +after):\n%s", diff)
	}
}

// TestBodyIsYAML checks that the API server reads the body as it was meant: it takes an apply request for YAML, in which
// fewer characters may stand for themselves than in JSON.
func TestBodyIsYAML(t *testing.T) {
	var every strings.Builder
	for r := rune(1); r <= 0x1_1000; r++ {
		if utf8.ValidRune(r) {
			every.WriteRune(r)
		}
	}
	d := wantedDeployment()
	d.Spec.Template.Spec.Containers[0].Env[0].Value = every.String()
	data, err := applyBody(literalOf(t, d), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Template.Spec.Containers[0].Env[0].Value != every.String() {
		t.Error("read as YAML, the value is another")
	}
}

// comparer is an engine that compares; it has no client to send anything with.
func comparer() *Engine {
	return &Engine{converter: applyconfigurations.NewTypeConverter(scheme.Scheme), shapes: &sync.Map{}}
}

// TestDifference changes one thing in what lives and says which of our fields that concerns, none if it is not ours.
func TestDifference(t *testing.T) {
	e := comparer()
	const container = `.spec.template.spec.containers[name="web"]`
	pod := func(change func(*corev1.PodSpec)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec) }
	}
	main := func(change func(*corev1.Container)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec.Containers[0]) }
	}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   []string
	}{
		"what the API server and controllers add": {func(*appsv1.Deployment) {}, nil},

		"others: annotation": {func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
		}, nil},
		"others: label": {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"app": "web", "theirs": "1"} }, nil},
		"others: container": {pod(func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "proxy", Image: "p"})
		}), nil},
		"others: container before": {pod(func(p *corev1.PodSpec) {
			p.Containers = append([]corev1.Container{{Name: "proxy", Image: "p"}}, p.Containers...)
		}), nil},
		"others: init container": {pod(func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "init", Image: "p"}} }), nil},
		"others: volume":         {pod(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, corev1.Volume{Name: "certs"}) }), nil},
		"others: variable":       {main(func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: "X", Value: "x"}) }), nil},
		"others: port": {main(func(c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 81, Protocol: "TCP"})
		}), nil},
		"others: same port, UDP": {main(func(c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, Protocol: "UDP"})
		}), nil},
		"others: request": {main(func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")} }), nil},
		"others: probe":   {main(func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{} }), nil},
		"others: owner": {func(d *appsv1.Deployment) {
			d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{UID: "2", Kind: "X", Name: "x", APIVersion: "v1"})
		}, nil},
		"others: fill an emptyDir": {pod(func(p *corev1.PodSpec) { p.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory }), nil},
		"same quantity":            {main(func(c *corev1.Container) { c.Resources.Limits["cpu"] = resource.MustParse("1000m") }), nil},

		"atomic map: selector, a key more": {func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels = map[string]string{"app": "web", "x": "y"} }, []string{".spec.selector"}},
		"atomic map: selector, an expression": {func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Exists"}}
		}, []string{".spec.selector"}},
		"atomic map: nodeSelector, a key more":  {pod(func(p *corev1.PodSpec) { p.NodeSelector["zone"] = "a" }), []string{".spec.template.spec.nodeSelector"}},
		"atomic map: nodeSelector gone":         {pod(func(p *corev1.PodSpec) { p.NodeSelector = nil }), []string{".spec.template.spec.nodeSelector"}},
		"atomic list: command, one more":        {main(func(c *corev1.Container) { c.Command = append(c.Command, "x") }), []string{container + ".command"}},
		"atomic list: command, another order":   {main(func(c *corev1.Container) { slices.Reverse(c.Command) }), []string{container + ".command"}},
		"atomic list: envFrom, one more":        {main(func(c *corev1.Container) { c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{Prefix: "P_"}) }), []string{container + ".envFrom"}},
		"atomic list: tolerations, one more":    {pod(func(p *corev1.PodSpec) { p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: "x"}) }), []string{".spec.template.spec.tolerations"}},
		"list-map: variable of another value":   {main(func(c *corev1.Container) { c.Env[0].Value = "x" }), []string{container + `.env[name="A"].value`}},
		"list-map: variable with a source":      {main(func(c *corev1.Container) { c.Env[0] = corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{}} }), []string{container + `.env[name="A"].value`}},
		"list-map: variable gone":               {main(func(c *corev1.Container) { c.Env = c.Env[1:] }), []string{container + `.env[name="A"]`, container + `.env[name="A"].name`, container + `.env[name="A"].value`}},
		"list-map: container gone, another one": {pod(func(p *corev1.PodSpec) { p.Containers[0].Name = "other" }), []string{container}},
		"map: label of another value":           {func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "x"} }, []string{".metadata.labels.app"}},
		"map: label gone":                       {func(d *appsv1.Deployment) { d.Labels = nil }, []string{".metadata.labels", ".metadata.labels.app"}},
		"map: limit gone":                       {main(func(c *corev1.Container) { c.Resources.Limits = nil }), []string{container + ".resources.limits", container + ".resources.limits.cpu"}},
		"scalar: image":                         {main(func(c *corev1.Container) { c.Image = "x" }), []string{container + ".image"}},
		"scalar: replicas":                      {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) }, []string{".spec.replicas"}},
		"owner reference gone":                  {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, []string{".metadata.ownerReferences"}},
		"empty, and it means something":         {pod(func(p *corev1.PodSpec) { p.Volumes[0].EmptyDir = nil }), []string{`.spec.template.spec.volumes[name="tmp"].emptyDir`}},
	} {
		t.Run(name, func(t *testing.T) {
			live := liveDeployment()
			live.Labels = map[string]string{"app": "web"}
			live.Spec.Template.Labels = map[string]string{"app": "web"}
			c.change(live)
			checkDifference(t, e, wantedDeployment(), live, c.want)
		})
	}
}

// checkDifference compares the paths of a difference. Where something whole is gone, its fields may be listed too: a
// wanted path stands for all below it.
func checkDifference(t *testing.T, e *Engine, wanted, live client.Object, paths []string) {
	t.Helper()
	diff, err := e.diffObject(wanted, live)
	if err != nil {
		t.Fatal(err)
	}
	if merged, err := e.mergeFields(literalOf(t, wanted), live); err != nil || !merged.Equals(diff) {
		t.Errorf("merged and compared, the difference is %s, not %s (%v)", merged, diff, err)
	}
	var got []string
	diff.Iterate(func(path fieldpath.Path) { got = append(got, path.String()) })
	for _, path := range paths {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, path) }) {
			t.Errorf("%s is missing in %q", path, got)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(g, path) }) {
			t.Errorf("%s differs, and is not expected to", g)
		}
	}
}

func TestDifferenceOfServices(t *testing.T) {
	e := comparer()
	for name, c := range map[string]struct {
		change func(*corev1.ServiceSpec)
		want   []string
	}{
		"what the API server adds":        {func(*corev1.ServiceSpec) {}, nil},
		"others: external traffic policy": {func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }, nil},
		"others: port": {func(s *corev1.ServiceSpec) {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: "x", Port: 81, Protocol: "TCP"})
		}, nil},
		"atomic map: selector, a key more":   {func(s *corev1.ServiceSpec) { s.Selector["x"] = "y" }, []string{".spec.selector"}},
		"atomic map: selector gone":          {func(s *corev1.ServiceSpec) { s.Selector = nil }, []string{".spec.selector"}},
		"list-map: another target":           {func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromString("http") }, []string{".spec.ports["}},
		"list-map: another protocol, no key": {func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = "UDP" }, []string{".spec.ports["}},
		"scalar: type":                       {func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }, []string{".spec.type"}},
	} {
		t.Run(name, func(t *testing.T) {
			live := liveService()
			c.change(&live.Spec)
			checkDifference(t, e, wantedService(), live, c.want)
		})
	}
}

// TestDifferenceToleratesDuplicates has what a plain create lets through and server-side apply does not: it must be
// seen as it is rather than end every reconcile with an error.
func TestDifferenceToleratesDuplicates(t *testing.T) {
	live := liveDeployment()
	c := &live.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: "a"}, corev1.EnvVar{Name: "X"}, corev1.EnvVar{Name: "X"})
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: "again", ContainerPort: 80, Protocol: corev1.ProtocolTCP})
	const container = `.spec.template.spec.containers[name="web"]`
	checkDifference(t, comparer(), wantedDeployment(), live,
		[]string{container + `.env[name="A"]`, container + `.ports[containerPort=80,protocol="TCP"]`})
}

// TestDifferenceWithoutDefaults checks that what is stated empty holds where the API server has filled it or dropped it.
func TestDifferenceWithoutDefaults(t *testing.T) {
	wanted, live := wantedDeployment(), liveDeployment()
	for _, d := range []*appsv1.Deployment{wanted, live} {
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
	fields := literalOf(t, wanted)
	for _, empty := range []string{"strategy"} {
		if spec, ok := fields["spec"].(map[string]any); !ok || spec[empty] == nil {
			t.Fatalf("the literal does not state %s any more; take it from the test", empty)
		}
	}
	checkDifference(t, comparer(), wanted, live, nil)
}

// entry is an entry of managedFields.
func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "apps/v1",
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

const apply, updateOp = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate

func TestOwns(t *testing.T) {
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"nobody":                    {nil, false},
		"we":                        {[]metav1.ManagedFieldsEntry{entry("me", apply, "", replicas)}, true},
		"we, with another":          {[]metav1.ManagedFieldsEntry{entry("hpa", updateOp, "scale", replicas), entry("me", apply, "", replicas)}, true},
		"we, another field":         {[]metav1.ManagedFieldsEntry{entry("me", apply, "", image)}, false},
		"another":                   {[]metav1.ManagedFieldsEntry{entry("other", apply, "", replicas)}, false},
		"we, by an update":          {[]metav1.ManagedFieldsEntry{entry("me", updateOp, "", replicas)}, false},
		"we, by a subresource":      {[]metav1.ManagedFieldsEntry{entry("me", apply, "scale", replicas)}, false},
		"unreadable":                {[]metav1.ManagedFieldsEntry{entry("me", apply, "", "{")}, false},
		"without fields":            {[]metav1.ManagedFieldsEntry{{Manager: "me", Operation: apply}}, false},
		"unreadable, then readable": {[]metav1.ManagedFieldsEntry{entry("me", apply, "", "{"), entry("me", apply, "", replicas)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.entries}}
			if got := ownsPath(d, "me", replicasPath); got != c.want {
				t.Errorf("owns is %t, want %t", got, c.want)
			}
		})
	}
}

func TestMade(t *testing.T) {
	const (
		owners = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"1\"}":{}}},"f:spec":{"f:replicas":{}}}`
		labels = `{"f:metadata":{"f:labels":{"f:app":{}}}}`
	)
	for _, c := range []struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		{entry("tutorial", updateOp, "", owners), true},
		{entry("kubectl-edit", updateOp, "", labels), false},
		{entry("app-operator/app", apply, "", owners), false},
	} {
		if got := createdByController(c.entry, managedSet(c.entry)); got != c.want {
			t.Errorf("made by %s is %t, want %t", c.entry.Manager, got, c.want)
		}
	}
}

func TestOwners(t *testing.T) {
	mine := metav1.OwnerReference{UID: "1", Controller: ptr.To(true)}
	dead := metav1.OwnerReference{UID: "2", Controller: ptr.To(true)}
	plain := metav1.OwnerReference{UID: "3", Controller: ptr.To(false)}
	plainer := metav1.OwnerReference{UID: "4"}
	all := []metav1.OwnerReference{plain, dead, mine, plainer}
	owned, retained := &plan{child: &Child{}}, &plan{child: &Child{Retained: true}}
	if diff := cmp.Diff([]metav1.OwnerReference{plain, mine, plainer}, owned.ownerReferences(all, "1")); diff != "" {
		t.Errorf("owner references (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{plain, plainer}, retained.ownerReferences(all, "1")); diff != "" {
		t.Errorf("owner references of a retained object (-want +got):\n%s", diff)
	}
	if got := owned.ownerReferences(nil, "1"); got == nil || len(got) != 0 {
		t.Errorf("none become %#v, want an empty list: it replaces the one that lives", got)
	}
}
