package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/plugin/view"
)

// target is a custom resource that the user has named.
type target struct {
	kind            view.Kind
	namespace, name string
}

// isSame reports whether it is the same resource as another.
func (t target) isSame(other target) bool {
	return t.kind.Name == other.kind.Name && t.namespace == other.namespace && t.name == other.name
}

// String is how a user names it.
func (t target) String() string { return t.kind.ArgumentOf(t.name) }

// commandLine returns the command line of the plug-in that runs a subcommand on the target.
func (t target) commandLine(subcommand string) string {
	return view.PluginCommand(t.namespace, subcommand, t.String())
}

// maxSnapshot is how many bytes are read of the pods of a resource at most, and of all other objects below it: others may have made many large ones with its labels.
// 4,000 usual pods with their events fit in. maxShared is the same for a viewer, which keeps the resources of many readers: 500 usual pods.
const maxSnapshot, maxShared = 32 << 20, 4 << 20

const kindsPods = "Pods"

// messageTooLong is why a list is not shown that is beyond the limit of a snapshot.
const messageTooLong = "the objects of this page are longer than %d MiB"

// gathering collects lists that are requested at once.
type gathering struct {
	ctx       context.Context
	namespace string
	// refusal returns why a list of a namespace could not be read.
	refusal func(err error, namespace string) string
	chunk   int64
	// most is how many bytes are read, 0 for any number.
	most int64
	*gathered
}

// gathered is the state of lists that are requested at once.
type gathered struct {
	wait    sync.WaitGroup
	mu      sync.Mutex
	missing []view.Missing
}

// forPods returns a gathering of the same lists whose pods have a limit of their own: other objects are not missing for a large number of pods.
func (g *gathering) forPods() *gathering {
	pods := *g
	if g.most > 0 {
		pods.ctx = answers.Limit(g.ctx, g.most)
	}
	return &pods
}

// gatherList requests a list, and appends it to a slice. What cannot be listed is noted.
func gatherList[T any, P interface {
	*T
	runtime.Object
}, L runtime.Object](g *gathering, kinds string, c lister[L], opts metav1.ListOptions, into *[]T) {
	g.wait.Go(func() {
		var found []T
		err := eachOf(g.ctx, c, g.chunk, opts, func(obj runtime.Object) {
			if typed, ok := obj.(P); ok {
				found = append(found, *typed)
			}
		})
		g.mu.Lock()
		defer g.mu.Unlock()
		*into = append(*into, found...)
		if err != nil {
			g.missing = append(g.missing, view.Missing{Kinds: kinds, Why: g.refusalOf(err)})
		}
	})
}

// refusalOf returns in a few words why a list could not be read.
func (g *gathering) refusalOf(err error) string {
	if errors.Is(err, answers.ErrTooLong) {
		return fmt.Sprintf(messageTooLong, g.most>>20)
	}
	return g.refusal(err, g.namespace)
}

// readSnapshot reads a resource and the objects below it in at most nine requests, five for a Task, whatever the size of the cluster, plus one for an adopted
// Service that keeps the label app.kubernetes.io/instance of others; one for the Deployment of a canary; one for each of an HTTPRoute, a
// PodMonitor, a NetworkPolicy and a ServiceAccount in the spec; two for Jobs and their pods, if the spec has a command before its rollouts;
// and one for each auxiliary type that the user may not list, to find out whether the cluster has the type.
// Only the resource is required: a failed read of other objects is noted. events adds the resource's events.
func (c *clients) readSnapshot(ctx context.Context, t target, events bool) (*view.Snapshot, error) {
	s, g, err := c.beginSnapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	if !t.kind.Scheduled {
		c.gatherServing(g, s, t)
	}
	if events {
		gatherList(g, "Events", c.kube.CoreV1().Events(t.namespace), eventsOf(t), &s.Events)
	}
	g.wait.Wait()
	if s.LacksService() {
		gatherList(g, "Services", c.kube.CoreV1().Services(t.namespace), selectName(s.Resource.Service), &s.Services)
		g.wait.Wait()
	}
	g.noteMissing(s)
	return s, ctx.Err()
}

