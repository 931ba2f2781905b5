package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// Resource is a custom resource of any kind, with what the views need of it.
type Resource struct {
	Kind       string
	ObjectMeta metav1.ObjectMeta
	// Image is the image of the spec, empty for a kind that has none or several.
	Image string
	// Workloads are the Deployments and StatefulSets that the spec means, in the order in which they start.
	Workloads []Workload
	// Paused is true while nothing is written to the children.
	Paused bool
	// Replicas is the number of pods that the spec states, nil where it states none or the kind has no such number.
	Replicas *int32
	// Ready is the number of ready pods out of the wanted ones, like "2/2". Pods has the numbers.
	Ready string
	Pods  PodCount
	// Outdated is true while a newer rendering, another meaning of the named size or other defaults wait to be taken.
	Outdated bool
	// Defaults is whether the resource has the present defaults, nil if no AppDefaults counts for it.
	Defaults *appv1.DefaultsInUse
	// LastGood is the ReplicaSet that was last ready, empty where none was, and for a kind that cannot be held. LastGoodImage is its
	// image, and Running the ReplicaSet of all pods, empty where they are of several or unknown.
	LastGood, LastGoodImage, Running string
	// Canary is the canary that waits for its promotion, nil without one.
	Canary *appv1.CanaryStatus
	// HasCommand is true if the spec has a command before its rollouts, so that the resource has Jobs.
	HasCommand bool
	// Schedule is when a Task runs, nil for any other kind.
	Schedule *Schedule
	// Selector selects the pods, empty where the status has none. Service is the name of the Service of a kind with one workload, empty
	// where there is none.
	Selector, Service string
	// Endpoint is where the Service answers, and Size the named size with its amounts, both as in the status of a kind with one workload.
	Endpoint, Size string
	// Tiers are the tiers of a kind that has several, in the order in which they start.
	Tiers []Tier
	// WantsService is true if the spec of a kind with one workload has ports, so that the resource is to have a Service.
	WantsService bool
	Status       appv1.CommonStatus
	// Spec is the custom resource's spec, Serving the part on the auxiliary objects, nil for a kind without them.
	Spec    any
	Serving *appv1.ServingSpec
}

// Tier is a tier of a resource, from its status.
type Tier struct {
	Part Part
	// Ready is the number of ready pods out of the wanted ones, empty for a tier that does not exist yet.
	Ready, Endpoint string
}

// The kinds of workloads.
const (
	KindDeployment  = "Deployment"
	KindStatefulSet = "StatefulSet"
)

// Workload is a Deployment or a StatefulSet that a resource means.
type Workload struct {
	Kind, Name string
	// Foreign is true if the workload belongs to another tool, Scaled if the resource scales the workload although another tool controls
	// it.
	Foreign, Scaled bool
	// Part names the part of the resource that means it, empty for a kind with one workload.
	Part Part
	// Spec is the part of the resource's spec that the workload's revisions are records of, nil for one without a history. Path is the
	// JSON pointer to it in the resource, and NewRecord returns an empty record.
	Spec      any
	Path      string
	NewRecord func() any
	// built is the spec by which the pods of a record are built, nil for a workload that cannot be held: its pods also depend on other
	// parts of the resource, which no record has.
	built resource.Spec
}

// LastGood is the value of HeldAt for the last revision that was ready.
const LastGood = appv1.HoldLastGood

// CanaryReady reports whether every pod of the canary is ready.
func (r *Resource) CanaryReady() bool {
	return r.Canary != nil && r.conditionOf(appv1.ConditionCanaryReady).Status == metav1.ConditionTrue
}

// PromotionObstacle returns why the canary is not to be promoted yet, with the commands that help, empty if nothing is known to be in the way.
func (r *Resource) PromotionObstacle() string {
	nevertheless := fmt.Sprintf("or promote it nevertheless by %q", r.PluginCommand(doPromote, "--force"))
	switch {
	case r.Canary == nil:
		return ""
	case !r.CanaryReady():
		return fmt.Sprintf("%d of %d pods of the canary of %s are ready. See %q, %s",
			r.Canary.Ready, r.Canary.Pods, r.ObjectName(), r.PluginCommand("why"), nevertheless)
	case r.Paused && len(r.Status.Pending) > 0:
		return fmt.Sprintf("%s is paused, and a change waits, which may be another one than that of the canary: %s. Resume it by %q first, %s",
			r.ObjectName(), CleanLine(r.Status.Pending[0]), r.PluginCommand(doResume), nevertheless)
	}
	return ""
}

// HeldAt returns the value of the annotation for a hold: a ReplicaSet, or LastGood; empty without the annotation, and for a kind on which the annotation has
// no effect.
func (r *Resource) HeldAt() string {
	if kind, ok := KindOf(r.Kind); !ok || !kind.Holds {
		return ""
	}
	return r.ObjectMeta.Annotations[appv1.AnnotationHold]
}

// TemplateKept reports whether the Deployment keeps the pod template of before its adoption.
func (r *Resource) TemplateKept() bool {
	return r.conditionOf(appv1.ConditionApplied).Reason == appv1.ReasonTemplateKept
}

// CanRefresh reports whether a refresh changes something: a rendering, a size, defaults, or a pod template that an adoption has kept.
func (r *Resource) CanRefresh() bool { return r.Outdated || r.TemplateKept() }

