package integration

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// The reasons for rights that are needed without a request that asks for them.
const (
	finalizes = "OwnerReferencesPermissionEnforcement asks for it where a child names its owner"
	adopts    = "OwnerReferencesPermissionEnforcement asks for it where the object of others gets an owner"
	creates   = "an apply is a patch, and where it makes the object the API server asks for this as well"
)

// unrequested are the rights that the manager needs and sends no request by. All others must be used by a manager of this
// package's tests, or main_test.go fails. TestUnrequestedRights shows of each that nothing works without.
var unrequested = map[string]string{
	"update apps/finalizers.app.huolala.cn":              finalizes,
	"update modelboxes/finalizers.app.huolala.cn":        finalizes,
	"update uniteddeployments/finalizers.app.huolala.cn": finalizes,
	"update cloudmanagers/finalizers.app.huolala.cn":     finalizes,
	"update tasks/finalizers.app.huolala.cn":             finalizes,
	"create deployments.apps":                            creates,
	"create cronjobs.batch":                              creates,
	"delete cronjobs.batch":                              adopts,
	"create services":                                    creates,
	"create secrets":                                     creates,
	"create serviceaccounts":                             creates,
	"create networkpolicies.networking.k8s.io":           creates,
	"create horizontalpodautoscalers.autoscaling":        creates,
	"create poddisruptionbudgets.policy":                 creates,
	"create ingresses.networking.k8s.io":                 creates,
}

// unrequestedOptional are the same of kinds that this control plane lacks; TestOptionalKindsWithoutRights shows it of one of them.
var unrequestedOptional = map[string]string{
	"create httproutes.gateway.networking.k8s.io": creates,
	"create podmonitors.monitoring.coreos.com":    creates,
}

// TestUnrequestedRights runs managers that lack one right each. The API server refuses what they do without it.
func TestUnrequestedRights(t *testing.T) {
	t.Parallel()
	for right, reason := range unrequested {
		t.Run(strings.ReplaceAll(right, " ", "-"), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			all, err := harness.Rights()
			if err != nil {
				t.Fatal(err)
			}
			// A Role may give the same right in the manager's own namespace, which the test's is here.
			fewer := slices.DeleteFunc(slices.Clone(all), func(r harness.Right) bool {
				r.Namespace = ""
				return r.String() == right
			})
			if len(fewer) == len(all) {
				t.Fatal("no role has the right")
			}
			plane.Bind(t, ns, "lesser", fewer, ns)
			plane.Start(t, ns, harness.WithAccount(ns, "lesser"), harness.WithForbidden())
			verb, resource, _ := strings.Cut(right, " ")
			obj := newOwning(ns, resource)
			if reason == adopts {
				plane.Create(t, newForeignCronJob(ns, obj.GetName()))
				obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
			}
			plane.Create(t, obj)
			condition := "Ready"
			if isAround(resource) {
				condition = "Applied"
			}
			plane.Stands(t, obj, condition+"=False/Forbidden")
			switch name, _, _ := strings.Cut(resource, "."); reason {
			case finalizes:
				harness.Says(t, obj, condition, "cannot set blockOwnerDeletion")
			case adopts:
				harness.Says(t, obj, condition, "cannot set an ownerRef on a resource you can't delete")
			default:
				says := fmt.Sprintf("cannot %s resource %q", verb, name)
				if plane.Minor(t) < 32 {
					says = "is forbidden" // Older API servers state no reason where an apply request creates an object.
				}
				harness.Says(t, obj, condition, says)
			}
		})
	}
}

// newOwning returns a resource for which the API server asks for the right to a resource when its children are made.
func newOwning(namespace, resource string) harness.Resource {
	meta, spec := metav1.ObjectMeta{Namespace: namespace, Name: "web"}, newApp(namespace, "web").Spec.WorkloadSpec
	switch kind, _, _ := strings.Cut(resource, "/"); kind {
	case "modelboxes":
		return &appv1.ModelBox{ObjectMeta: meta, Spec: appv1.ModelBoxSpec{WorkloadSpec: spec}}
	case "uniteddeployments":
		ud := &appv1.UnitedDeployment{ObjectMeta: meta}
		spec.Replicas = nil
		ud.Spec.DeploymentName, ud.Spec.Replicas, ud.Spec.Template = "held", new(int32), &spec
		return ud
	case "tasks", "cronjobs.batch":
		return fixture.NewTask(namespace, "web")
	case "cloudmanagers", "secrets":
		return newCloudManager(namespace)
	}
	for name, b := range blocks {
		if b.resource == resource {
			return newServed(namespace, "web", name)
		}
	}
	return newApp(namespace, "web")
}

