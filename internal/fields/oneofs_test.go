package fields_test

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// noOneOfs are the types with several optional members that may be set at once, by package and name, and why.
var noOneOfs = map[string]string{
	"v1.Affinity":                               "the kinds of affinity add up",
	"v1.AzureDiskVolumeSource":                  "options of one disk",
	"v1.BackendObjectReference":                 "in an atomic list",
	"v1.CSIVolumeSource":                        "options of one volume",
	"v1.ClusterTrustBundleProjection":           "in an atomic list",
	"v1.ConfigMapVolumeSource":                  "options of one volume",
	"v1.Container":                              "parts of one container",
	"v1.CronJobSpec":                            "independent settings",
	"v1.DeploymentSpec":                         "independent settings",
	"v1.DownwardAPIVolumeFile":                  "in an atomic list",
	"v1.DownwardAPIVolumeSource":                "options of one volume",
	"v1.EmptyDirVolumeSource":                   "options of one volume",
	"v1.EphemeralContainerCommon":               "never stated",
	"v1.HTTPConfigWithoutTLS":                   "in an atomic list",
	"v1.HTTPExternalAuthFilter":                 "in an atomic list",
	"v1.HTTPHeaderMatch":                        "in an atomic list",
	"v1.HTTPPathMatch":                          "in an atomic list",
	"v1.HTTPPathModifier":                       "in an atomic list",
	"v1.HTTPQueryParamMatch":                    "in an atomic list",
	"v1.HTTPRequestMirrorFilter":                "in an atomic list",
	"v1.HTTPRequestRedirectFilter":              "in an atomic list",
	"v1.HTTPRouteFilter":                        "in an atomic list",
	"v1.HTTPRouteMatch":                         "in an atomic list",
	"v1.HTTPRouteRetry":                         "in an atomic list",
	"v1.HTTPRouteRule":                          "in an atomic list",
	"v1.HTTPRouteTimeouts":                      "in an atomic list",
	"v1.HTTPURLRewriteFilter":                   "in an atomic list",
	"v1.HostPathVolumeSource":                   "the type is what is checked",
	"v1.ISCSIVolumeSource":                      "options of one volume",
	"v1.IngressBackend":                         "in an atomic list, or never stated",
	"v1.IngressSpec":                            "independent settings",
	"v1.JobSchedulingConfiguration":             "never stated",
	"v1.JobSpec":                                "independent settings",
	"v1.KeyToPath":                              "in an atomic list",
	"v1.Lifecycle":                              "the two hooks are independent",
	"v1.NativeHistogramConfig":                  "independent settings",
	"v1.NetworkPolicyPeer":                      "in an atomic list",
	"v1.NetworkPolicyPort":                      "in an atomic list",
	"v1.ParentReference":                        "in an atomic list",
	"v1.PersistentVolumeClaimSpec":              "in an atomic list",
	"v1.PodAffinityTerm":                        "in an atomic list",
	"v1.PodCertificateProjection":               "in an atomic list",
	"v1.PodDNSConfigOption":                     "in an atomic list",
	"v1.PodMetricsEndpoint":                     "in an atomic list",
	"v1.PodMonitorSpec":                         "independent settings",
	"v1.PodSecurityContext":                     "independent settings",
	"v1.PodSpec":                                "parts of one pod",
	"v1.ProjectedVolumeSource":                  "options of one volume",
	"v1.ProxyConfig":                            "in an atomic list",
	"v1.RelabelConfig":                          "in an atomic list",
	"v1.RollingUpdateDeployment":                "both numbers are stated",
	"v1.RollingUpdateStatefulSetStrategy":       "independent numbers",
	"v1.SafeAuthorization":                      "in an atomic list",
	"v1.SafeTLSConfig":                          "in an atomic list",
	"v1.Secret":                                 "a Secret is compared by its keys",
	"v1.SecretOrConfigMap":                      "in an atomic list",
	"v1.SecretVolumeSource":                     "options of one volume",
	"v1.SecurityContext":                        "independent settings",
	"v1.ServiceAccountTokenProjection":          "in an atomic list",
	"v1.SessionPersistence":                     "in an atomic list",
	"v1.StatefulSetSpec":                        "independent settings",
	"v1.SuccessPolicyRule":                      "never stated",
	"v1.Toleration":                             "in an atomic list",
	"v1.TopologySpreadConstraint":               "independent settings",
	"v1.WindowsSecurityContextOptions":          "independent settings",
	"v1alpha3.WorkloadPodGroupDisruptionMode":   "never stated",
	"v1alpha3.WorkloadPodGroupResourceClaim":    "never stated",
	"v1alpha3.WorkloadPodGroupSchedulingPolicy": "never stated",
	"v2.HPAScalingRules":                        "independent settings",
	"v2.HorizontalPodAutoscalerBehavior":        "independent settings",
	"v2.HorizontalPodAutoscalerSpec":            "independent settings",
	"v2.MetricSpec":                             "in an atomic list",
	"v2.MetricTarget":                           "in an atomic list",
}

