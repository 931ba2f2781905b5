package harness

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// followedObject pairs a type of object that a test writes with the type that the manager's cache has it in.
type followedObject struct {
	written schema.GroupVersionKind
	cached  client.Object
}

func followedObjects() []followedObject {
	return []followedObject{
		{appv1.GroupVersion.WithKind("App"), &stored.App{}},
		{appv1.GroupVersion.WithKind("ModelBox"), &stored.ModelBox{}},
		{appv1.GroupVersion.WithKind("UnitedDeployment"), &stored.UnitedDeployment{}},
		{appv1.GroupVersion.WithKind("CloudManager"), &stored.CloudManager{}},
		{appv1.GroupVersion.WithKind("Task"), &stored.Task{}},
		{appv1.GroupVersion.WithKind("AppDefaults"), &stored.AppDefaults{}},
		{corev1.SchemeGroupVersion.WithKind("Service"), &corev1.Service{}},
		{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), &appsv1.StatefulSet{}},
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{}},
	}
}

// awaitCache waits until the manager's cache has all custom resources, workload objects and Services that the API server has now: a manager whose watch is
// late is quiet, too. The objects are listed as the administrator, so that the manager's Requests do not change.
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

// awaitObjects waits for the objects of one type. Metadata alone is listed: a test may store what cannot be decoded.
func (m *Manager) awaitObjects(t testing.TB, namespace string, followed followedObject) {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(followed.written)
	if err := m.live.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return // A test has removed the definition.
		}
		t.Fatal(err)
	}
	for i := range list.Items {
		Eventually(t, func() error { return m.checkSeen(t, &list.Items[i], followed) })
	}
}

// checkSeen returns an error if the cache has an older version of an object than live, or not yet the object. An object that was deleted
// meanwhile counts as seen.
func (m *Manager) checkSeen(t testing.TB, live *metav1.PartialObjectMetadata, followed followedObject) error {
	key, kind := client.ObjectKeyFromObject(live), followed.written.Kind
	err := m.mgr.GetCache().Get(t.Context(), key, followed.cached)
	if apierrors.IsNotFound(err) {
		identity := &metav1.PartialObjectMetadata{}
		identity.SetGroupVersionKind(followed.written)
		if err := m.live.Get(t.Context(), key, identity); err == nil {
			return fmt.Errorf("the manager's cache has no %s %s", kind, key)
		}
		return nil
	}
	if err != nil {
		return err
	}
	has := followed.cached.GetResourceVersion()
	if order, err := resourceversion.CompareResourceVersion(has, live.GetResourceVersion()); err != nil || order >= 0 {
		return err
	}
	return fmt.Errorf("the manager's cache has version %s of %s %s, which is at %s", has, kind, key, live.GetResourceVersion())
}