// gatherServing requests the objects by which a resource is reached and scaled, and its volume claims.
func (c *clients) gatherServing(g *gathering, s *view.Snapshot, t target) {
	r, core := s.Resource, c.kube.CoreV1()
	gatherList(g, "Services", core.Services(t.namespace), oursOf(t, &r), &s.Services)
	gatherList(g, "HorizontalPodAutoscalers", c.kube.AutoscalingV2().HorizontalPodAutoscalers(t.namespace), metav1.ListOptions{}, &s.Autoscalers)
	if r.KeepsData() {
		pods := metav1.ListOptions{LabelSelector: podSelector(t, &r)}
		gatherList(g, "PersistentVolumeClaims", core.PersistentVolumeClaims(t.namespace), pods, &s.Claims)
	}
	if r.Serving != nil {
		c.gatherAround(g, s, t, func(around *view.AroundType) bool { return around.Always || around.Asked(r.Serving) })
	}
}

// podSnapshot reads a resource and its pods, and the objects between them, in at most seven requests.
func (c *clients) podSnapshot(ctx context.Context, t target) (*view.Snapshot, error) {
	s, g, err := c.beginSnapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	g.wait.Wait()
	g.noteMissing(s)
	return s, ctx.Err()
}

// beginSnapshot reads a resource and requests its pods. The caller waits for the requests.
func (c *clients) beginSnapshot(ctx context.Context, t target) (*view.Snapshot, *gathering, error) {
	r, err := c.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return nil, nil, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	s := &view.Snapshot{Resource: r, Now: time.Now()}
	// The page names what is beyond the limit; client-go would log it.
	most := cmp.Or(c.most, maxSnapshot)
	limited := logr.NewContext(answers.Limit(ctx, most), logr.Discard())
	g := &gathering{ctx: limited, namespace: t.namespace, chunk: c.chunk, most: most, refusal: c.refusalOf, gathered: &gathered{}}
	c.gatherPods(g, s, t)
	return s, g, nil
}

// gatherPods requests the pods of a resource, and the objects that control the pods.
func (c *clients) gatherPods(g *gathering, s *view.Snapshot, t target) {
	r, ofPods := &s.Resource, g.forPods()
	pods := metav1.ListOptions{LabelSelector: podSelector(t, r)}
	apps, core := c.kube.AppsV1(), c.kube.CoreV1()
	if t.kind.Scheduled {
		gatherList(g, "CronJobs", c.kube.BatchV1().CronJobs(t.namespace), selectName(t.name), &s.CronJobs)
		gatherList(g, "Jobs", c.kube.BatchV1().Jobs(t.namespace), pods, &s.Jobs)
		gatherList(ofPods, kindsPods, core.Pods(t.namespace), pods, &s.Pods)
		return
	}
	gatherList(g, "Deployments", apps.Deployments(t.namespace), workloadsOf(t, r), &s.Deployments)
	if r.Canary != nil {
		gatherList(g, "Deployments", apps.Deployments(t.namespace), selectName(r.Canary.Name), &s.Deployments)
	}
	gatherList(g, "ReplicaSets", apps.ReplicaSets(t.namespace), pods, &s.ReplicaSets)
	gatherList(ofPods, kindsPods, core.Pods(t.namespace), pods, &s.Pods)
	if r.KeepsData() {
		gatherList(g, "StatefulSets", apps.StatefulSets(t.namespace), oursOf(t, r), &s.StatefulSets)
	}
	if r.HasCommand {
		jobs := jobsOf(t)
		gatherList(g, "Jobs", c.kube.BatchV1().Jobs(t.namespace), jobs, &s.Jobs)
		gatherList(ofPods, kindsPods, core.Pods(t.namespace), jobs, &s.Pods)
	}
}

