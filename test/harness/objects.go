package harness

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/test/fixture"
)

// Resource is a custom resource of ours.
type Resource = fixture.Resource

// ListOf returns an empty list of objects of a type.
func (p *Plane) ListOf(t testing.TB, obj client.Object) client.ObjectList {
	t.Helper()
	gvk, err := p.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		t.Fatal(err)
	}
	typed, ok := list.(client.ObjectList)
	if !ok {
		t.Fatalf("%T is no list", list)
	}
	return typed
}

// Create makes objects.
func (p *Plane) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		tried := false
		if err := again(t, func() error {
			err := p.Client.Create(t.Context(), obj)
			if tried && apierrors.IsAlreadyExists(err) { // The answer before was late.
				return p.get(t, obj)
			}
			tried = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// again calls a function until the API server answers in time. A busy machine's may not.
func again(t testing.TB, f func() error) error {
	t.Helper()
	var err error
	Eventually(t, func() error {
		if err = f(); apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
			return err
		}
		return nil
	})
	return err
}

// Read reads an object that exists.
func (p *Plane) Read(t testing.TB, obj client.Object) {
	t.Helper()
	if err := again(t, func() error { return p.get(t, obj) }); err != nil {
		t.Fatal(err)
	}
}

// get reads an object again: the client would leave what was in obj and is not in the answer.
func (p *Plane) get(t testing.TB, obj client.Object) error {
	key, gvk := client.ObjectKeyFromObject(obj), obj.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(obj).Elem().SetZero()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return p.Client.Get(t.Context(), key, obj)
}

// Change changes an object that was read before, as a user does who states what is to be different.
func (p *Plane) Change(t testing.TB, obj client.Object, mutate func(), opts ...client.PatchOption) {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	mutate()
	if err := again(t, func() error { return p.Client.Patch(t.Context(), obj, client.MergeFrom(before), opts...) }); err != nil {
		t.Fatal(err)
	}
}

// ChangeStatus writes the status of an object that was read before, as the component does whose task that is.
func (p *Plane) ChangeStatus(t testing.TB, obj client.Object, mutate func()) {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	mutate()
	if err := again(t, func() error { return p.Client.Status().Patch(t.Context(), obj, client.MergeFrom(before)) }); err != nil {
		t.Fatal(err)
	}
}

// Delete deletes an object.
func (p *Plane) Delete(t testing.TB, obj client.Object, opts ...client.DeleteOption) {
	t.Helper()
	tried := false
	if err := again(t, func() error {
		err := p.Client.Delete(t.Context(), obj, opts...)
		if tried && apierrors.IsNotFound(err) { // The answer before was late.
			return nil
		}
		tried = true
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Until reads an object again and again until it is as wanted.
func (p *Plane) Until(t testing.TB, obj client.Object, wanted func() error) {
	t.Helper()
	Eventually(t, func() error {
		if err := p.get(t, obj); err != nil {
			return err
		}
		return wanted()
	})
}

// Gone waits until an object no longer exists.
func (p *Plane) Gone(t testing.TB, obj client.Object) {
	t.Helper()
	Eventually(t, func() error {
		err := p.get(t, obj)
		if err == nil {
			return fmt.Errorf("%T %s is still there, deleted at %s, with the finalizers %v", obj, obj.GetName(), obj.GetDeletionTimestamp(), obj.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// Absent fails the test if an object exists.
func (p *Plane) Absent(t testing.TB, obj client.Object) {
	t.Helper()
	if err := p.get(t, obj); !apierrors.IsNotFound(err) {
		t.Errorf("%T %s exists, or cannot be read: %v", obj, obj.GetName(), err)
	}
}

// Stands waits until the conditions of a resource are those given, each as "Type=Status" or "Type=Status/Reason", for
// its current spec.
func (p *Plane) Stands(t testing.TB, obj Resource, conditions ...string) {
	t.Helper()
	p.Until(t, obj, func() error { return differ(obj, conditions) })
}

func differ(obj Resource, conditions []string) error {
	status := obj.CommonStatus()
	if status.ObservedGeneration != obj.GetGeneration() {
		return fmt.Errorf("generation is %d, the status that of %d", obj.GetGeneration(), status.ObservedGeneration)
	}
	var errs []error
	for _, wanted := range conditions {
		kind, _, _ := strings.Cut(wanted, "=")
		c := ptr.Deref(meta.FindStatusCondition(status.Conditions, kind), metav1.Condition{})
		is := fmt.Sprintf("%s=%s/%s", kind, c.Status, c.Reason)
		if is != wanted && !strings.HasPrefix(is, wanted+"/") {
			errs = append(errs, fmt.Errorf("%s (%s), want %s", is, c.Message, wanted))
		}
	}
	return errors.Join(errs...)
}

// Message is that of a condition, empty if there is none.
func Message(obj Resource, kind string) string {
	return ptr.Deref(meta.FindStatusCondition(obj.CommonStatus().Conditions, kind), metav1.Condition{}).Message
}

// Says fails the test if the message of a condition lacks any of the words.
func Says(t testing.TB, obj Resource, kind string, words ...string) {
	t.Helper()
	message := Message(obj, kind)
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%s does not say %q: %s", kind, word, message)
		}
	}
}
