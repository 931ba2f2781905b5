// Package flux applies, compares and waits for resources of our kinds by the library that Flux's kustomize-controller is
// made of.
package flux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"huolala.cn/app-operator/test/gitops/stage"
)

var (
	theatre *stage.Stage
	api     client.Client
	flux    *ssa.ResourceManager
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m, "flux", &theatre, connect)) }

// connect makes Flux's resource manager as kustomize-controller does.
func connect() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", theatre.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		return err
	}
	if api, err = client.New(cfg, client.Options{Mapper: mapper}); err != nil {
		return err
	}
	flux = ssa.NewResourceManager(api, polling.NewStatusPoller(api, mapper, polling.Options{}),
		ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	return nil
}

// options are those with which kustomize-controller applies (its internal/controller/kustomization_controller.go).
func options() ssa.ApplyOptions {
	opts := ssa.DefaultApplyOptions()
	opts.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{"kubectl.kubernetes.io/last-applied-configuration"},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Merge"},
	}
	return opts
}

// read reads manifests into a namespace.
func read(t *testing.T, path, namespace string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := utils.ReadObjects(stage.Open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		obj.SetNamespace(namespace)
	}
	return objects
}

// parse reads one manifest from a text.
func parse(t *testing.T, namespace, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj, err := utils.ReadObject(strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(namespace)
	return obj
}

// applies applies objects as Flux does, and checks what it says of each.
func applies(t *testing.T, want ssa.Action, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objects {
		entry, err := flux.Apply(t.Context(), obj.DeepCopy(), options())
		if err != nil {
			t.Fatal(err)
		}
		if entry.Action != want {
			t.Errorf("Flux says %s of %s, want %s", entry.Action, entry.Subject, want)
		}
	}
}

// same checks that Flux finds no difference, and has nothing to apply.
func same(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objects {
		entry, _, _, err := flux.Diff(t.Context(), obj.DeepCopy(), ssa.DefaultDiffOptions())
		if err != nil {
			t.Fatal(err)
		}
		if entry.Action != ssa.UnchangedAction {
			t.Errorf("Flux finds %s %s, want it to be as in the file", entry.Subject, entry.Action)
		}
	}
	applies(t, ssa.UnchangedAction, objects...)
}

// waits waits as a Kustomization with wait: true does.
func waits(objects []*unstructured.Unstructured, timeout time.Duration) error {
	return flux.Wait(objects, ssa.WaitOptions{Interval: 200 * time.Millisecond, Timeout: timeout, FailFast: true})
}

// live is an object as the API server has it.
func live(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(obj.GroupVersionKind())
	return found, api.Get(ctx, client.ObjectKeyFromObject(obj), found)
}

// becomes waits until kstatus calls an object so, and the words are in its message.
func becomes(t *testing.T, obj *unstructured.Unstructured, want status.Status, words string) {
	t.Helper()
	stage.Eventually(t, func() error {
		found, err := live(t.Context(), obj)
		if err != nil {
			return err
		}
		is, err := status.Compute(found)
		if err == nil && (is.Status != want || !strings.Contains(is.Message, words)) {
			err = fmt.Errorf("kstatus calls %s %s (%s), want %s with %q", obj.GetName(), is.Status, is.Message, want, words)
		}
		return err
	})
}

// waitsFor are the files of what an example waits for: a UnitedDeployment for a Deployment of others, a Task for its App.
var waitsFor = map[string]string{"app_v1_uniteddeployment": "example-deployment.yaml", "app_v1_task": "app_v1_app.yaml"}

// TestExamples applies every example twice, before and after the operator has looked at it, and waits for it.
func TestExamples(t *testing.T) {
	for _, path := range stage.Examples(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			ns := theatre.Namespace(t, "flux-"+strings.ReplaceAll(name, "_", "-"))
			objects := read(t, path, ns)
			if first := waitsFor[name]; first != "" {
				applies(t, ssa.CreatedAction, read(t, filepath.Join(filepath.Dir(path), first), ns)...)
			}
			applies(t, ssa.CreatedAction, objects...)
			same(t, objects...)
			if err := waits(objects, 2*time.Second); err == nil {
				t.Error("Flux takes it for ready although no operator has looked at it")
			}
			stop := theatre.Operate(t, ns)
			if err := waits(objects, stage.Patience); err != nil {
				t.Errorf("Flux waits: %v", err)
			}
			stop()
			t.Cleanup(func() {
				for _, obj := range objects {
					_ = api.Delete(context.Background(), obj) // A node port is free for the next.
				}
			})
			same(t, objects...)
		})
	}
}

