package workload

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
)

// The pods of an adopted Deployment that keeps its pod template, and the pods of the tutorials' operators, lack the label by which the cache
// finds pods. While such a Deployment is not ready, its pods are read from the API server, for the cause. Any other workload costs no
// request.

const (
	// unlabelledPage is how many pods are read in one request, unlabelledPages the number of requests for one reconcile. A page is reduced
	// to the causes before the next one is read.
	unlabelledPage, unlabelledPages = 16, 4
	// unlabelledAgain is when the pods are read again while the Deployment is not ready: nothing watches them.
	unlabelledAgain = 10 * time.Second
)

// lacksPodLabel reports whether the pods of a Deployment of the owner lack the label by which the cache finds pods.
func lacksPodLabel(live *appsv1.Deployment, owner client.Object) bool {
	return metav1.IsControlledBy(live, owner) && !children.IsPartial(live) && lacksManagedBy(live.Spec.Template)
}

// lacksManagedBy reports whether a pod template lacks the operator's label.
func lacksManagedBy(template corev1.PodTemplateSpec) bool {
	return template.Labels[appv1.LabelManagedBy] != appv1.ManagedBy
}

// listUnlabelledPods returns the pods of a Deployment that is not ready and whose pods lack the label, reduced to what health needs. wanted is
// true for such a Deployment. Pods that cannot be read count as none: they only lack a cause.
func listUnlabelledPods(
	ctx context.Context, reader client.Reader, in *Input, seen *Observed, live *appsv1.Deployment,
) (pods []corev1.Pod, wanted bool) {
	if !lacksPodLabel(live, in.Owner) || health.Deployment(live, seen.Pods, seen.At).Ready {
		return nil, false
	}
	selector, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if err != nil {
		return nil, true
	}
	next := ""
	for range unlabelledPages {
		page := &corev1.PodList{}
		if err := reader.List(ctx, page, client.InNamespace(live.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(unlabelledPage), client.Continue(next)); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info(messagePodsUnreadable, "deployment", live.Name, "error", err.Error())
			return pods, true
		}
		for i := range page.Items {
			if pod := &page.Items[i]; ofDeployment(pod, live.Name) {
				children.TypeOf(pod).Keep(pod, false)
				pods = append(pods, *pod)
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	return pods, true
}

// ofDeployment reports whether the controller of a pod is a ReplicaSet of a Deployment, by the name that the Deployment's controller gives
// to its ReplicaSets.
func ofDeployment(pod *corev1.Pod, deployment string) bool {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	c := metav1.GetControllerOfNoCopy(pod)
	return c != nil && c.Kind == "ReplicaSet" && hash != "" && c.Name == deployment+"-"+hash
}

// judgeAgain returns a verdict that is looked at again soon, as nothing watches the pods that it is about.
func judgeAgain(verdict health.Verdict) health.Verdict {
	if !verdict.Ready {
		verdict.Again = reconciler.MinRequeue(verdict.Again, unlabelledAgain)
	}
	return verdict
}
