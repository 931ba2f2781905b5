package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/plugin/view"
)

// getBelow reads an object of a kind by its name.
type getBelow func(ctx context.Context, c *clients, name string) (metav1.Object, error)

// below are the kinds of Kubernetes' own from which a resource is found, by the names that kubectl takes; see readerBelow.
var below = map[string]getBelow{
	"pod": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"replicaset": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.AppsV1().ReplicaSets(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"deployment": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.AppsV1().Deployments(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"statefulset": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.AppsV1().StatefulSets(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"horizontalpodautoscaler": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.AutoscalingV2().HorizontalPodAutoscalers(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"job": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.BatchV1().Jobs(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"cronjob": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.BatchV1().CronJobs(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
	"service": func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
		return c.kube.CoreV1().Services(c.namespace).Get(ctx, name, metav1.GetOptions{})
	},
}

// belowNames are further names of these kinds.
var belowNames = map[string]string{
	"po": "pod", "pods": "pod", "rs": "replicaset", "replicasets": "replicaset", "deploy": "deployment", "deployments": "deployment",
	"deployment.apps": "deployment", "replicaset.apps": "replicaset", "statefulset.apps": "statefulset", "sts": "statefulset",
	"statefulsets": "statefulset", "svc": "service", "services": "service", "hpa": "horizontalpodautoscaler",
	"horizontalpodautoscalers": "horizontalpodautoscaler", "pdb": "poddisruptionbudget", "ing": "ingress", "netpol": "networkpolicy",
	"jobs": "job", "job.batch": "job", "cj": "cronjob", "cronjobs": "cronjob", "cronjob.batch": "cronjob", "sa": "serviceaccount", "pmon": "podmonitor",
}

// readerBelow returns the function that reads an object of a kind below a resource: from below, or for an auxiliary type by its kind or
// plural. It returns nil for another kind.
func readerBelow(kind string) getBelow {
	if read, ok := below[kind]; ok {
		return read
	}
	for i := range view.AroundTypes {
		if t := &view.AroundTypes[i]; strings.EqualFold(kind, t.Kind) || kind == t.Resource.Resource {
			return func(ctx context.Context, c *clients, name string) (metav1.Object, error) {
				return c.dynamic.Resource(t.Resource).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
			}
		}
	}
	return nil
}

// resolveTarget returns the resource that an argument names: NAME, KIND/NAME, or something that belongs to a resource.
func (c *clients) resolveTarget(ctx context.Context, argument string) (target, error) {
	word, name, found := strings.Cut(argument, "/")
	if !found && argument != "" {
		return target{kind: view.Kinds[0], namespace: c.namespace, name: argument}, nil
	}
	if word == "" || name == "" || strings.Contains(name, "/") {
		return target{}, wrongUse(fmt.Errorf("%q: write NAME or KIND/NAME", argument))
	}
	if kind, ok := view.KindOf(word); ok {
		return target{kind: kind, namespace: c.namespace, name: name}, nil
	}
	kind := strings.ToLower(word)
	if full, ok := belowNames[kind]; ok {
		kind = full
	}
	if readerBelow(kind) == nil {
		return target{}, wrongUse(fmt.Errorf("%q is no kind that belongs to a resource of the kind %s", word, view.NameKinds("or", view.AnyKind)))
	}
	return c.traceOwner(ctx, kind, name)
}

// errUnowned is the error for an object without an owner of our kinds.
var errUnowned = errors.New("belongs to no " + view.NameKinds("or", view.AnyKind))

// traceOwner returns the resource above an object, by the references to controllers.
func (c *clients) traceOwner(ctx context.Context, kind, name string) (target, error) {
	for range 4 { // Pod, ReplicaSet or Job, Deployment or CronJob, and the resource.
		read := readerBelow(kind)
		if read == nil {
			return target{}, fmt.Errorf("%s %s %w", kind, name, errUnowned)
		}
		obj, err := read(ctx, c, name)
		if err != nil {
			return target{}, inWords(err, "get", kind+" "+name, c.namespace)
		}
		owner := cmp.Or(metav1.GetControllerOf(obj), health.JobOwner(obj))
		if owner == nil {
			return target{}, fmt.Errorf("%s %s %w", kind, name, errUnowned)
		}
		if known, ours := ownerKind(owner); ours {
			return target{kind: known, namespace: c.namespace, name: owner.Name}, nil
		}
		kind, name = strings.ToLower(owner.Kind), owner.Name
	}
	return target{}, fmt.Errorf("%s %s %w", kind, name, errUnowned)
}

// ownerKind returns the kind of ours that an owner is of, and false for any other owner, and for none.
func ownerKind(owner *metav1.OwnerReference) (view.Kind, bool) {
	if owner == nil {
		return view.Kind{}, false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != appv1.GroupVersion.Group {
		return view.Kind{}, false
	}
	return view.KindOf(owner.Kind)
}

// onTarget returns what a command with one argument runs: do, with the resource that the argument names.
func (r *root) onTarget(do func(ctx context.Context, c *clients, t target) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := r.newClients()
		if err != nil {
			return err
		}
		t, err := c.resolveTarget(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, t)
	}
}

// resolveAll returns the resources that arguments name, each once.
func (c *clients) resolveAll(ctx context.Context, arguments []string) ([]target, error) {
	targets := make([]target, 0, len(arguments))
	for _, argument := range arguments {
		t, err := c.resolveTarget(ctx, argument)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(targets, func(named target) bool { return named.isSame(t) }) {
			targets = append(targets, t)
		}
	}
	return targets, nil
}
