package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// site is a namespace in which something serves, and whose user follows an advice.
type site struct {
	*testing.T
	u *user
	// app is the App web of two pods, nil if the story has another resource.
	app *appv1.App
	// was is the state before the advice is followed, and slices are all states of the endpoints since then.
	was    served
	slices *harness.Journal[*discoveryv1.EndpointSlice]
}

// served is what clients see of a namespace: of each Service its selector, its labels and the number of ready endpoints, the labels of each
// pod by its UID, and the UIDs of the ready ones.
type served struct {
	selectors, labels map[string]map[string]string
	endpoints         map[string]int
	pods              map[types.UID]map[string]string
}

// emptySite returns a site with a Service in front of all pods with the label shop: a.
func emptySite(t *testing.T, u *user) *site {
	t.Helper()
	all := &corev1.Service{ObjectMeta: fixture.Meta(u.namespace, "all")}
	all.Labels = map[string]string{"team": "a"}
	all.Spec = corev1.ServiceSpec{Selector: map[string]string{"shop": "a"}, Ports: []corev1.ServicePort{{Port: 80}}}
	plane.Create(t, all)
	return &site{T: t, u: u}
}

// newSite returns a site whose App is Ready. The changes are those of its first spec.
func newSite(t *testing.T, change ...func(*appv1.AppSpec)) *site {
	t.Helper()
	s := emptySite(t, administrator(t))
	s.create(change...)
	s.ready()
	plane.Until(t, s.app, func() error { // A hold and a rollback need the last good revision.
		if s.app.Status.LastGood == nil {
			return fmt.Errorf("the history is %+v", s.app.Status.HistoryStatus)
		}
		return nil
	})
	s.note()
	return s
}

// create creates the App web, which is of the same shop.
func (s *site) create(change ...func(*appv1.AppSpec)) {
	s.Helper()
	s.app = fixture.NewApp(s.u.namespace, "web")
	s.app.Spec.PodLabels = map[string]string{"shop": "a"}
	s.app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	for _, each := range change {
		each(&s.app.Spec)
	}
	plane.Create(s, s.app)
}

// ready waits until the App is Ready and all its pods are behind its Service.
func (s *site) ready() {
	s.Helper()
	plane.Stands(s, s.app, "Ready=True", "Applied=True")
	plane.Read(s, s.app)
}

// change changes the spec of the App.
func (s *site) change(mutate func(*appv1.AppSpec)) {
	s.Helper()
	plane.Read(s, s.app)
	plane.Change(s, s.app, func() { mutate(&s.app.Spec) })
}

// annotate sets an annotation of the App, and removes it if the value is empty.
func (s *site) annotate(key, value string) {
	s.Helper()
	plane.Read(s, s.app)
	plane.Change(s, s.app, func() {
		if metav1.SetMetaDataAnnotation(&s.app.ObjectMeta, key, value); value == "" {
			delete(s.app.Annotations, key)
		}
	})
}

// troubled changes the spec, and waits for the reason of Ready.
func (s *site) troubled(reason string, mutate func(*appv1.AppSpec)) {
	s.Helper()
	s.change(mutate)
	s.reports(reason)
}

// reports waits until Ready has a reason.
func (s *site) reports(reason string) {
	s.Helper()
	plane.Until(s, s.app, func() error { return standing(s.app, reason) })
}

// settles waits until the rollout of Deployment web is done. The controller of Deployments, turned back in the middle of a rollout, counts pods by
// the earlier status of a ReplicaSet, and may delete one too many.
func (s *site) settles() {
	s.Helper()
	d := &appsv1.Deployment{ObjectMeta: fixture.Meta(s.u.namespace, "web")}
	plane.Until(s, d, func() error {
		if is, wanted := d.Status, ptr.Deref(d.Spec.Replicas, 1); is.ObservedGeneration < d.Generation || is.UpdatedReplicas != wanted || is.Replicas != wanted || is.AvailableReplicas != wanted {
			return fmt.Errorf("the rollout goes on: %+v", is)
		}
		return nil
	})
}

// advises fails the test unless "why" advises a clause about a resource.
func (s *site) advises(name, clause string) {
	s.Helper()
	if advice := s.advice(name); !slices.Contains(advice, clause) {
		s.Errorf("%s: the advice is %q, want %q", name, advice, clause)
	}
}

