package fields_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

func literalOf(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	literal, err := fields.Literal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return literal
}

func TestLiteral(t *testing.T) {
	d := fieldtest.LiveDeployment()
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	d.Spec.Template.CreationTimestamp = metav1.Now()
	before := d.DeepCopy()
	data, err := json.Marshal(literalOf(t, d))
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

// comparer compares objects of Kubernetes' own types.
func comparer() *fields.Comparer {
	return fields.NewComparer(scheme.Scheme)
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
			live := fieldtest.LiveDeployment()
			live.Labels = map[string]string{"app": "web"}
			live.Spec.Template.Labels = map[string]string{"app": "web"}
			c.change(live)
			checkDifference(t, e, fieldtest.Deployment(), live, c.want)
		})
	}
}

// checkDifference compares the paths of a difference. Where something whole is gone, its fields may be listed too: a
// wanted path stands for all below it.
func checkDifference(t *testing.T, e *fields.Comparer, wanted, live client.Object, paths []string) {
	t.Helper()
	diff, err := e.Diff(wanted, live)
	if err != nil {
		t.Fatal(err)
	}
	if merged, err := e.MergeFields(literalOf(t, wanted), live); err != nil || !merged.Equals(diff) {
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
			live := fieldtest.LiveService()
			c.change(&live.Spec)
			checkDifference(t, e, fieldtest.Service(), live, c.want)
		})
	}
}

// TestDifferenceToleratesDuplicates has what a plain create lets through and server-side apply does not: it must be
// seen as it is rather than end every reconcile with an error.
func TestDifferenceToleratesDuplicates(t *testing.T) {
	live := fieldtest.LiveDeployment()
	c := &live.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: "a"}, corev1.EnvVar{Name: "X"}, corev1.EnvVar{Name: "X"})
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: "again", ContainerPort: 80, Protocol: corev1.ProtocolTCP})
	const container = `.spec.template.spec.containers[name="web"]`
	checkDifference(t, comparer(), fieldtest.Deployment(), live,
		[]string{container + `.env[name="A"]`, container + `.ports[containerPort=80,protocol="TCP"]`})
}

// TestDifferenceWithoutDefaults checks that what is stated empty holds where the API server has filled it or dropped it.
func TestDifferenceWithoutDefaults(t *testing.T) {
	wanted, live := fieldtest.Deployment(), fieldtest.LiveDeployment()
	for _, d := range []*appsv1.Deployment{wanted, live} {
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
	literal := literalOf(t, wanted)
	for _, empty := range []string{"strategy"} {
		if spec, ok := literal["spec"].(map[string]any); !ok || spec[empty] == nil {
			t.Fatalf("the literal does not state %s any more; take it from the test", empty)
		}
	}
	checkDifference(t, comparer(), wanted, live, nil)
}

func TestOwns(t *testing.T) {
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"nobody":                    {nil, false},
		"we":                        {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Apply, "", replicas)}, true},
		"we, with another":          {[]metav1.ManagedFieldsEntry{fieldtest.Entry("hpa", fieldtest.Update, "scale", replicas), fieldtest.Entry("me", fieldtest.Apply, "", replicas)}, true},
		"we, another field":         {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Apply, "", image)}, false},
		"another":                   {[]metav1.ManagedFieldsEntry{fieldtest.Entry("other", fieldtest.Apply, "", replicas)}, false},
		"we, by an update":          {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Update, "", replicas)}, false},
		"we, by a subresource":      {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Apply, "scale", replicas)}, false},
		"unreadable":                {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Apply, "", "{")}, false},
		"without fields":            {[]metav1.ManagedFieldsEntry{{Manager: "me", Operation: fieldtest.Apply}}, false},
		"unreadable, then readable": {[]metav1.ManagedFieldsEntry{fieldtest.Entry("me", fieldtest.Apply, "", "{"), fieldtest.Entry("me", fieldtest.Apply, "", replicas)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.entries}}
			if got := fields.OwnsPath(d, "me", fieldpath.MakePathOrDie("spec", "replicas")); got != c.want {
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
		owner types.UID
		want  bool
	}{
		{fieldtest.Entry("tutorial", fieldtest.Update, "", owners), "1", true},
		{fieldtest.Entry("kubectl-create", fieldtest.Update, "", owners), "2", false},
		{fieldtest.Entry("kubectl-edit", fieldtest.Update, "", labels), "1", false},
		{fieldtest.Entry("app-operator/app", fieldtest.Apply, "", owners), "1", false},
	} {
		if got := fields.CreatedByController(c.entry, fields.DecodeManaged(c.entry), c.owner); got != c.want {
			t.Errorf("made by %s for %s is %t, want %t", c.entry.Manager, c.owner, got, c.want)
		}
	}
}

// TestClaimTemplates checks that what the API server adds to a claim template counts neither in what is wanted nor in
// what lives, and that all else does.
func TestClaimTemplates(t *testing.T) {
	wanted := func() *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
			ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"},
			Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "datadir", Annotations: map[string]string{"status": "kept", "kind": "kept"}},
				Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
			}}},
		}
	}
	e := comparer()
	for name, c := range map[string]struct {
		change func(*appsv1.StatefulSet, *corev1.PersistentVolumeClaim)
		same   bool
	}{
		"nothing": {func(*appsv1.StatefulSet, *corev1.PersistentVolumeClaim) {}, true},
		"type": {func(_ *appsv1.StatefulSet, c *corev1.PersistentVolumeClaim) {
			c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		}, true},
		"status": {func(_ *appsv1.StatefulSet, c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }, true},
		"unread": {func(s *appsv1.StatefulSet, _ *corev1.PersistentVolumeClaim) { s.TypeMeta = metav1.TypeMeta{} }, true},
		"access": {func(_ *appsv1.StatefulSet, c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes[0] = corev1.ReadWriteMany
		}, false},
		"annotation": {func(_ *appsv1.StatefulSet, c *corev1.PersistentVolumeClaim) { c.Annotations["kind"] = "other" }, false},
		"one more": {func(s *appsv1.StatefulSet, c *corev1.PersistentVolumeClaim) {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, *c)
		}, false},
	} {
		live := wanted()
		c.change(live, &live.Spec.VolumeClaimTemplates[0])
		before := live.DeepCopy()
		if holds, err := e.Matches(wanted(), live); holds != c.same || err != nil {
			t.Errorf("%s: it holds: %t, %v; want %t", name, holds, err, c.same)
		}
		if diff := cmp.Diff(before, live); diff != "" {
			t.Errorf("%s: the live object was changed (-before +after):\n%s", name, diff)
		}
	}
}

// TestHoldsInWhatWasRead checks an object as the API server returns it: it does not say its kind, as one of the cache does.
func TestHoldsInWhatWasRead(t *testing.T) {
	e, live := comparer(), fieldtest.LiveDeployment()
	live.TypeMeta = metav1.TypeMeta{}
	if holds, err := e.Matches(fieldtest.Deployment(), live); !holds || err != nil {
		t.Errorf("it holds: %t, %v", holds, err)
	}
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	if holds, err := e.Matches(fieldtest.Deployment(), live); holds || err != nil {
		t.Errorf("with another image it holds: %t, %v", holds, err)
	}
	if live.Kind != "" {
		t.Error("the live object was changed")
	}
}

// kinds has Kubernetes' own types and the types that a cluster may lack.
func kinds() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, children.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // The types cannot be registered: a mistake in the program.
		}
	}
	return s
}
