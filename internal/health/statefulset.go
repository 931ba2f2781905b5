package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// StatefulSet judges a StatefulSet by its status and its pods. It is ready by the rule of Deployment, and once its controller has made the
// latest revision the current one. A partition, which holds a rollout back, is ignored.
//
// A StatefulSet is never stalled: it has no progress deadline, and a clock of our own would start again with each restart of the operator.
// Its status does not show pods that the API server rejects either; the message names the place to look.
func StatefulSet(s *appsv1.StatefulSet, pods []corev1.Pod) Verdict {
	object := "StatefulSet " + s.Name
	wanted := int32(1)
	if s.Spec.Replicas != nil {
		wanted = *s.Spec.Replicas
	}
	st := &s.Status
	if st.ObservedGeneration < s.Generation {
		return Verdict{Reason: appv1.ReasonProgressing, Detail: messageNotObserved}.withObjectName(object)
	}
	if st.UpdatedReplicas >= wanted && st.AvailableReplicas >= wanted && st.CurrentRevision == st.UpdateRevision {
		return settledVerdict(wanted, st.Replicas).withObjectName(object)
	}

	v := Verdict{
		Reason: appv1.ReasonProgressing,
		Detail: fmt.Sprintf(messageProgress, st.UpdatedReplicas, message.Count(int(wanted), "pod"), st.AvailableReplicas),
	}
	if missing := wanted - st.Replicas; missing > 0 {
		v.Detail += fmt.Sprintf(messagePodsNotYetThere, missing, s.Name, s.Namespace)
	}
	v.explainByPods(pods, s)
	return v.withObjectName(object)
}

// Up reports whether enough of a workload is ready for others to rely on it: more than half of its wanted pods.
func Up(wanted, ready int32) bool {
	return wanted == 0 || int64(ready)*2 > int64(wanted)
}