// advice returns the clauses of what "why" advises about a resource.
func (s *site) advice(name string) []string {
	s.Helper()
	var why view.Why
	if err := json.Unmarshal([]byte(s.u.run("why", name, "-o", "json")), &why); err != nil {
		s.Fatal(err)
	}
	return clausesOf(why.Advice)
}

// follows runs the command of a clause as it is printed, with flags after it.
func (s *site) follows(clause string, flags ...string) string {
	s.Helper()
	command := printedCommand.FindString(clause)
	if command == "" {
		s.Fatalf("%q has no command", clause)
	}
	words := append(strings.Fields(strings.ReplaceAll(command, inAnyNamespace, " -n "+s.u.namespace)), flags...)
	cmd := exec.CommandContext(s.Context(), filepath.Join(filepath.Dir(os.Getenv("CLUSTER_BINARY")), "kubectl"), words[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.u.config, "HOME="+s.TempDir(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// serving reads what clients see.
func (s *site) serving() served {
	s.Helper()
	now := served{
		selectors: map[string]map[string]string{}, labels: map[string]map[string]string{}, endpoints: map[string]int{}, pods: map[types.UID]map[string]string{},
	}
	var services corev1.ServiceList
	var pods corev1.PodList
	var all discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &pods, &all} {
		if err := plane.Client.List(s.Context(), list, client.InNamespace(s.u.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	for i := range services.Items {
		of := &services.Items[i]
		now.selectors[of.Name], now.labels[of.Name] = of.Spec.Selector, of.Labels
	}
	for i := range all.Items {
		now.endpoints[all.Items[i].Labels[discoveryv1.LabelServiceName]] += readyEndpoints(&all.Items[i])
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && isReady(pod) {
			now.pods[pod.UID] = pod.Labels
		}
	}
	return now
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func readyEndpoints(slice *discoveryv1.EndpointSlice) (n int) {
	for i := range slice.Endpoints {
		if ready := slice.Endpoints[i].Conditions.Ready; ready == nil || *ready {
			n++
		}
	}
	return n
}

// note notes what serves, once each Service leads to all ready pods that it selects, and follows the endpoints from then on.
func (s *site) note() {
	s.Helper()
	harness.Eventually(s, func() error {
		now := s.serving()
		for name, selector := range now.selectors {
			n := 0
			for _, labels := range now.pods {
				if selects(selector, labels) {
					n++
				}
			}
			if now.endpoints[name] != n {
				return fmt.Errorf("Service %s leads to %d of %d pods", name, now.endpoints[name], n)
			}
		}
		s.was = now
		return nil
	})
	s.slices = harness.Follow[*discoveryv1.EndpointSlice](s, plane, &discoveryv1.EndpointSliceList{}, s.u.namespace)
}

// selects reports whether a selector selects pods with labels.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// keeps fails the test unless all that served is as it was noted: no Service has another selector, lacks a label or has led to fewer
// pods at any time.
func (s *site) keeps() {
	s.Helper()
	now := s.serving()
	for name, selector := range s.was.selectors {
		if !maps.Equal(selector, now.selectors[name]) {
			s.Errorf("Service %s selects %v, and selected %v", name, now.selectors[name], selector)
		}
		for key, value := range s.was.labels[name] {
			if now.labels[name][key] != value {
				s.Errorf("Service %s has %s=%q, and had %q", name, key, now.labels[name][key], value)
			}
		}
		if now.endpoints[name] < s.was.endpoints[name] {
			s.Errorf("Service %s leads to %d pods, and led to %d", name, now.endpoints[name], s.was.endpoints[name])
		}
	}
	s.slices.Each(func(slice *discoveryv1.EndpointSlice) {
		name := slice.Labels[discoveryv1.LabelServiceName]
		if n := readyEndpoints(slice); n < s.was.endpoints[name] {
			s.Errorf("Service %s led to %d pods in between, and to %d before", name, n, s.was.endpoints[name])
		}
	})
}

// keepsPods is keeps for an advice that replaces no pod.
func (s *site) keepsPods() {
	s.Helper()
	s.keeps()
	now := s.serving()
	for uid, labels := range s.was.pods {
		if !maps.Equal(labels, now.pods[uid]) {
			s.Errorf("the pod with the labels %v has the labels %v, or is gone", labels, now.pods[uid])
		}
	}
}
