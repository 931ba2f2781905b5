package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

	"huolala.cn/app-operator/internal/message"
)

// An adoption gives a Service the selector of the owner's pods. A Service that serves other pods is not adopted: they would lose it. A
// ServiceAccount that other pods run as is not adopted either: they would lose their token, and the account with the owner. An idle
// workload has no pods, and its pods are served or run as an account once it is scaled up: so workloads count as their pods do.

// Cluster answers what the objects of a namespace use.
type Cluster interface {
	// Selecting calls do for each object of a type that selects pods by a selector, until do returns false.
	Selecting(ctx context.Context, namespace string, do func(workload Object, selector *metav1.LabelSelector) bool) error
	// Templates calls do for each object that creates pods by a template, until do returns false. It returns ErrTooLong if there is more to
	// read than its limit.
	Templates(ctx context.Context, namespace string, do func(workload Object, template *corev1.PodTemplateSpec) bool) error
	// AnyPod reports whether a selector selects any pod that runs as an account; of any account if that is empty.
	AnyPod(ctx context.Context, namespace string, selector labels.Selector, account string) (bool, error)
	// PodLabels returns the labels of the pod template of a live workload object, nil for any other object.
	PodLabels(ctx context.Context, live Object) (map[string]string, error)
}

// ErrTooLong is the error of a Cluster whose objects are together longer than is read for one question.
var ErrTooLong = errors.New("the objects are longer than is read for one question")

// Pair is a wanted object and the live one of its name, nil if there is none.
type Pair struct{ Wanted, Live Object }

// Children are all that one owner wants.
type Children []Pair

// Serves returns why a live Service or ServiceAccount cannot be adopted as the wanted one: it serves pods that are not the owner's. The
// words are empty for an object that serves no others, and for an object of another type.
func (c Children) Serves(ctx context.Context, cluster Cluster, wanted, live Object) (words string, err error) {
	switch live := live.(type) {
	case *corev1.Service:
		return c.checkService(ctx, cluster, wanted, live)
	case *corev1.ServiceAccount:
		return c.checkAccount(ctx, cluster, live)
	}
	return "", nil
}

// checkAccount returns why a live account cannot be adopted: a pod that the selector of the owner's pods does not select runs as it, or the
// template of another workload object names it. Each label of the selector costs a request, which returns at most one pod.
func (c Children) checkAccount(ctx context.Context, cluster Cluster, live *corev1.ServiceAccount) (string, error) {
	used, err := anyPodOutside(ctx, cluster, live.Namespace, nil, c.podSelector(), live.Name)
	if err == nil && !used {
		err = cluster.Templates(ctx, live.Namespace, func(workload Object, template *corev1.PodTemplateSpec) bool {
			used = template.Spec.ServiceAccountName == live.Name && !c.containsObject(workload)
			return !used
		})
	}
	switch {
	case errors.Is(err, ErrTooLong):
		return fmt.Sprintf(messageAccountUnknown, live.Name), nil
	case err != nil || !used:
		return "", err
	}
	return fmt.Sprintf(messageAccountOfOthers, live.Name), nil
}

