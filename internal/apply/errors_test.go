package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// invalid is what the API server answers to an object with these faults.
func invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", errs)
}

// outcome is an error as a status tells it: its class, and what it says.
type outcome struct{ class, reason, message string }

func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	var stalled *reconciler.StalledError
	var waiting *reconciler.WaitingError
	var failed *reconciler.FailedError
	switch {
	case errors.Is(err, reconciler.ErrStale):
		return outcome{class: "stale"}
	case errors.As(err, &stalled):
		return outcome{"stalled", stalled.Reason, stalled.Message}
	case errors.As(err, &waiting):
		return outcome{"waiting", waiting.Reason, waiting.Message}
	case errors.As(err, &failed):
		if failed.Err == nil {
			t.Error("the cause is lost: nothing to log")
		}
		return outcome{"failed", failed.Reason, failed.Message}
	}
	t.Errorf("%v has no class", err)
	return outcome{}
}

// setOf returns a StatefulSet with a label that its selector has, and a claim template.
func setOf(label, claim string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{}
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}}
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: claim}}}
	return s
}

func planned(action Action) *objectPlan {
	p := &objectPlan{subject: subject{object: &Object{Desired: fieldtest.Deployment()}}, comparison: comparison{action: action}}
	p.gvk.Kind = "Deployment"
	return p
}