// candidates returns the struct types below a type that could be one-ofs: with two optional pointers or more, or with an
// optional pointer and an optional field that may be another form of it.
func candidates(t reflect.Type, found map[reflect.Type]bool, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || !inAnyPackage(t, "k8s.io/api/", "sigs.k8s.io/gateway-api/", "github.com/prometheus-operator/") {
		return
	}
	seen[t] = true
	pointers, discriminated, valued := 0, false, false
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Pointer && strings.Contains(options, "omitempty") {
			pointers++
		}
		discriminated = discriminated || name == "type"
		valued = valued || name == "value"
		if strings.HasSuffix(t.Name(), "Status") || name == "status" {
			continue
		}
		candidates(f.Type, found, seen)
	}
	if pointers >= 2 || pointers == 1 && (discriminated || valued) {
		found[t] = true
	}
}

// TestOneOfsAreKnown finds every type below our kinds that could be a one-of: each has a rule, or is in the table of those
// that are none.
func TestOneOfsAreKnown(t *testing.T) {
	found := map[reflect.Type]bool{}
	seen := map[reflect.Type]bool{}
	for i := range children.Types {
		if children.Types[i].Role.Has(children.RoleChild) {
			candidates(reflect.TypeOf(children.Types[i].Object), found, seen)
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d candidates: the search does not work", len(found))
	}
	names, rules := map[string]bool{}, fields.OneOfRules()
	for _, c := range slices.SortedFunc(maps.Keys(found), func(a, b reflect.Type) int { return cmp.Compare(a.String(), b.String()) }) {
		names[c.String()] = true
		rule := rules[c]
		_, none := noOneOfs[c.String()]
		if rule == none {
			t.Errorf("%q: \"\", // has a rule: %t, is in the table of those that need none: %t", c.String(), rule, none)
		}
	}
	for name := range noOneOfs {
		if !names[name] {
			t.Errorf("%s is in the table and no candidate", name)
		}
	}
	for declared := range rules {
		if !seen[declared] {
			t.Errorf("the rule of %s is of no use", declared)
		}
	}
}

// excludedOf returns the short names of what is excluded.
func excludedOf(t *testing.T, wanted, live client.Object) []string {
	t.Helper()
	paths, err := comparer().Exclusions(wanted.GetObjectKind().GroupVersionKind(), "ours", wanted, live)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, describe.ShortPaths(fieldpath.NewSet(path), "web")...)
	}
	slices.Sort(names)
	return names
}

