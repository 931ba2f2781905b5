package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
)

// The lasting field of a type keeps its value once it is not stated any longer: the number of pods, which an autoscaler takes over, and the class
// of an Ingress, without which no controller serves it.

// handsOver reports whether the lasting field of the type is ours, after a transfer that is yet to be made if there is one, and is not stated
// any longer: it keeps its value.
func (p *objectPlan) handsOver(req *Request, next *transfer) bool {
	row := children.TypeOf(p.object.Desired)
	if row.Lasting == nil {
		return false
	}
	_, stated, err := unstructured.NestedFieldNoCopy(p.fields, fieldNames(row.Lasting)...)
	_, replaced := p.object.Desired.GetAnnotations()[row.LastingAnnotation]
	if err != nil || stated || replaced {
		return false
	}
	return fields.OwnsPath(p.live, req.Manager, row.Lasting) || next != nil && next.ours.Has(row.Lasting)
}

// handOver makes another manager the owner of the live value of the lasting field, so that the value stays when ours leaves it out. If
// another writer, such as an autoscaler, has written the field already, it is not ours any more and there is nothing to do.
func (e *Engine) handOver(ctx context.Context, p *objectPlan) error {
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.live)
	if err != nil {
		return fmt.Errorf("convert %T: %w", p.live, err)
	}
	path := fieldNames(children.TypeOf(p.object.Desired).Lasting)
	value, found, err := unstructured.NestedFieldNoCopy(live, path...)
	if err != nil || !found {
		return err
	}
	wanted := map[string]any{
		"apiVersion": p.fields["apiVersion"],
		"kind":       p.fields["kind"],
		"metadata": map[string]any{
			"name":      p.live.GetName(),
			"namespace": p.live.GetNamespace(),
			"uid":       string(p.live.GetUID()),
		},
	}
	if err := unstructured.SetNestedField(wanted, value, path...); err != nil {
		return err
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	written, err := p.newTarget()
	if err != nil {
		return err
	}
	opts := []client.PatchOption{client.FieldOwner(HandoverManager)}
	if p.notCached() || p.isHidden(p.live) { // The cache would wait for a version that it never has.
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err = e.client.Patch(ctx, written, client.RawPatch(types.ApplyPatchType, body), opts...)
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return nil
	}
	// After any other conflict, nothing was handed over: to leave the field out now would reset it.
	return e.classifyError(p, err)
}

// keepLasting has an object keep the value of the lasting field: it is handed over before the object is written.
func keepLasting(after, live client.Object) {
	switch after := after.(type) {
	case *appsv1.Deployment:
		if live, ok := live.(*appsv1.Deployment); ok {
			after.Spec.Replicas = live.Spec.Replicas
		}
	case *appsv1.StatefulSet:
		if live, ok := live.(*appsv1.StatefulSet); ok {
			after.Spec.Replicas = live.Spec.Replicas
		}
	case *networkingv1.Ingress:
		if live, ok := live.(*networkingv1.Ingress); ok {
			after.Spec.IngressClassName = live.Spec.IngressClassName
		}
	}
}

// fieldNames returns the names of the fields of a path.
func fieldNames(path fieldpath.Path) []string {
	names := make([]string, 0, len(path))
	for _, element := range path {
		names = append(names, ptr.Deref(element.FieldName, ""))
	}
	return names
}
