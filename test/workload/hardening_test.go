package workload

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/test/harness"
)

// podSecurity is the label that says to which standard a namespace holds its pods.
const podSecurity = "pod-security.kubernetes.io/"

// manifests are objects as YAML, by kind and name.
type manifests map[string]string

// rendered is config/default with components.
func rendered(t *testing.T, components ...string) manifests {
	t.Helper()
	readConfig(t)
	found := manifests{}
	for _, document := range strings.Split(render(t, newKubectl(t, ""), components), "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		found[object.Kind+"/"+object.Name] = document
	}
	return found
}

// decode reads one of them.
func decode[T any](t *testing.T, m manifests, name string) *T {
	t.Helper()
	obj := new(T)
	if m[name] == "" {
		t.Fatalf("there is no %s, but %v", name, slices.Sorted(maps.Keys(m)))
	}
	if err := yaml.UnmarshalStrict([]byte(m[name]), obj); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return obj
}

const managerName, viewerName = "app-operator-controller-manager", "app-operator-viewer"

// managerPods are the manager's pods as they are delivered: by config/default, and by the bundle.
func managerPods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(), "bundle/manifests/app-operator.clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var csv struct {
		Spec struct {
			Install struct {
				Spec struct {
					Deployments []struct {
						Spec appsv1.DeploymentSpec `json:"spec"`
					} `json:"deployments"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &csv); err != nil {
		t.Fatal(err)
	}
	return map[string]corev1.PodTemplateSpec{
		"config/default": decode[appsv1.Deployment](t, rendered(t), "Deployment/"+managerName).Spec.Template,
		"the bundle":     csv.Spec.Install.Spec.Deployments[0].Spec.Template,
	}
}

// warnings are those that the API server has sent.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// TestPodSecurity has the API server judge the pods of the manager and of the viewer in a namespace that holds its pods to the strictest
// standard, and warns by it. It takes each pod without a word, and refuses it with any of its restrictions gone.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	namespace := read(t, named[corev1.Namespace]("", ns))
	plane.Change(t, namespace, func() {
		for _, mode := range []string{"enforce", "warn", "audit"} {
			namespace.Labels[podSecurity+mode] = "restricted"
		}
	})
	heard := &warnings{}
	cfg := rest.CopyConfig(plane.Config)
	cfg.WarningHandler = heard
	user, err := client.New(cfg, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{managerName, viewerName} {
		plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}

	pods := managerPods(t)
	pods["the viewer"] = decode[appsv1.Deployment](t, rendered(t, "viewer"), "Deployment/"+viewerName).Spec.Template
	for from, template := range pods {
		submit := func(spec corev1.PodSpec) error {
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: spec}
			pod.Namespace, pod.Name = ns, "manager"
			return user.Create(t.Context(), pod, client.DryRunAll)
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "manager"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		}}
		if err := user.Create(t.Context(), d, client.DryRunAll); err != nil {
			t.Errorf("the Deployment of %s: %v", from, err)
		}
		if err := submit(template.Spec); err != nil {
			t.Errorf("the pod of %s: %v", from, err)
		}
		if len(heard.said) > 0 {
			t.Errorf("%s: the API server warns: %v", from, heard.said)
		}
		for what, loosen := range map[string]func(*corev1.PodSpec, *corev1.SecurityContext){
			"runAsNonRoot":             func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.SecurityContext.RunAsNonRoot = nil },
			"seccompProfile":           func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.SecurityContext.SeccompProfile = nil },
			"allowPrivilegeEscalation": func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil },
			"capabilities":             func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities = nil },
		} {
			loose := template.Spec.DeepCopy()
			loosen(loose, loose.Containers[0].SecurityContext)
			if err := submit(*loose); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), what) {
				t.Errorf("the pod of %s without %s: %v", from, what, err)
			}
		}
	}
}

// selectsAlone returns an error unless a selector selects pods with these labels, and not all pods.
func selectsAlone(selector *metav1.LabelSelector, pods labels.Set) error {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err == nil && (s.Empty() || !s.Matches(pods)) {
		err = fmt.Errorf("the selector is %q", s)
	}
	return err
}

// TestManagerHardening checks what no standard asks for.
func TestManagerHardening(t *testing.T) {
	t.Parallel()
	all := rendered(t, "network-policy")
	if level := decode[corev1.Namespace](t, all, "Namespace/"+harness.SystemNamespace).Labels[podSecurity+"enforce"]; level != "restricted" {
		t.Errorf("the manager's namespace is held to %q", level)
	}
	if gives := decode[corev1.ServiceAccount](t, all, "ServiceAccount/"+managerName).AutomountServiceAccountToken; ptr.Deref(gives, true) {
		t.Error("every pod of the ServiceAccount is given its token")
	}
	d := decode[appsv1.Deployment](t, all, "Deployment/"+managerName)
	if *d.Spec.Replicas < 2 {
		t.Errorf("%d replicas: nobody stands by", *d.Spec.Replicas)
	}
	selects := func(what string, selector *metav1.LabelSelector) {
		t.Helper()
		if err := selectsAlone(selector, d.Spec.Template.Labels); err != nil {
			t.Errorf("%s does not select the manager's pods: %v", what, err)
		}
	}
	budget := decode[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+managerName)
	selects("the PodDisruptionBudget", budget.Spec.Selector)
	if most := budget.Spec.MaxUnavailable; most == nil || most.IntValue() != 1 {
		t.Errorf("of the two replicas %v may go at once", most)
	}
	policy := decode[networkingv1.NetworkPolicy](t, all, "NetworkPolicy/"+managerName)
	selects("the NetworkPolicy", &policy.Spec.PodSelector)
	for _, rule := range policy.Spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Error("the NetworkPolicy opens every port")
		}
	}
	for from, template := range managerPods(t) {
		hardened(t, from, &template.Spec)
		if spread := template.Spec.TopologySpreadConstraints; len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname {
			t.Errorf("%s: the replicas are not spread over the nodes: %v", from, spread)
		} else {
			selects("the spread of "+from, spread[0].LabelSelector)
		}
	}
}

// hardened checks the manager's pod.
func hardened(t *testing.T, from string, pod *corev1.PodSpec) {
	t.Helper()
	c := &pod.Containers[0]
	for what, is := range map[string]bool{
		"its token is asked for":         ptr.Deref(pod.AutomountServiceAccountToken, false),
		"no variables for Services":      !ptr.Deref(pod.EnableServiceLinks, true),
		"one container":                  len(pod.Containers)+len(pod.InitContainers) == 1,
		"nothing of the node":            !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"a read-only root file system":   ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false),
		"requests":                       !c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero(),
		"a memory limit":                 !c.Resources.Limits.Memory().IsZero(),
		"probes":                         c.LivenessProbe != nil && c.ReadinessProbe != nil,
		"a leader's election":            slices.Contains(c.Args, "--leader-elect"),
		"no profiles, which are for all": !strings.Contains(strings.Join(c.Args, " "), "pprof"),
	} {
		if !is {
			t.Errorf("the manager's pod of %s lacks: %s", from, what)
		}
	}
}

// TestViewerHardening checks what no standard asks for, in the component viewer: nothing but the proxy listens to the network, and nothing but the
// viewer has a token.
func TestViewerHardening(t *testing.T) {
	t.Parallel()
	all := rendered(t, "viewer")
	if gives := decode[corev1.ServiceAccount](t, all, "ServiceAccount/"+viewerName).AutomountServiceAccountToken; ptr.Deref(gives, true) {
		t.Error("every pod of the ServiceAccount is given its token")
	}
	template := decode[appsv1.Deployment](t, all, "Deployment/"+viewerName).Spec.Template
	pod, pods := &template.Spec, labels.Set(template.Labels)
	policy := decode[networkingv1.NetworkPolicy](t, all, "NetworkPolicy/"+viewerName)
	service := decode[corev1.Service](t, all, "Service/"+viewerName)
	manager := decode[appsv1.Deployment](t, all, "Deployment/"+managerName).Spec.Selector.MatchLabels
	for what, selector := range map[string]*metav1.LabelSelector{"the NetworkPolicy": &policy.Spec.PodSelector, "the Service": {MatchLabels: service.Spec.Selector}} {
		if err := selectsAlone(selector, pods); err != nil {
			t.Errorf("%s does not select the viewer's pods: %v", what, err)
		}
	}
	if labels.SelectorFromSet(manager).Matches(pods) {
		t.Error("the manager's Deployment selects the viewer's pods")
	}
	rules := policy.Spec.Ingress
	if len(rules) != 1 || len(rules[0].From) != 1 || len(rules[0].Ports) != 1 || rules[0].Ports[0].Port.String() != "proxy" {
		t.Errorf("the NetworkPolicy opens %v", rules)
	}
	viewer, proxy := &pod.Containers[0], &pod.Containers[1]
	port := ""
	for _, arg := range viewer.Args {
		port, _ = strings.CutPrefix(arg, "--port=")
		if port != arg {
			break
		}
	}
	for what, is := range map[string]bool{
		"no token by default":              !ptr.Deref(pod.AutomountServiceAccountToken, true),
		"no variables for Services":        !ptr.Deref(pod.EnableServiceLinks, true),
		"two containers":                   len(pod.Containers) == 2 && len(pod.InitContainers) == 0,
		"nothing of the node":              !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"no port of the viewer":            len(viewer.Ports) == 0 && viewer.Name == "viewer",
		"a token of the viewer alone":      len(viewer.VolumeMounts) == 1 && len(proxy.VolumeMounts) == 0,
		"probes of the proxy":              proxy.LivenessProbe != nil && proxy.ReadinessProbe != nil,
		"the viewer's command":             slices.Equal(viewer.Command, []string{"/kubectl-happ"}) && slices.Contains(viewer.Args, "--viewer"),
		"an upstream that is the viewer's": slices.Contains(proxy.Args, "--upstream=http://127.0.0.1:"+port+"/"),
	} {
		if !is {
			t.Errorf("the viewer's pod lacks: %s", what)
		}
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if !ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false) || c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.Cpu().IsZero() ||
			c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Errorf("the container %s has no limits, or can write files", c.Name)
		}
	}
}

// TestNamespacedComponent checks that the component binds the manager to a namespace: of the cluster it may only ask who
// scrapes its metrics.
func TestNamespacedComponent(t *testing.T) {
	t.Parallel()
	manager := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: harness.SystemNamespace, Name: managerName}
	for _, components := range [][]string{{}, {"namespaced"}} {
		all := rendered(t, components...)
		var wide []string
		for name := range all {
			if kind, _, _ := strings.Cut(name, "/"); kind == "ClusterRoleBinding" {
				if b := decode[rbacv1.ClusterRoleBinding](t, all, name); slices.Contains(b.Subjects, manager) {
					wide = append(wide, b.RoleRef.Name)
				}
			}
		}
		slices.Sort(wide)
		want := []string{"app-operator-certificate-role", "app-operator-manager-role", "app-operator-metrics-auth-role"}
		if len(components) > 0 {
			want = want[2:]
			bound := decode[rbacv1.RoleBinding](t, all, "RoleBinding/app-operator-namespaced-manager-rolebinding")
			if bound.RoleRef.Name != "app-operator-manager-role" || !slices.Equal(bound.Subjects, []rbacv1.Subject{manager}) {
				t.Errorf("the RoleBinding is of %v to %v", bound.RoleRef, bound.Subjects)
			}
		}
		if !slices.Equal(wide, want) {
			t.Errorf("with the components %v the manager has in the whole cluster %v, want %v", components, wide, want)
		}
	}
}