// LastGoodInWords describes the revision that a hold at LastGood means, empty for none. It says so if that revision runs now: a release that
// was ready once is the last good one, whatever it does since.
func (r *Resource) LastGoodInWords() string {
	if r.LastGood == "" {
		return ""
	}
	words := "ReplicaSet " + r.LastGood
	if r.LastGoodImage != "" {
		words += " (" + r.LastGoodImage + ")"
	}
	if r.LastGood == r.Running {
		words += ", which runs now"
	}
	return words
}

// WantedPods returns the number of pods that the resource wants: the number in the spec, or else the live number, which the operator keeps.
func (r *Resource) WantedPods() int32 {
	if r.Replicas != nil {
		return *r.Replicas
	}
	_, live, _ := strings.Cut(r.Ready, "/")
	if n, err := strconv.ParseInt(live, 10, 32); err == nil {
		return int32(n)
	}
	return 1
}

// scalesDeployment reports whether the resource scales the Deployment with a name, including a Deployment that another tool controls.
func (r *Resource) scalesDeployment(deployment string) bool {
	return slices.ContainsFunc(r.Workloads, func(w Workload) bool { return w.Scaled && w.Name == deployment })
}

// KeepsData reports whether a workload of the resource has volumes.
func (r *Resource) KeepsData() bool {
	return slices.ContainsFunc(r.Workloads, func(w Workload) bool { return w.Kind == KindStatefulSet })
}

// ObjectName returns how a resource is called in a sentence, such as "App shop/cart".
func (r *Resource) ObjectName() string {
	return r.Kind + " " + r.ObjectMeta.Namespace + "/" + r.ObjectMeta.Name
}

// conditionOf returns a condition of the resource, an empty one if it has none of the type.
func (r *Resource) conditionOf(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// IsObserved reports whether the status speaks of the latest change of the spec.
func (r *Resource) IsObserved() bool { return r.Status.ObservedGeneration >= r.ObjectMeta.Generation }

// mainCondition returns the most important condition: Ready during a pause, else Stalled if it is true, else Applied if the spec is not in force
// and the pods are ready, and Ready otherwise.
func (r *Resource) mainCondition() metav1.Condition {
	if c := r.conditionOf(appv1.ConditionReady); c.Reason == appv1.ReasonPaused {
		return c
	}
	if c := r.conditionOf(appv1.ConditionStalled); c.Status == metav1.ConditionTrue {
		return c
	}
	ready, applied := r.conditionOf(appv1.ConditionReady), r.conditionOf(appv1.ConditionApplied)
	if ready.Status == metav1.ConditionTrue && applied.Status == metav1.ConditionFalse {
		return applied
	}
	return ready
}

// specManager is the entry of managedFields by which the spec was last changed.
type specManager struct {
	Name string
	Time *metav1.Time
}

// changedBy returns who last changed the spec. Writes of the status and scaling are no change of the spec.
func (r *Resource) changedBy() specManager {
	var found specManager
	for i := range r.ObjectMeta.ManagedFields {
		entry := &r.ObjectMeta.ManagedFields[i]
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		// A writer who pauses, resumes, or sets annotations changes nothing in the pods.
		delete(fields.Spec, "f:paused")
		delete(fields.Spec, ".")
		if len(fields.Spec) == 0 {
			continue
		}
		if found.Time == nil || found.Time.Before(entry.Time) {
			found = specManager{Name: entry.Manager, Time: entry.Time}
		}
	}
	return found
}

// gitOpsManagers are the beginnings of the field managers by which a resource is kept as a repository or a chart has it.
var gitOpsManagers = []string{"argocd", "kustomize-controller", "helm-controller", "flux", "helm"}

// gitOpsMarks are the keys, or prefixes of keys, of labels and annotations that GitOps tools set on their objects.
var gitOpsMarks = []struct{ key, tool string }{
	{"argocd.argoproj.io/tracking-id", "Argo CD"},
	{"argocd.argoproj.io/instance", "Argo CD"},
	{"kustomize.toolkit.fluxcd.io/", "Flux"},
	{"helm.toolkit.fluxcd.io/", "Flux"},
	{"meta.helm.sh/release-name", "Helm"},
}

// GitOps returns the tool that applies the resource from a repository or a chart, and would revert changes in the cluster; empty without a
// sign of a tool.
func (r *Resource) GitOps() string {
	for i := range r.ObjectMeta.ManagedFields {
		name := r.ObjectMeta.ManagedFields[i].Manager
		if slices.ContainsFunc(gitOpsManagers, func(prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"-") }) {
			return name
		}
	}
	for _, mark := range gitOpsMarks {
		for _, marks := range []map[string]string{r.ObjectMeta.Labels, r.ObjectMeta.Annotations} {
			for key := range marks {
				if key == mark.key || strings.HasSuffix(mark.key, "/") && strings.HasPrefix(key, mark.key) {
					return mark.tool
				}
			}
		}
	}
	return ""
}

// RunnableWorkload returns the workload of a part whose pods a command can run in: a Deployment. The part is empty for a kind with one workload.
func (r *Resource) RunnableWorkload(part Part) (*Workload, error) {
	var parts []string
	for i := range r.Workloads {
		switch w := &r.Workloads[i]; {
		case w.Kind != KindDeployment:
		case w.Part == part:
			return w, nil
		case w.Part != "":
			parts = append(parts, string(w.Part))
		}
	}
	switch {
	case len(parts) == 0:
		return nil, fmt.Errorf("%s has no parts; leave out --part", r.ObjectName())
	case part == "":
		return nil, fmt.Errorf("%s has several Deployments; choose with --part %s", r.ObjectName(), strings.Join(parts, " or --part "))
	}
	return nil, fmt.Errorf("part %q has no Deployment; choose %s", part, strings.Join(parts, " or "))
}