// TestExclusions has what another writer adds next to what is stated, and which of it cannot stay.
func TestExclusions(t *testing.T) {
	quantity := resource.MustParse
	stated := func() *appsv1.Deployment {
		d := fieldtest.Deployment()
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		pod := &d.Spec.Template.Spec
		pod.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "none"}}
		pod.Containers = []corev1.Container{{
			Name: "web", Image: "nginx:1", Command: []string{"run"},
			Env: []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "EMPTY"}, {Name: "REF", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
			Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
			LivenessProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}},
			Lifecycle:       &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}},
			Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": quantity("2"), "memory": quantity("1Gi")}},
			SecurityContext: &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		}}
		return d
	}
	main := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	for name, c := range map[string]struct {
		change func(d *appsv1.Deployment)
		want   []string
	}{
		"nothing":          {func(*appsv1.Deployment) {}, nil},
		"strategy numbers": {func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{} }, []string{"strategy.rollingUpdate"}},
		"probe":            {func(d *appsv1.Deployment) { main(d).LivenessProbe.HTTPGet = &corev1.HTTPGetAction{} }, []string{"livenessProbe.httpGet"}},
		"hook":             {func(d *appsv1.Deployment) { main(d).Lifecycle.PreStop.Exec = &corev1.ExecAction{} }, []string{"lifecycle.preStop"}},
		"variable": {func(d *appsv1.Deployment) {
			main(d).Env[0].ValueFrom = &corev1.EnvVarSource{}
			main(d).Env[1].Value = "x"
			main(d).Env[2].ValueFrom.SecretKeyRef = &corev1.SecretKeySelector{}
		}, []string{"env[A]", "env[EMPTY]", "env[REF]"}},
		"volumes": {func(d *appsv1.Deployment) {
			for i := range d.Spec.Template.Spec.Volumes {
				d.Spec.Template.Spec.Volumes[i].ConfigMap = &corev1.ConfigMapVolumeSource{}
			}
		}, []string{"volumes[data].configMap", "volumes[none].configMap"}},
		"seccomp": {func(d *appsv1.Deployment) { main(d).SecurityContext.SeccompProfile.LocalhostProfile = ptr.To("x") }, []string{"securityContext.seccompProfile"}},
		"limits below requests": {func(d *appsv1.Deployment) {
			main(d).Resources.Limits = corev1.ResourceList{"cpu": quantity("1"), "memory": quantity("2Gi")}
		}, []string{"resources.limits"}},
		"port renumbered": {func(d *appsv1.Deployment) { main(d).Ports[0].ContainerPort = 81 }, []string{"ports[81/TCP]"}},
		"port added": {func(d *appsv1.Deployment) {
			main(d).Ports = append(main(d).Ports, corev1.ContainerPort{ContainerPort: 81})
		}, nil},
		"volume added": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}})
		}, nil},
		"another probe": {func(d *appsv1.Deployment) { main(d).StartupProbe = main(d).LivenessProbe }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			live := stated()
			c.change(live)
			if got := excludedOf(t, stated(), live); !slices.Equal(got, c.want) {
				t.Errorf("excluded are %q, want %q", got, c.want)
			}
			holds, err := comparer().Contains(appsv1.SchemeGroupVersion.WithKind("Deployment"), stated(), live)
			if err != nil {
				t.Fatal(err)
			}
			if c.want != nil && holds {
				t.Error("it is taken for what is stated")
			}
		})
	}
	service := fieldtest.Service()
	service.Spec.Type, service.Spec.SessionAffinity = corev1.ServiceTypeClusterIP, corev1.ServiceAffinityNone
	live := service.DeepCopy()
	live.Spec.LoadBalancerSourceRanges, live.Spec.SessionAffinityConfig = []string{"10.0.0.0/8"}, &corev1.SessionAffinityConfig{}
	live.Spec.ExternalName = "a.example"
	if got, want := excludedOf(t, service, live), []string{"externalName", "loadBalancerSourceRanges", "sessionAffinityConfig"}; !slices.Equal(got, want) {
		t.Errorf("excluded of a Service are %q, want %q", got, want)
	}
}

