package argocd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"huolala.cn/app-operator/test/gitops/stage"
)

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	claims  = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// shop is a CloudManager by the name of the application.
const shop = `
apiVersion: app.huolala.cn/v1
kind: CloudManager
metadata: {name: shop}
spec:
  front: {deployment: {image: "nginx:1"}}
  identity: {deployment: {image: "busybox:1", command: [sleep, infinity]}}
  db: {statefulSet: {image: "mariadb:11", replicas: 2, storage: {size: 1Gi}}}
`

// leftover is an object without an owner that the repository no longer has.
const leftover = `
apiVersion: v1
kind: ConfigMap
metadata: {name: leftover}
`

// observed returns an error unless the operator has looked at all objects of our kinds.
func (a *application) observed(objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if obj.GroupVersionKind().Group != "app.huolala.cn" {
			continue
		}
		live, err := a.kubectl.GetResource(a.t.Context(), config, obj.GroupVersionKind(), obj.GetName(), a.namespace)
		if err != nil {
			return err
		}
		if seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); seen != live.GetGeneration() {
			return fmt.Errorf("the operator has not looked at %s %s", obj.GetKind(), obj.GetName())
		}
	}
	return nil
}

// kept returns the names of the database's Secret and claims, an error unless all of them are there and have the label by
// which the application tracks, no owner, and the annotations against pruning.
func (a *application) kept() (names []string, err error) {
	found := append(a.list(secrets), a.list(claims)...)
	if len(found) != 3 {
		return nil, fmt.Errorf("%d Secrets and claims, want 3", len(found))
	}
	for i := range found {
		obj := &found[i]
		annotations := obj.GetAnnotations()
		if obj.GetLabels()[trackingLabel] != a.name || len(obj.GetOwnerReferences()) > 0 {
			err = errors.Join(err, fmt.Errorf("%s %s is not what the test is about", obj.GetKind(), obj.GetName()))
		}
		if annotations[common.AnnotationSyncOptions] != "Prune=false,Delete=false" || annotations["argocd.argoproj.io/compare-options"] != "IgnoreExtraneous" {
			err = errors.Join(err, fmt.Errorf("%s %s has the annotations %v", obj.GetKind(), obj.GetName(), annotations))
		}
		names = append(names, obj.GetKind()+" "+obj.GetName())
	}
	return names, err
}

// TestPrune plays what Argo CD prunes where it tracks by label and the application has the CloudManager's name: the
// database's Secret and its claims have the label and no owner, and must survive.
func TestPrune(t *testing.T) {
	a := newApplication(t, "shop", theatre.Namespace(t, "argocd-prune"))
	stop := theatre.Operate(t, a.namespace)
	objects := a.parse(shop)
	a.sync(append(objects, a.parse(leftover)...))
	stage.Eventually(t, func() error { _, err := a.kept(); return err })

	names, err := a.kept()
	if err != nil {
		t.Fatal(err)
	}
	skipped := func(became map[string]common.ResourceSyncResult, kinds ...string) (err error) {
		for _, name := range names {
			kind, _, _ := strings.Cut(name, " ")
			if status := became[name].Status; slices.Contains(kinds, kind) && status != common.ResultCodePruneSkipped {
				err = errors.Join(err, fmt.Errorf("%s is %q, want it to be skipped", name, status))
			}
		}
		_, gone := a.kept()
		return errors.Join(err, gone)
	}
	// The repository has the CloudManager, and no longer something else. As long as there is a StatefulSet, Argo CD takes it
	// for the claims' owner.
	became := a.sync(objects)
	if err := skipped(became, "Secret"); err != nil || became["ConfigMap leftover"].Status != common.ResultCodePruned {
		t.Errorf("%v; the ConfigMap that the repository no longer has is %q", err, became["ConfigMap leftover"].Status)
	}

	// A release before the guards made them: the next one adds them, and leaves the database running.
	theatre.Run(t, "wait", "--for=condition=Ready", "--timeout="+stage.Patience.String(), "-n", a.namespace, "cloudmanager/"+a.name)
	pods := theatre.Run(t, "get", "-n", a.namespace, "pods", "-o", "jsonpath={.items[*].metadata.uid}")
	stop()
	for _, kind := range []string{"secrets", "persistentvolumeclaims"} {
		theatre.Run(t, "annotate", "-n", a.namespace, kind, "--all", common.AnnotationSyncOptions+"-", "argocd.argoproj.io/compare-options-")
	}
	stop = theatre.Operate(t, a.namespace)
	stage.Eventually(t, func() error { _, err := a.kept(); return err })
	if after := theatre.Run(t, "get", "-n", a.namespace, "pods", "-o", "jsonpath={.items[*].metadata.uid}"); after != pods {
		t.Errorf("pods were replaced: %s, were %s", after, pods)
	}

	// The repository no longer has the CloudManager either. Once its StatefulSet is gone, the claims have no owner.
	became = a.sync(nil)
	if err := skipped(became, "Secret"); err != nil || became["CloudManager shop"].Status != common.ResultCodePruned {
		t.Errorf("%v; the CloudManager is %q", err, became["CloudManager shop"].Status)
	}
	stage.Eventually(t, func() error { return skipped(a.sync(nil), "Secret", "PersistentVolumeClaim") })
	stop()
}
