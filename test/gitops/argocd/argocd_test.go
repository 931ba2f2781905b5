// Package argocd applies, compares and prunes resources of our kinds by the engine that Argo CD is made of.
package argocd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"huolala.cn/app-operator/test/gitops/stage"
)

// manager is Argo CD's field manager, trackingLabel the label by which it tracks what is an application's.
const (
	manager       = "argocd-controller"
	trackingLabel = "app.kubernetes.io/instance"
)

var (
	theatre *stage.Stage
	config  *rest.Config
	api     dynamic.Interface
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m, "argocd", &theatre, connect)) }

func connect() (err error) {
	if config, err = clientcmd.BuildConfigFromFlags("", theatre.Kubeconfig); err != nil {
		return err
	}
	config.QPS = -1
	api, err = dynamic.NewForConfig(config)
	return err
}

// application is one of Argo CD's, which tracks by label what it applies to one namespace.
type application struct {
	t         *testing.T
	name      string
	namespace string
	kubectl   *kube.KubectlCmd
	cache     cache.ClusterCache
	engine    engine.GitOpsEngine
}

// newApplication starts the engine for an application.
func newApplication(t *testing.T, name, namespace string) *application {
	t.Helper()
	a := &application{t: t, name: name, namespace: namespace, kubectl: &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}}
	a.cache = cache.NewClusterCache(config, cache.SetNamespaces([]string{namespace}), cache.SetLogr(logr.Discard()),
		cache.SetPopulateResourceInfoHandler(func(un *unstructured.Unstructured, _ bool) (any, bool) {
			return un.GetLabels()[trackingLabel], true
		}))
	a.engine = engine.NewEngine(config, a.cache, engine.WithLogr(logr.Discard()))
	stop, err := a.engine.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return a
}

// owns reports whether the application takes an object for its own.
func (a *application) owns(r *cache.Resource) bool {
	return r.Info == a.name && r.Ref.Namespace == a.namespace
}

// sync makes the namespace what the repository says, prunes the rest, and returns what became of each object.
func (a *application) sync(objects []*unstructured.Unstructured, opts ...sync.SyncOpt) map[string]common.ResourceSyncResult {
	a.t.Helper()
	targets := make([]*unstructured.Unstructured, len(objects))
	for i, obj := range objects {
		targets[i] = obj.DeepCopy()
	}
	opts = append(opts, sync.WithPrune(true), sync.WithLogr(logr.Discard()), sync.WithServerSideApplyManager(manager))
	results, err := a.engine.Sync(a.t.Context(), targets, a.owns, "revision", a.namespace, opts...)
	if err != nil {
		a.t.Fatal(err)
	}
	became := map[string]common.ResourceSyncResult{}
	for _, result := range results {
		became[result.ResourceKey.Kind+" "+result.ResourceKey.Name] = result
		if result.Status == common.ResultCodeSyncFailed {
			a.t.Errorf("%s: %s", result.ResourceKey, result.Message)
		}
	}
	return became
}

// compare checks that Argo CD finds an object in sync, in the mode that opts choose.
func (a *application) compare(target *unstructured.Unstructured, opts ...diff.Option) {
	a.t.Helper()
	live, err := a.kubectl.GetResource(a.t.Context(), config, target.GroupVersionKind(), target.GetName(), a.namespace)
	if err != nil {
		a.t.Fatal(err)
	}
	result, err := diff.Diff(target.DeepCopy(), live, append(opts, diff.WithLogr(logr.Discard()))...)
	if err != nil {
		a.t.Fatal(err)
	}
	if result.Modified {
		a.t.Errorf("%s %s is OutOfSync\nlive: %s\nwanted: %s", target.GetKind(), target.GetName(), result.NormalizedLive, result.PredictedLive)
	}
}

// read reads manifests as the application's.
func (a *application) read(path string) []*unstructured.Unstructured {
	a.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.parse(string(data))
}

func (a *application) parse(manifests string) []*unstructured.Unstructured {
	a.t.Helper()
	objects, err := kube.SplitYAML([]byte(manifests))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, obj := range objects {
		obj.SetNamespace(a.namespace)
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[trackingLabel] = a.name
		obj.SetLabels(labels)
	}
	return objects
}

// list returns the objects of a kind.
func (a *application) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	a.t.Helper()
	found, err := api.Resource(resource).Namespace(a.namespace).List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return found.Items
}

// TestExamples syncs every example, and finds it in sync before and after the operator has looked at it: with client-side
// apply and the three-way comparison, and with server-side apply and each of the comparisons that Argo CD has for it.
func TestExamples(t *testing.T) {
	_, parser, err := (&kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}).LoadOpenAPISchema(config)
	if err != nil {
		t.Fatal(err)
	}
	dryRuns, done, err := (&kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}).ManageServerSideDiffDryRuns(config)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for mode, c := range map[string]struct {
		apply   []sync.SyncOpt
		compare []diff.Option
	}{
		"client": {},
		"structured": {
			[]sync.SyncOpt{sync.WithServerSideApply(true)},
			[]diff.Option{diff.WithStructuredMergeDiff(true), diff.WithGVKParser(parser), diff.WithManager(manager)},
		},
		"server": {
			[]sync.SyncOpt{sync.WithServerSideApply(true)},
			[]diff.Option{
				diff.WithServerSideDiff(true), diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(dryRuns)),
				diff.WithGVKParser(parser), diff.WithManager(manager),
			},
		},
	} {
		for _, path := range stage.Examples(t) {
			name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".yaml"), "_", "-")
			t.Run(mode+"/"+name, func(t *testing.T) {
				a := newApplication(t, "examples", theatre.Namespace(t, "argocd-"+mode+"-"+name))
				objects := a.read(path)
				a.sync(objects, c.apply...)
				t.Cleanup(func() {
					// The node port is free for the next.
					_, _ = theatre.Kubectl("delete", "-n", a.namespace, "apps.app.huolala.cn,modelboxes,services", "--all")
				})
				check := func() {
					for _, obj := range objects {
						a.compare(obj, c.compare...)
					}
				}
				check()
				stop := theatre.Operate(t, a.namespace)
				stage.Eventually(t, func() error { return a.observed(objects) })
				stop()
				check()
			})
		}
	}
}
