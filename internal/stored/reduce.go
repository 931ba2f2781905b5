package stored

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Reduced reports whether the spec was dropped, so that the resource cannot be decoded and is to be read from the API server.
func (r *base[S]) Reduced() bool { return r.Spec.dropped != nil }

// IndexNames returns the names that were kept of a spec that was dropped, and whether it was.
func (r *base[S]) IndexNames() ([]string, bool) {
	if r.Spec.dropped == nil {
		return nil, false
	}
	return r.Spec.dropped.names, true
}

// dropSpec drops the spec. Annotations are the business of the caller.
func (r *base[S]) dropSpec(names []string, service string) {
	r.Spec = Spec{dropped: &dropped{names: names, service: strings.Clone(service)}}
}

// The limits of the kept status of a resource whose spec was dropped: the number of conditions, and the bytes of each text.
const (
	maxConditions = 16
	maxText       = 64
)

// reduceStatus returns the parts of a status that metrics and the rollouts of AppDefaults read.
func reduceStatus(status *appv1.CommonStatus) appv1.CommonStatus {
	kept := appv1.CommonStatus{ObservedGeneration: status.ObservedGeneration}
	for _, c := range status.Conditions[:min(len(status.Conditions), maxConditions)] {
		kept.Conditions = append(kept.Conditions, metav1.Condition{
			Type: truncateText(c.Type), Status: truncateText(c.Status), Reason: truncateText(c.Reason),
			ObservedGeneration: c.ObservedGeneration, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return kept
}

// reduceWorkload returns the parts of a workload's status that metrics read.
func reduceWorkload(status *appv1.WorkloadStatus) appv1.WorkloadStatus {
	return appv1.WorkloadStatus{
		CommonStatus: reduceStatus(&status.CommonStatus), LatestRendering: status.LatestRendering, LatestSize: truncateText(status.LatestSize),
	}
}

// reduceDefaults returns the status about defaults with a short text.
func reduceDefaults(status *appv1.DefaultsStatus) appv1.DefaultsStatus {
	if status.Defaults == nil {
		return appv1.DefaultsStatus{}
	}
	return appv1.DefaultsStatus{Defaults: &appv1.DefaultsInUse{
		Current: status.Defaults.Current, Invalid: truncateText(status.Defaults.Invalid), WaveInUse: status.Defaults.WaveInUse,
	}}
}

func reduceTier(status *appv1.TierStatus) appv1.TierStatus {
	return appv1.TierStatus{LatestRendering: status.LatestRendering, LatestSize: truncateText(status.LatestSize)}
}

func truncateText[S ~string](text S) S {
	return S(strings.Clone(string(text[:min(len(text), maxText)])))
}