// TestExcludedRules has rules of others in a policy. They cannot stay in a direction that is restricted and has no rules of ours.
func TestExcludedRules(t *testing.T) {
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	rule := []networkingv1.NetworkPolicyIngressRule{{}}
	live := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: rule, Egress: []networkingv1.NetworkPolicyEgressRule{{}}}}
	for name, c := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want []string
	}{
		"both closed":              {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in, out}}, []string{"egress", "ingress"}},
		"ingress closed":           {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in}}, []string{"ingress"}},
		"egress closed":            {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{out}}, []string{"egress"}},
		"ingress by rules":         {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in}, Ingress: rule}, nil},
		"by rules, and one closed": {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in, out}, Ingress: rule}, []string{"egress"}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := &networkingv1.NetworkPolicy{
				TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"}, Spec: c.spec,
			}
			if got := excludedOf(t, wanted, live); !slices.Equal(got, c.want) {
				t.Errorf("excluded are %q, want %q", got, c.want)
			}
			theirs := live.DeepCopy()
			theirs.Spec.PolicyTypes = c.spec.PolicyTypes
			holds, err := comparer().Contains(wanted.GroupVersionKind(), wanted, theirs)
			if err != nil || holds != (c.want == nil) {
				t.Errorf("it is taken for what is stated: %t, %v", holds, err)
			}
		})
	}
}

// TestTwins has containers next to ours: what runs the same is a copy of ours or what a rename leaves; all else stays.
func TestTwins(t *testing.T) {
	ours := corev1.Container{Name: "web", Image: "r.example:5000/shop/web:2", Command: []string{"run"}, Args: []string{"--all"},
		Env: []corev1.EnvVar{{Name: "MODE", Value: "web"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}}
	init := corev1.Container{Name: "migrate", Image: "migrate:1"}
	stated := fieldtest.Deployment()
	stated.Spec.Template.Spec.Containers = []corev1.Container{ours}
	stated.Spec.Template.Spec.InitContainers = []corev1.Container{init}
	for name, c := range map[string]struct {
		change  func(*corev1.Container)
		renamed bool // Ours is not there.
		want    bool
	}{
		"renamed":                    {func(*corev1.Container) {}, true, true},
		"copied":                     {func(*corev1.Container) {}, false, true},
		"renamed, of an older image": {func(c *corev1.Container) { c.Image = "r.example:5000/shop/web:1" }, true, true},
		"renamed, with a digest":     {func(c *corev1.Container) { c.Image = "r.example:5000/shop/web@sha256:0" }, true, true},
		"renamed, with more":         {func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: "X"}); c.TTY = true }, true, true},
		"in the other list":          {func(c *corev1.Container) { *c = corev1.Container{Name: "migrate", Image: "other"} }, true, true},
		"sidecar":                    {func(c *corev1.Container) { *c = corev1.Container{Name: "sidecar", Image: "envoy"} }, false, false},
		"another image":              {func(c *corev1.Container) { c.Image = "r.example:5000/shop/worker:2" }, true, false},
		"another command":            {func(c *corev1.Container) { c.Command = []string{"work"} }, true, false},
		"other arguments":            {func(c *corev1.Container) { c.Args = nil }, true, false},
		"another variable":           {func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "MODE", Value: "worker"}} }, true, false},
		"no port of ours":            {func(c *corev1.Container) { c.Ports = nil }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := stated.DeepCopy()
			another := ours.DeepCopy()
			another.Name = "web2"
			c.change(another)
			pod := &live.Spec.Template.Spec
			pod.Containers = append(pod.Containers, *another)
			if c.renamed {
				pod.Containers = pod.Containers[1:]
			}
			if got := len(fields.DuplicateContainers(stated, live)) == 1; got != c.want {
				t.Errorf("it is a twin: %t, want %t", got, c.want)
			}
		})
	}
}

// inAnyPackage reports whether a type is declared in one of the packages below some paths.
func inAnyPackage(t reflect.Type, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(t.PkgPath(), path) })
}
