package workload

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// The defaults of a workload are the defaults that counted when it was built: they are recorded with its other inputs. AppDefaults that change
// reach the workload with the next change of its pods.

// takeDefaults returns the input with the defaults that the observation and the report are about. Each workload is built with the defaults
// of its own inputs. Without AppDefaults, now and before, it reads nothing.
func (r *Reconciler) takeDefaults(ctx context.Context, in *Input) (*Input, error) {
	if !in.Kind.Serves || in.Undecodable != nil {
		return in, nil //nolint:nilerr // The decision has the error.
	}
	present, err := r.Defaults.Present(ctx, in.Owner.GetNamespace())
	if err != nil || present.Fields == nil && in.Before.Defaults.Defaults == nil {
		return in, err
	}
	live, err := GetOrNil(ctx, r.Client, client.ObjectKey{Namespace: in.Owner.GetNamespace(), Name: in.Name}, &appsv1.Deployment{})
	if err != nil {
		return nil, err
	}
	joined, err := r.joinWave(ctx, in, live, &present)
	if err != nil {
		return nil, err
	}
	return joined.withDefaults(joined.defaultsInForce(live, resource.TakeDefaults(&present, in.Spec))), nil
}

// defaultsInForce returns the defaults that the present spec has: the recorded ones of a live Deployment with the same spec, else today's.
func (in *Input) defaultsInForce(live *appsv1.Deployment, today resource.DefaultsRecord) resource.DefaultsRecord {
	if live == nil || !metav1.IsControlledBy(live, in.Owner) || !in.OwnsRecord(live) || !in.wave.IsZero() {
		return today
	}
	recorded, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return today
	}
	if mark := in.markOf(live); mark.ReplicaSet != "" { // The spec waits for the end of a hold.
		return recorded.Defaults
	}
	refresh := in.Owner.GetAnnotations()[appv1.AnnotationRefresh]
	changed, err := in.Spec.Changed(recordOf(live), resource.ScopePods)
	if err == nil && changed || in.reshapes(&recorded) || refresh != "" && refresh != recorded.Refresh {
		return today
	}
	return recorded.Defaults
}

// refuseDefaults returns why the present spec cannot have today's defaults, nil if it can, or would be invalid without any.
func (c decider) refuseDefaults(present *chosenInputs) error {
	today := c.seen.today
	if !c.seen.defaulted || len(present.errs) == 0 && present.inputs.Defaults.Equal(today.Defaults) && present.inputs.Size.Equal(today.Size) {
		return nil
	}
	wanted := present.inputs
	wanted.Defaults, wanted.Size, wanted.ServiceAccount = today.Defaults, today.Size, today.ServiceAccount
	_, errs := c.build(wanted)
	if len(errs) == 0 {
		return nil
	}
	if own := c.in.withDefaults(""); len(own.Errs) > 0 {
		return nil
	}
	return InvalidSpec(errs)
}

// maxDefaultsMessage is the maximum length in bytes of status.defaults.invalid.
const maxDefaultsMessage = 512

// defaultsOf returns the status about the defaults of a live Deployment, an empty one without AppDefaults now and before. ready is true if the
// pods are ready.
func defaultsOf(in *Input, want *decision, seen *Observed, ready bool) appv1.DefaultsStatus {
	live := seen.Deployment()
	if !in.Kind.Serves || in.Undecodable != nil {
		return in.Before.Defaults
	}
	var used resource.Inputs
	known := live != nil && metav1.IsControlledBy(live, in.Owner)
	if known {
		recorded, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
		used, known = recorded, err == nil
	}
	if !seen.defaulted && used.Defaults == "" {
		return appv1.DefaultsStatus{}
	}
	status := &appv1.DefaultsInUse{}
	status.Current = known && want.defaultsInvalid == nil && used.HasPresentDefaults(in.Spec.WithDefaults(""), &want.today)
	status.WaveInUse = waveOf(in, &used, ready)
	if want.defaultsInvalid != nil {
		_, status.Invalid = reconciler.ReasonAndMessageOf(want.defaultsInvalid)
		status.Invalid = cutText(status.Invalid, maxDefaultsMessage)
	}
	return appv1.DefaultsStatus{Defaults: status}
}