// anyPodOutside reports whether there is a pod that one selector selects, that runs as an account, and that another selector does not
// select. Each label that the other one adds costs a request, which returns at most one pod.
func anyPodOutside(ctx context.Context, cluster Cluster, namespace string, inside, outside map[string]string, account string) (bool, error) {
	if len(outside) == 0 {
		return cluster.AnyPod(ctx, namespace, labels.SelectorFromSet(inside), account)
	}
	for _, key := range slices.Sorted(maps.Keys(outside)) {
		if value, ok := inside[key]; ok && value == outside[key] {
			continue
		}
		without, err := labels.NewRequirement(key, selection.NotIn, []string{outside[key]})
		if err != nil {
			return false, fmt.Errorf("selector: %w", err)
		}
		found, err := cluster.AnyPod(ctx, namespace, labels.SelectorFromSet(inside).Add(*without), account)
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// podSelector returns the labels by which the workload object among the children selects its pods, nil without one.
func (c Children) podSelector() map[string]string {
	for _, pair := range c {
		switch wanted := pair.Wanted.(type) {
		case *appsv1.Deployment:
			return wanted.Spec.Selector.MatchLabels
		case *appsv1.StatefulSet:
			return wanted.Spec.Selector.MatchLabels
		}
	}
	return nil
}

// checkService returns why a live Service cannot be adopted: the Service has no selector, or it selects pods now, and by their labels none of
// the owner's, or one that the wanted selector does not select, or it selects the pods of another workload object, which may have none now.
// It asks the cluster only if the two selectors differ.
func (c Children) checkService(ctx context.Context, cluster Cluster, wanted Object, live *corev1.Service) (string, error) {
	service, ok := wanted.(*corev1.Service)
	if !ok || maps.Equal(live.Spec.Selector, service.Spec.Selector) {
		return "", nil
	}
	serves, err := c.servesOthers(ctx, cluster, live, service.Spec.Selector)
	if err != nil || !serves {
		return "", err
	}
	return fmt.Sprintf(messageServesOthers, live.Name, SelectorText(live.Spec.Selector), SelectorText(service.Spec.Selector)), nil
}

// servesOthers reports whether a live Service serves pods that it would lose by a selector.
func (c Children) servesOthers(ctx context.Context, cluster Cluster, live *corev1.Service, selector map[string]string) (bool, error) {
	if len(live.Spec.Selector) == 0 {
		return true, nil // Its endpoints are those of others.
	}
	if serves, err := c.servesOtherWorkload(ctx, cluster, live, selector); err != nil || serves {
		return serves, err
	}
	if serves, err := cluster.AnyPod(ctx, live.Namespace, labels.SelectorFromSet(live.Spec.Selector), ""); err != nil || !serves {
		return false, err
	}
	if own, err := c.selectsOwnPods(ctx, cluster, live.Spec.Selector); err != nil || !own {
		return true, err
	}
	if len(selector) == 0 {
		return false, nil
	}
	return anyPodOutside(ctx, cluster, live.Namespace, live.Spec.Selector, selector, "")
}

// servesOtherWorkload reports whether a Service selects, and would not select by another selector, the pods of a workload object that is none of
// the children, by the labels that the selector of the workload object states.
func (c Children) servesOtherWorkload(ctx context.Context, cluster Cluster, service *corev1.Service, selector map[string]string) (bool, error) {
	is, becomes, serves := labels.SelectorFromSet(service.Spec.Selector), labels.SelectorFromSet(selector), false
	err := cluster.Selecting(ctx, service.Namespace, func(workload Object, pods *metav1.LabelSelector) bool {
		serves = pods != nil && is.Matches(labels.Set(pods.MatchLabels)) && !becomes.Matches(labels.Set(pods.MatchLabels)) && !c.containsObject(workload)
		return !serves
	})
	return serves, err
}

// containsObject reports whether an object is one of the children, by type and name.
func (c Children) containsObject(obj Object) bool {
	return slices.ContainsFunc(c, func(pair Pair) bool {
		return reflect.TypeOf(pair.Wanted) == reflect.TypeOf(obj) && pair.Wanted.GetName() == obj.GetName()
	})
}

// SelectorText is how a message names a selector.
func SelectorText(selector map[string]string) string {
	if len(selector) == 0 {
		return "no label"
	}
	return message.Quote(labels.FormatLabels(selector))
}

// selectsOwnPods reports whether a selector selects the pods of the workload object among the children.
func (c Children) selectsOwnPods(ctx context.Context, cluster Cluster, selector map[string]string) (bool, error) {
	found := labels.SelectorFromSet(selector)
	for _, pair := range c {
		wanted := PodLabels(pair.Wanted)
		if wanted == nil {
			continue
		}
		if found.Matches(labels.Set(wanted)) {
			return true, nil
		}
		if pair.Live == nil {
			continue
		}
		has, err := cluster.PodLabels(ctx, pair.Live)
		if err != nil {
			return false, err
		}
		all := maps.Clone(has) // The pod template keeps the labels that the owner does not state.
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, wanted)
		if found.Matches(labels.Set(all)) || found.Matches(labels.Set(has)) {
			return true, nil
		}
	}
	return false, nil
}

// PodLabels returns the labels of the pods of a Deployment or a StatefulSet, nil for any other object.
func PodLabels(obj Object) map[string]string {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet:
	default:
		return nil
	}
	template := TemplateOf(obj)
	if template.Labels == nil {
		return map[string]string{}
	}
	return template.Labels
}

// TemplateOf returns the template by which a workload object creates pods, nil for an object that creates none: one of another type, or a
// Job that has ended.
func TemplateOf(obj runtime.Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template
	case *appsv1.DaemonSet:
		return &obj.Spec.Template
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template
	case *batchv1.Job:
		ended := func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		}
		if !slices.ContainsFunc(obj.Status.Conditions, ended) {
			return &obj.Spec.Template
		}
	}
	return nil
}
