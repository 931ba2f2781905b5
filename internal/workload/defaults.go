package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// The defaults of a workload are the defaults that counted when it was built: they are recorded with its other inputs. AppDefaults that change
// reach the workload with the next change of its pods.

// takeDefaults returns the input with the defaults that the observation and the report are about. Each workload is built with the defaults
// of its own inputs. Without AppDefaults, now and before, it reads nothing.
func (r *Reconciler) takeDefaults(ctx context.Context, in *Input) (*Input, error) {
	if in.Undecodable != nil && r.Waves != nil && !r.IsPlan() { // It takes no defaults, and without a grant it declines nothing.
		r.Waves.Decline(in.waveID(), "")
	}
	if !in.Kind.Serves || in.Undecodable != nil {
		return in, nil //nolint:nilerr // The decision has the error.
	}
	present, err := r.Defaults.Present(ctx, in.Owner.GetNamespace())
	if err != nil || present.Fields == nil && present.Unknown == "" && in.Before.Defaults.Defaults == nil {
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
	defaults, err := r.defaultsInForce(ctx, joined, live, resource.TakeDefaults(&present, in.Spec))
	if err != nil {
		return nil, err
	}
	return joined.withDefaults(defaults), nil
}

// defaultsInForce returns the defaults of the present spec: the recorded defaults of a live Deployment with the same spec, or of the canary that runs the
// spec, else today's defaults.
func (r *Reconciler) defaultsInForce(ctx context.Context, in *Input, live *appsv1.Deployment, today resource.DefaultsRecord) (resource.DefaultsRecord, error) {
	recorded, ours := in.ownInputs(live)
	if !ours || !in.wave.IsZero() {
		return today, nil
	}
	if mark := in.markOf(live); mark.ReplicaSet != "" || in.runs(live, &recorded) { // With a mark, the spec waits for the end of a hold.
		return recorded.Defaults, nil
	}
	if in.Spec.Release().Canary == nil {
		return today, nil
	}
	canary, err := GetOrNil(ctx, r.Client, client.ObjectKey{Namespace: live.Namespace, Name: resource.CanaryName(in.Name)}, &appsv1.Deployment{})
	if err != nil {
		return "", err
	}
	if recorded, ours = in.ownInputs(canary); ours && in.runs(canary, &recorded) && len(in.withDefaults(recorded.Defaults).Errs) == 0 {
		return recorded.Defaults, nil
	}
	return today, nil
}

// inputNow returns the input with the present defaults if the spec is valid with these, else the input with the defaults in force.
func (c decider) inputNow() *Input {
	if now := c.in.withDefaults(c.seen.today.Defaults); now.isValid() {
		return now
	}
	return c.in
}

// runs reports whether the pods of a Deployment with recorded inputs run the present spec.
func (in *Input) runs(live *appsv1.Deployment, recorded *resource.BuildInputs) bool {
	refresh := in.Owner.GetAnnotations()[appv1.AnnotationRefresh]
	changed, err := in.Spec.Changed(recordOf(live), resource.ScopePods)
	return (err != nil || !changed) && !in.reshapesPods(recorded) && (refresh == "" || refresh == recorded.Refresh)
}

// reliableDefaults returns the recorded defaults that count of a live workload object, whose record others can edit under any name. ok is
// false if the record is not the operator's. A record is the operator's if it has the present defaults, which add nothing that AppDefaults do not, or
// the digest of the status. Else it counts as far as it makes the live pod template; today's defaults count around the pods. build builds the
// workload by inputs.
func (c decider) reliableDefaults(recorded *resource.BuildInputs, build func(resource.BuildInputs) (*resource.Workload, error)) (defaults resource.DefaultsRecord, ok bool, err error) {
	if c.knowsDefaults(recorded) {
		return recorded.Defaults, true, nil
	}
	built, err := build(*recorded)
	if err != nil {
		return "", false, nil //nolint:nilerr // What cannot be built is not the operator's.
	}
	template := templateOnly(built.Template)
	ok, err = c.compare.Matches(template, templateOnly(c.seen.podTemplate()))
	if err == nil && ok {
		ok, err = c.compare.StatesTemplate(c.in.fieldManager(), template, c.seen.Object)
	}
	if err != nil || !ok {
		return "", false, err
	}
	return recorded.Defaults.WithAround(c.seen.today.Defaults), true, nil
}

// knowsDefaults reports whether recorded defaults are the present ones or those of the status, or shape no pods.
func (c decider) knowsDefaults(recorded *resource.BuildInputs) bool {
	reported := ""
	if status := c.in.Before.Defaults.Defaults; status != nil {
		reported = status.Digest
	}
	return recorded.Kept || recorded.Defaults.Digest() == reported || recorded.Defaults.Equal(c.seen.today.Defaults)
}

// digestOf returns the digest of the defaults of a live workload object. Of a record that the operator has not applied, it returns the former
// digest.
func digestOf(in *Input, want *decision, used resource.DefaultsRecord) string {
	if want.workload != nil {
		applied, err := resource.DecodeInputs(want.workload.Record[appv1.AnnotationLastAppliedInputs])
		if err == nil && applied.Defaults.Equal(used) {
			return used.Digest()
		}
	}
	if before := in.Before.Defaults.Defaults; before != nil {
		return before.Digest
	}
	return ""
}

// unknownDefaults returns an error for today's inputs where these are not known, as AppDefaults are invalid.
func (c decider) unknownDefaults() field.ErrorList {
	if c.seen.unknown == "" || !c.in.Kind.Serves && !c.in.Spec.Workload().Size.Named() {
		return nil
	}
	return UnknownDefaults(c.seen.unknown, field.NewPath("spec"))
}

// UnknownDefaults returns the error of a spec where the AppDefaults of a namespace are invalid, and no valid spec of them is known.
func UnknownDefaults(namespace string, path *field.Path) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(messageDefaultsUnknown, namespace))}
}