// isAround reports whether a resource stands around the pods, so that trouble with it holds up nothing else.
func isAround(resource string) bool {
	for _, b := range blocks {
		if b.resource == resource {
			return true
		}
	}
	return false
}

// TestServerWithoutStreams runs a manager against an API server that does not know of watches which begin with all that
// there is, as none before Kubernetes 1.34 does by default. It lists what it watches.
func TestServerWithoutStreams(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithFault(withoutStreams))
	createInPlace(t, newApp(ns, "web"))
	follower := newFollower(ns, "follower")
	plane.Create(t, newConfigMap(ns, "settings", map[string]string{"level": "1"}), follower)
	plane.Stands(t, follower, "ConfigFollowed=True/Followed")
	lists := map[string]bool{}
	for _, q := range m.Requests.All() {
		if q.Verb == "list" && q.Code == http.StatusOK {
			lists[q.Resource] = true
		}
		if q.Verb == "watch" && q.Code == http.StatusOK && !lists[q.Resource] {
			t.Errorf("a watch without a list before it: %s", q)
		}
	}
	if len(lists) != 20 {
		t.Errorf("it has listed %v", slices.Sorted(maps.Keys(lists)))
	}
}

// TestAdoptWhatOutlived has a ModelBox and a CloudManager take over what those before them by their names have left, as the
// garbage collector of this control plane never comes.
func TestAdoptWhatOutlived(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	playControllers(t, ns)
	for obj, workload := range map[harness.Resource]client.Object{
		newOwning(ns, "modelboxes"): namedDeployment(ns, "web"), newCloudManager(ns): namedStatefulSet(ns, "db"),
	} {
		again, ok := obj.DeepCopyObject().(harness.Resource)
		if !ok {
			t.Fatalf("%T", obj)
		}
		plane.Create(t, obj)
		plane.Stands(t, obj, "Ready=True")
		plane.Read(t, workload)
		uid := workload.GetUID()

		plane.Delete(t, obj)
		again.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
		plane.Create(t, again)
		plane.Stands(t, again, "Ready=True")
		if plane.Read(t, workload); workload.GetUID() != uid || !metav1.IsControlledBy(workload, again) {
			t.Errorf("%T %s was not taken over: %v", workload, workload.GetName(), workload.GetOwnerReferences())
		}
	}
}

// TestRightsAreExplained compares the table of docs/security.md with the roles: each right has its reason there, and nothing
// else is in it.
func TestRightsAreExplained(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(harness.Root(), "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "| role | resource | verbs | why |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var explained []string
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 4 || strings.TrimSpace(cells[3]) == "" {
			t.Errorf("a row without a reason: %s", row)
			continue
		}
		for resource := range strings.SplitSeq(cells[1], ", ") {
			for verb := range strings.SplitSeq(cells[2], ", ") {
				right := cells[0] + ": " + verb + " " + strings.Trim(resource, "`")
				if strings.HasPrefix(cells[0], "Role ") {
					right += " in " + harness.SystemNamespace
				}
				explained = append(explained, right)
			}
		}
	}
	rights, err := harness.Rights()
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, right := range rights {
		given = append(given, right.Role+": "+right.String())
	}
	slices.Sort(explained)
	slices.Sort(given)
	if diff := cmp.Diff(given, explained); diff != "" {
		t.Errorf("rights (-config/rbac +docs/security.md):\n%s", diff)
	}
}

// TestMetricsReviews asks for the metrics. The manager has the API server say who asks, and whether they may.
func TestMetricsReviews(t *testing.T) {
	t.Parallel()
	ns, address := plane.Namespace(t), harness.FreeAddress(t)
	plane.Start(t, ns, harness.WithMetrics(address))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stranger"}}
	plane.Create(t, account)
	token := &authenticationv1.TokenRequest{}
	if err := plane.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	// The certificate is of the manager's own making.
	scraper := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	harness.Eventually(t, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token.Status.Token)
		resp, err := scraper.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusForbidden {
			return fmt.Errorf("the metrics answer %d to who has no right, want %d", resp.StatusCode, http.StatusForbidden)
		}
		return nil
	})
}