const app = `{apiVersion: app.huolala.cn/v1, kind: App, metadata: {name: web}, spec: {image: "nginx:1", replicas: 1, progressDeadlineSeconds: 2}}`

// TestPause checks that a pause in the repository lasts, and that Flux does not take a paused change for done.
func TestPause(t *testing.T) {
	ns := theatre.Namespace(t, "flux-pause")
	theatre.Operate(t, ns)
	web := parse(t, ns, app)
	applies(t, ssa.CreatedAction, web)
	becomes(t, web, status.CurrentStatus, "")
	for path, value := range map[string]any{"paused": true, "image": "nginx:2"} {
		if err := unstructured.SetNestedField(web.Object, value, "spec", path); err != nil {
			t.Fatal(err)
		}
	}
	applies(t, ssa.ConfiguredAction, web)
	becomes(t, web, status.InProgressStatus, "")
	if err := waits([]*unstructured.Unstructured{web}, 3*time.Second); err == nil {
		t.Error("Flux takes a change for done that a pause holds back")
	}
	same(t, web)
	unstructured.RemoveNestedField(web.Object, "spec", "paused")
	applies(t, ssa.ConfiguredAction, web)
	becomes(t, web, status.CurrentStatus, "")
}

// TestStalled checks that Flux gives up at once on what will not come.
func TestStalled(t *testing.T) {
	ns := theatre.Namespace(t, "flux-stalled")
	theatre.Operate(t, ns)
	web := parse(t, ns, strings.Replace(app, "nginx:1", "imagepullbackoff.test/x:1", 1))
	applies(t, ssa.CreatedAction, web)
	becomes(t, web, status.FailedStatus, "")
	if err := waits([]*unstructured.Unstructured{web}, stage.Patience); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Errorf("Flux waits for a stalled App: %v", err)
	}
}

// TestAnnotations checks which annotations that are not in the repository outlast Flux's next apply: docs/gitops.md says so.
func TestAnnotations(t *testing.T) {
	const key = "app.huolala.cn/refresh"
	for name, c := range map[string]struct {
		file  map[string]string
		flags []string
		lasts bool
	}{
		"kubectl":                 {},
		"kubectl-apply":           {flags: []string{"--field-manager=kubectl-client-side-apply"}},
		"another-manager":         {flags: []string{"--field-manager=alice"}, lasts: true},
		"merged-by-the-file":      {file: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Merge"}, lasts: true},
		"named-like-kubectl-only": {flags: []string{"--field-manager=by-hand-kubectl"}, lasts: true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := theatre.Namespace(t, "flux-"+name)
			web := parse(t, ns, app)
			web.SetAnnotations(c.file)
			applies(t, ssa.CreatedAction, web)
			theatre.Run(t, append([]string{"annotate", "-n", ns, "app/web", key + "=now"}, c.flags...)...)
			want := ssa.ConfiguredAction
			if c.lasts {
				want = ssa.UnchangedAction
			}
			applies(t, want, web)
			found, err := live(t.Context(), web)
			if err != nil {
				t.Fatal(err)
			}
			if _, lasts := found.GetAnnotations()[key]; lasts != c.lasts {
				t.Errorf("the annotation lasts: %t, want %t", lasts, c.lasts)
			}
		})
	}
}