// refuseDefaults returns why the present spec cannot have today's defaults, nil if it can, or would be invalid without any.
func (c decider) refuseDefaults(present *builtSpec) error {
	today := c.seen.today
	if errs := c.unknownDefaults(); len(errs) > 0 {
		return InvalidSpec(errs)
	}
	if !c.seen.defaulted || len(present.errs) == 0 && present.inputs.Defaults.Equal(today.Defaults) && present.inputs.Size.Equal(today.Size) {
		return nil
	}
	wanted := present.inputs
	wanted.Defaults, wanted.Size, wanted.ServiceAccount = today.Defaults, today.Size, today.ServiceAccount
	_, errs := c.buildWorkload(wanted)
	if len(errs) == 0 {
		return nil
	}
	if own := c.in.withDefaults(""); len(own.Errs) > 0 {
		return nil
	}
	return InvalidSpec(errs)
}

// refuseDefaultsAtRest is refuseDefaults for a spec that waits for the end of a hold or a rollback, and is not built meanwhile.
func (c decider) refuseDefaultsAtRest() error {
	if c.in.Undecodable != nil || c.seen.Object == nil {
		return nil //nolint:nilerr // A spec that cannot be decoded cannot be built with any defaults.
	}
	recorded, err := inputsOf(c.seen.Object)
	if err != nil {
		return nil //nolint:nilerr // The spec has no record to keep other inputs of.
	}
	return c.refuseDefaults(&builtSpec{inputs: recorded})
}

// maxDefaultsMessage is the maximum length in bytes of status.defaults.invalid.
const maxDefaultsMessage = 512

// defaultsOf returns the status about the defaults of a live Deployment, an empty one without AppDefaults now and before.
func defaultsOf(in *Input, want *decision, seen *Observed) appv1.DefaultsStatus {
	live := seen.Deployment()
	if !in.Kind.Serves || in.Undecodable != nil {
		return in.Before.Defaults
	}
	var used resource.BuildInputs
	known := live != nil && metav1.IsControlledBy(live, in.Owner)
	if known {
		recorded, err := inputsOf(live)
		used, known = recorded, err == nil
	}
	if !seen.defaulted && used.Defaults == "" {
		return appv1.DefaultsStatus{}
	}
	status := &appv1.DefaultsInUse{Digest: digestOf(in, want, used.Defaults)}
	status.Current = known && !used.Kept && want.defaultsInvalid == nil && used.HasPresentDefaults(in.Spec.WithDefaults(""), &want.today)
	status.WaveInUse = waveOf(in, &used)
	if want.defaultsInvalid != nil {
		_, status.Invalid = reconciler.ReasonAndMessageOf(want.defaultsInvalid)
		status.Invalid = message.Truncate(status.Invalid, maxDefaultsMessage)
	}
	return appv1.DefaultsStatus{Defaults: status}
}
