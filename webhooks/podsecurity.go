package webhooks

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// podSecurity warns of pods that the namespace rejects by its Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/). Kubernetes itself would warn the client that creates the pods, a
// controller.
//
// The namespace is read from the API server, and only for pods that the strictest standard rejects: a cache would hold every namespace of
// the cluster. If the manager may not read the namespace, there is no such warning.
func (s *validators) podSecurity(ctx context.Context, who *asker, namespace string, workloads []*resource.Workload) []string {
	strictest := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	refused := s.refusalsOf(strictest, workloads)
	said := undoneProfiles(refused)
	if refused == nil || who.grantAnswer(topicPodSecurity) != full {
		return said
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := s.live.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "namespace", namespace, "error", err.Error())
		return said
	}
	privileged := psa.LevelVersion{Level: psa.LevelPrivileged, Version: psa.LatestVersion()}
	// A label that cannot be read counts as Kubernetes counts it.
	enforced, _ := psa.PolicyToEvaluate(ns.Labels, psa.Policy{Enforce: privileged, Audit: privileged, Warn: privileged})
	for _, refused := range s.refusalsOf(enforced.Enforce, workloads) {
		said = append(said, fmt.Sprintf(messagePodsRejected,
			namespace, refused.workload.Name, enforced.Enforce.String(), refused.why))
	}
	return said
}

// undoneProfiles returns a warning for each workload with the security profile restricted whose other fields undo the profile. refused are
// the workloads whose pods the standard of that name forbids.
func undoneProfiles(refused []refusal) []string {
	var said []string
	for _, r := range refused {
		if r.workload.Profile == appv1.SecurityProfileRestricted {
			said = append(said, fmt.Sprintf(messageProfileUndone, r.workload.Path.Child("securityProfile"), r.workload.Name, r.why))
		}
	}
	return said
}

// refusal is a workload, and why a Pod Security Standard forbids its pods.
type refusal struct {
	workload *resource.Workload
	why      string
}

// refusalsOf returns the workloads whose pods a standard refuses.
func (s *validators) refusalsOf(standard psa.LevelVersion, workloads []*resource.Workload) []refusal {
	var refused []refusal
	for _, w := range workloads {
		verdict := policy.AggregateCheckResults(s.standards.EvaluatePod(standard, &w.Template.ObjectMeta, &w.Template.Spec))
		if !verdict.Allowed {
			refused = append(refused, refusal{w, verdict.ForbiddenDetail()})
		}
	}
	return refused
}