// noteMissing notes in a snapshot what could not be listed.
func (g *gathering) noteMissing(s *view.Snapshot) {
	s.Missing = g.missing
	slices.SortFunc(s.Missing, func(a, b view.Missing) int { return strings.Compare(a.Kinds, b.Kinds) })
	s.Missing = slices.Compact(s.Missing)
}

// eventsOf selects the events of the objects that have the name of a resource: of the resource and of its children, and of objects of others,
// which the views leave out.
func eventsOf(t target) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.name", t.name).String()}
}

// selectName selects the object of a name.
func selectName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// oursOf selects the objects of a resource, and, for a kind with several workloads, also the objects of other resources. For a kind with
// one workload, objects that keep the label of others since an adoption are missing.
func oursOf(t target, r *view.Resource) metav1.ListOptions {
	ours := labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}
	if len(r.Workloads) == 1 {
		ours[appv1.LabelInstance] = t.name
	}
	return metav1.ListOptions{LabelSelector: ours.String()}
}

// jobsOf selects the Jobs of a resource that run the command before its rollouts, and their pods.
func jobsOf(t target) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.Set{appv1.LabelBeforeRollout: t.name}.String()}
}

// podSelector selects the pods of a resource.
func podSelector(t target, r *view.Resource) string {
	if r.Selector != "" {
		return r.Selector
	}
	return labels.Set{t.kind.PodLabel: t.name}.String()
}

// workloadsOf selects the Deployments of a resource. It uses the name for a kind with one workload, because that Deployment may lack the
// operator's labels, or keep the labels of others since an adoption.
func workloadsOf(t target, r *view.Resource) metav1.ListOptions {
	if len(r.Workloads) == 1 {
		return selectName(r.Workloads[0].Name)
	}
	return oursOf(t, r)
}

// gatherAround requests the wanted types of auxiliary objects, whose objects have the name of the resource.
func (c *clients) gatherAround(g *gathering, s *view.Snapshot, t target, wanted func(*view.AroundType) bool) {
	for i := range view.AroundTypes {
		if around := &view.AroundTypes[i]; wanted(around) {
			objects := c.dynamic.Resource(around.Resource).Namespace(g.namespace)
			gatherList(g, around.Kinds, ifDefined{objects, func(ctx context.Context) bool { return c.servesKind(ctx, around.Resource) }}, selectName(t.name), &s.Around)
		}
	}
}

// ifDefined lists the objects of a kind, none where the cluster does not have the kind. The API server rejects a user without the right
// whether or not the cluster has the kind; served reports whether it has.
type ifDefined struct {
	dynamic.ResourceInterface
	served func(ctx context.Context) bool
}

// List implements lister.
func (d ifDefined) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := d.ResourceInterface.List(ctx, opts)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !d.served(ctx) {
		return &unstructured.UnstructuredList{}, nil
	}
	return list, err
}

// servesKind reports whether the cluster has a kind, which all users may ask. It is true where the answer is not known.
func (c *clients) servesKind(ctx context.Context, kind schema.GroupVersionResource) bool {
	list, err := c.listKinds(ctx, kind.GroupVersion())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(found metav1.APIResource) bool { return found.Name == kind.Resource })
}

// listKinds lists the kinds of a version of an API group. The requests of the discovery client itself do not end with a context.
func (c *clients) listKinds(ctx context.Context, group schema.GroupVersion) (*metav1.APIResourceList, error) {
	path, list := "/apis/"+group.String(), &metav1.APIResourceList{}
	if group.Group == "" {
		path = "/api/" + group.Version
	}
	return list, c.kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(list)
}

// serverVersion returns the version of Kubernetes, empty where it is not known.
func (c *clients) serverVersion(ctx context.Context) string {
	var server version.Info
	data, err := c.kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil || json.Unmarshal(data, &server) != nil {
		return ""
	}
	return server.GitVersion
}
