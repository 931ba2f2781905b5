package harness

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// followedObject pairs a type of object that a test writes with the type that the manager's cache has it in.
type followedObject struct {
	written client.ObjectList
	cached  client.Object
}

func followedObjects() []followedObject {
	return []followedObject{
		{&appv1.AppList{}, &stored.App{}},
		{&appv1.ModelBoxList{}, &stored.ModelBox{}},
		{&appv1.UnitedDeploymentList{}, &stored.UnitedDeployment{}},
		{&appv1.CloudManagerList{}, &stored.CloudManager{}},
		{&appsv1.DeploymentList{}, &appsv1.Deployment{}},
	}
}

// awaitCache waits until the manager's cache has all that the API server has now: a manager whose watch is late is quiet, too. The
// objects are listed as the administrator, so that the manager's Requests do not change.
func (m *Manager) awaitCache(t testing.TB) {
	t.Helper()
	if m.forbidden || m.Requests.fault != nil {
		return // Its watches may be broken on purpose.
	}
	select {
	case <-m.ended:
		return
	default:
	}
	for _, namespace := range m.namespaces {
		for _, followed := range followedObjects() {
			m.awaitObjects(t, namespace, followed)
		}
	}
}

func (m *Manager) awaitObjects(t testing.TB, namespace string, followed followedObject) {
	t.Helper()
	if err := m.live.List(t.Context(), followed.written, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	objects, err := meta.ExtractList(followed.written)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		live, ok := object.(client.Object)
		if !ok {
			t.Fatalf("%T is no object", object)
		}
		Eventually(t, func() error {
			return m.hasSeen(t, live, followed.cached)
		})
	}
}

// hasSeen returns an error if the cache has an older version of an object than live, or not yet the object. An object that was deleted
// meanwhile counts as seen.
func (m *Manager) hasSeen(t testing.TB, live, cached client.Object) error {
	key := client.ObjectKeyFromObject(live)
	err := m.mgr.GetCache().Get(t.Context(), key, cached)
	var stopped *cache.ErrCacheNotStarted
	switch {
	case errors.As(err, &stopped):
		return nil
	case apierrors.IsNotFound(err):
		identity := &metav1.PartialObjectMetadata{}
		gvk, err := m.live.GroupVersionKindFor(live)
		if err != nil {
			return err
		}
		identity.SetGroupVersionKind(gvk)
		if err := m.live.Get(t.Context(), key, identity); err == nil {
			return fmt.Errorf("the manager's cache has no %s %s", gvk.Kind, key)
		}
		return nil
	case err != nil:
		return err
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), live.GetResourceVersion())
	if err != nil || order >= 0 {
		return err
	}
	return fmt.Errorf("the manager's cache has version %s of %T %s, which was %s", cached.GetResourceVersion(), live, key,
		live.GetResourceVersion())
}