// TestClassify has every class of error that the API server answers, and some that it does not.
func TestClassify(t *testing.T) {
	spec := field.NewPath("spec")
	const remedy = ". The object is unchanged. Restore the previous value, or delete the Deployment web to recreate it"
	terminating := apierrors.NewForbidden(deployments, "web", errors.New("namespace x is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tooLarge := apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	quota := apierrors.NewForbidden(deployments, "web", errors.New("exceeded quota: small"))
	webhook := apierrors.NewBadRequest(`admission webhook "policy.example" denied the request: no`)
	conflicting := apierrors.NewConflict(deployments, "web", errors.New(`admission webhook "policy.example" denied the request: no`))
	policy := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil)
	policy.ErrStatus.Message = "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small' denied request: no"
	for name, c := range map[string]struct {
		action Action
		err    error
		want   outcome
	}{
		"conflict":      {Configured, apierrors.NewConflict(deployments, "web", errors.New("uid")), outcome{class: "stale"}},
		"gone":          {Configured, apierrors.NewNotFound(deployments, "web"), outcome{class: "stale"}},
		"there already": {Created, apierrors.NewAlreadyExists(deployments, "web"), outcome{class: "stale"}},
		"invalid": {
			Created, invalid(field.Required(spec.Child("template"), "say what to run")),
			outcome{"stalled", appv1.ReasonInvalid, "Deployment web is rejected by the API server: spec.template: Required value: say what to run"},
		},
		"invalid in three fields and more": {
			Created, invalid(field.Required(spec.Child("a"), ""), field.Required(spec.Child("b"), ""), field.Required(spec.Child("c"), ""), field.Required(spec.Child("d"), "")),
			outcome{"stalled", appv1.ReasonInvalid, "Deployment web is rejected by the API server: spec.a: Required value; spec.b: Required value; spec.c: Required value"},
		},
		"immutable": {
			Configured, invalid(field.Invalid(spec.Child("selector"), "{…}", "field is immutable")),
			outcome{"stalled", appv1.ReasonImmutableField, `Deployment web is rejected by the API server: spec.selector: Invalid value: field is immutable` + remedy},
		},
		"immutable once set": {
			Configured, invalid(field.Invalid(spec.Child("clusterIPs").Index(0), "10.0.0.1", "may not change once set")),
			outcome{"stalled", appv1.ReasonImmutableField, `Deployment web is rejected by the API server: spec.clusterIPs[0]: Invalid value: "10.0.0.1": may not change once set` + remedy},
		},
		"immutable in a StatefulSet": {
			Configured, invalid(field.Forbidden(spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals' are forbidden")),
			outcome{"stalled", appv1.ReasonImmutableField, "Deployment web is rejected by the API server: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals' are forbidden" + remedy},
		},
		"bad request":                    {Created, apierrors.NewBadRequest("strict decoding error"), outcome{"stalled", appv1.ReasonInvalid, "Deployment web: strict decoding error"}},
		"too large":                      {Created, tooLarge, outcome{"stalled", appv1.ReasonInvalid, "Deployment web: " + tooLarge.Error()}},
		"namespace":                      {Created, terminating, outcome{"waiting", appv1.ReasonTerminating, "the namespace is being deleted; the operator does not create Deployment web"}},
		"forbidden":                      {Created, quota, outcome{"failed", appv1.ReasonForbidden, "Deployment web: " + quota.Error()}},
		"denied by a webhook":            {Created, webhook, outcome{"failed", appv1.ReasonForbidden, "Deployment web: " + webhook.Error()}},
		"denied by a webhook in its way": {Created, conflicting, outcome{"failed", appv1.ReasonForbidden, "Deployment web: " + conflicting.Error()}},
		"denied by a policy":             {Created, policy, outcome{"failed", appv1.ReasonForbidden, "Deployment web: " + policy.Error()}},
		"server error":                   {Created, apierrors.NewInternalError(errors.New("etcd is down")), outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: Internal error occurred: etcd is down; retrying"}},
		"overloaded":                     {Created, apierrors.NewTooManyRequests("slow down", 1), outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: slow down; retrying"}},
		"timeout":                        {Created, apierrors.NewTimeoutError("too slow", 1), outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: Timeout: too slow; retrying"}},
		"unauthorized":                   {Created, apierrors.NewUnauthorized("who are you"), outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: who are you; retrying"}},
		"no answer":                      {Created, errors.New("dial tcp 10.0.0.1:6443: connect: connection refused"), outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: the API server cannot be reached; retrying"}},
		"no time left":                   {Created, context.DeadlineExceeded, outcome{"failed", appv1.ReasonApplyFailed, "Deployment web: the API server cannot be reached; retrying"}},
		"wrapped":                        {Created, fmt.Errorf("apply: %w", apierrors.NewBadRequest("no")), outcome{"stalled", appv1.ReasonInvalid, "Deployment web: apply: no"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcomeOf(t, (&Engine{}).classifyError(planned(c.action), c.err))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClassifyByKind has the answers that mean something else for one kind than for others, in the API server's words.
func TestClassifyByKind(t *testing.T) {
	const storageRemedy = ". Restore the previous size, or allow volume expansion in the StorageClass. Retrying every 1m"
	spec := field.NewPath("spec")
	size := spec.Child("resources", "requests", "storage")
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	resize := apierrors.NewForbidden(claims, "web", errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	quota := apierrors.NewForbidden(claims, "web", errors.New("exceeded quota: small"))
	taken := field.Invalid(spec.Child("ports").Index(1).Child("nodePort"), 30010, "provided port is already allocated")
	fixed := invalid(field.Forbidden(spec, "updates to statefulset spec for fields other than 'replicas' are forbidden"))
	const fixedWords = "web is rejected by the API server: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden. The object is unchanged. Restore the previous value"
	class := field.Invalid(spec.Child("loadBalancerClass"), "other", "may not change once set")
	for name, c := range map[string]struct {
		object Object
		kind   string
		err    error
		want   outcome
		retry  time.Duration
	}{
		"port taken": {
			Object{}, "Service", invalid(taken),
			outcome{"stalled", appv1.ReasonNodePortTaken, "Service web is rejected by the API server: spec.ports[1].nodePort: Invalid value: 30010: provided port is already allocated. Another Service in the cluster uses this node port. Set another nodePort, remove it to have one assigned, or free the port. Retrying every 1m"},
			time.Minute,
		},
		"address taken": {
			Object{}, "Service", invalid(field.Invalid(spec.Child("clusterIPs"), "10.0.0.1", "failed to allocate IP 10.0.0.1: provided IP is already allocated")),
			outcome{"stalled", appv1.ReasonInvalid, `Service web is rejected by the API server: spec.clusterIPs: Invalid value: "10.0.0.1": failed to allocate IP 10.0.0.1: provided IP is already allocated`},
			0,
		},
		"class of a load balancer": {
			Object{}, "Service", invalid(class),
			outcome{"stalled", appv1.ReasonImmutableField, `Service web is rejected by the API server: spec.loadBalancerClass: Invalid value: "other": may not change once set. The object is unchanged. Restore the previous value, or delete the Service web to recreate it`},
			0,
		},
		"claim that cannot grow": {
			Object{Desired: &corev1.PersistentVolumeClaim{}}, "PersistentVolumeClaim", resize,
			outcome{"stalled", appv1.ReasonVolumeResizeFailed, "PersistentVolumeClaim web is unchanged: " + resize.Error() + storageRemedy}, time.Minute,
		},
		"claim that would shrink": {
			Object{Desired: &corev1.PersistentVolumeClaim{}}, "PersistentVolumeClaim", invalid(field.Forbidden(size, "field can not be less than previous value")),
			outcome{"stalled", appv1.ReasonVolumeResizeFailed, "PersistentVolumeClaim web is unchanged: spec.resources.requests.storage: Forbidden: field can not be less than previous value" + storageRemedy}, time.Minute,
		},
		"claim with a bad label": {
			Object{Desired: &corev1.PersistentVolumeClaim{}}, "PersistentVolumeClaim", invalid(field.Invalid(field.NewPath("metadata", "labels"), "…", "no")),
			outcome{"stalled", appv1.ReasonInvalid, `PersistentVolumeClaim web is rejected by the API server: metadata.labels: Invalid value: "…": no`}, 0,
		},
		"claim beyond a quota, which may be raised": {
			Object{Desired: &corev1.PersistentVolumeClaim{}}, "PersistentVolumeClaim", quota,
			outcome{"failed", appv1.ReasonForbidden, "PersistentVolumeClaim web: " + quota.Error()}, 0,
		},
		"the same words about another kind": {
			Object{}, "Service", resize, outcome{"failed", appv1.ReasonForbidden, "Service web: " + message.Quote(resize.Error())}, 0,
		},
		"immutable in a StatefulSet, whose claims may go with it": {
			Object{Desired: setOf("web", "data"), Live: setOf("web", "data")}, "StatefulSet", fixed,
			outcome{"stalled", appv1.ReasonImmutableField, "StatefulSet " + fixedWords + ", or delete the StatefulSet web with --cascade=orphan to recreate it and keep its pods"}, 0,
		},
		"immutable in a StatefulSet that would not find its pods again": {
			Object{Desired: setOf("web", "data"), Live: setOf("mysql", "data")}, "StatefulSet", fixed,
			outcome{"stalled", appv1.ReasonImmutableField, "StatefulSet " + fixedWords}, 0,
		},
		"immutable in a StatefulSet that would not find its volumes again": {
			Object{Desired: setOf("web", "data"), Live: setOf("web", "disk")}, "StatefulSet", fixed,
			outcome{"stalled", appv1.ReasonImmutableField, "StatefulSet " + fixedWords}, 0,
		},
		"immutable in what is retained": {
			Object{Retained: true, Desired: &corev1.Secret{}}, "Secret", invalid(field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")),
			outcome{"stalled", appv1.ReasonImmutableField, "Secret web is rejected by the API server: data: Forbidden: field is immutable when `immutable` is set. The object is unchanged. Restore the previous value"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &objectPlan{subject: subject{object: &c.object}, comparison: comparison{action: Configured}, live: c.object.Live}
			if c.object.Desired == nil {
				c.object.Desired = fieldtest.Deployment()
			}
			c.object.Desired.SetName("web")
			p.gvk.Kind = c.kind
			err := (&Engine{}).classifyError(p, c.err)
			if diff := cmp.Diff(c.want, outcomeOf(t, err), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			var stalled *reconciler.StalledError
			if errors.As(err, &stalled) && stalled.RetryAfter != c.retry {
				t.Errorf("it is tried again after %s, want %s", stalled.RetryAfter, c.retry)
			}
		})
	}
}

// TestMessagesAreBounded checks that whatever the API server says, a condition takes it, and it is one line.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("界 is\nlong\t", 100_000)
	at := field.NewPath("spec", "a")
	for name, err := range map[string]error{
		"invalid":     invalid(field.Invalid(at, long, long), field.Invalid(at, long, long), field.Invalid(at, long, long), field.Invalid(at, long, long)),
		"immutable":   invalid(field.Invalid(at, "x", "field is immutable "+long)),
		"bad request": apierrors.NewBadRequest(long),
		"forbidden":   apierrors.NewForbidden(deployments, "web", errors.New(long)),
		"internal":    apierrors.NewInternalError(errors.New(long)),
		"unknown":     apierrors.NewGenericServerResponse(http.StatusTeapot, "patch", deployments, "web", long, 0, true),
	} {
		got := outcomeOf(t, (&Engine{}).classifyError(planned(Configured), err))
		if len(got.message) > 1500 || !utf8.ValidString(got.message) || strings.ContainsAny(got.message, "\n\t\uFFFD") {
			t.Errorf("%s: the message has %d bytes, or is no line: %.1500q", name, len(got.message), got.message)
		}
	}
}

func TestResourceExists(t *testing.T) {
	p := planned(Created)
	live := fieldtest.LiveDeployment()
	live.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Rollout", Name: "other", UID: "other", Controller: ptr.To(true)}}
	want := outcome{"stalled", appv1.ReasonResourceExists, "Deployment web exists and is owned by Rollout other; the operator does not modify it. Rename or delete one of them"}
	if diff := cmp.Diff(want, outcomeOf(t, p.checkOwnership(request(nil), live)), cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("controlled by another (-want +got):\n%s", diff)
	}
}

func TestFieldConflict(t *testing.T) {
	const replicas = `{"f:spec":{"f:replicas":{}}}`
	path := fieldpath.MakePathOrDie
	const end = " of Deployment web: the operator repaired it 5 times in a minute and now repairs it less often. Stop the other writer, or, if the spec has the field, set its value there"
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		diff    *fieldpath.Set
		want    string
	}{
		"nobody is known": {
			nil, fieldpath.NewSet(children.ReplicasPath), "Another writer keeps changing .spec.replicas" + end,
		},
		"one writer, in two entries": {
			[]metav1.ManagedFieldsEntry{fieldtest.Entry("kubectl-edit", updateOp, "", replicas), fieldtest.Entry("kubectl-edit", apply, "", replicas), fieldtest.Entry("idle", updateOp, "", "{}")},
			fieldpath.NewSet(children.ReplicasPath), `Field manager "kubectl-edit" keeps changing .spec.replicas` + end,
		},
		"two writers, in order, whatever theirs is": {
			[]metav1.ManagedFieldsEntry{fieldtest.Entry("b", updateOp, "", replicas), fieldtest.Entry("a", updateOp, "", replicas), fieldtest.Entry("x", updateOp, "", "{")},
			fieldpath.NewSet(children.ReplicasPath), `Field manager "a, b" keeps changing .spec.replicas` + end,
		},
		"many fields": {
			nil, fieldpath.NewSet(path("spec", "d"), path("spec", "b"), path("spec", "c"), path("spec", "a")),
			"Another writer keeps changing .spec.a, .spec.b, .spec.c, …" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := fieldtest.LiveDeployment()
			live.ManagedFields = c.entries
			err := fieldConflict(planned(Configured), live, c.diff, 7*time.Second)
			want := outcome{"stalled", appv1.ReasonFieldConflict, c.want}
			if diff := cmp.Diff(want, outcomeOf(t, err), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			var stalled *reconciler.StalledError
			if !errors.As(err, &stalled) || stalled.RetryAfter != 7*time.Second {
				t.Errorf("%v is not tried again after 7 s", err)
			}
		})
	}
}
